"""Asks a SavedModel written by export_saved_model, and prints its answers.

Texts come from --text, which can be repeated, or from standard input, one a line. A model of pairs takes --text_b too,
or lines with a tab between the two texts; a missing second text means a single text.

Examples:
  python -m run_scripts.ask_saved_model --saved_model=saved_models/sentiment --text="a wonderful film"
  python -m run_scripts.ask_saved_model --saved_model=saved_models/bert --text="the capital of france is [MASK] ."
"""

import itertools
import sys
from collections.abc import Iterator

from absl import flags

from keras_bert.command_line import run_command
from keras_bert.errors import InputError


def define_flags() -> None:
    flags.DEFINE_string("saved_model", None, "A version of a SavedModel, or the folder of its versions.", required=True)
    flags.DEFINE_multi_string("text", [], "A text to ask")
    flags.DEFINE_multi_string("text_b", [], "The second text of a pair, as often as --text")


_BATCH_SIZE = 32


def main():
    arguments = flags.FLAGS
    if arguments.text_b and len(arguments.text_b) != len(arguments.text):
        raise InputError(
            f"--text is given {len(arguments.text)} times and --text_b {len(arguments.text_b)} times. "
            'Give them equally often; --text_b="" means a single text.'
        )
    from keras_bert.serving.ask import SavedModel

    model = SavedModel(arguments.saved_model)
    if arguments.text:
        texts = zip(arguments.text, arguments.text_b or [None] * len(arguments.text), strict=True)
        batch_size = _BATCH_SIZE
    else:
        texts = read_texts(sys.stdin.buffer, model.takes_pairs)
        # A person wants the answer to a line before writing the next one.
        batch_size = 1 if sys.stdin.isatty() else _BATCH_SIZE
        if sys.stdin.isatty():
            print("Write one text a line. Ctrl-D ends.", file=sys.stderr)
    if not print_answers(model, texts, batch_size):
        raise InputError("No text was given. Use --text=..., or write texts to standard input, one a line.")


def read_texts(lines, pairs: bool) -> Iterator[tuple[bytes, bytes | None]]:
    """Yields a text, and a second one if the model takes pairs, for each line that is not blank."""
    for line in lines:
        line = line.rstrip(b"\r\n")
        if line.strip():
            text, tab, text_b = line.partition(b"\t") if pairs else (line, b"", b"")
            yield text, text_b if tab else None


def print_answers(model, texts, batch_size: int) -> int:
    """Prints every text with its answer, and returns how many there were."""
    texts, count = iter(texts), 0
    while batch := list(itertools.islice(texts, batch_size)):
        first, second = zip(*batch, strict=True)
        has_second = any(text is not None for text in second)
        answers = model.ask(first, [text or "" for text in second] if has_second else None)
        for (text, text_b), answer in zip(batch, answers, strict=True):
            question = _readable(text) + (f"  |  {_readable(text_b)}" if text_b else "")
            print(f"{question}\n{answer}\n", flush=True)
        count += len(batch)
    return count


def _readable(text: str | bytes) -> str:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "replace")


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
