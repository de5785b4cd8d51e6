"""Reads questions to an exported model from flags or from standard input, and prints the answers."""

import base64
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from absl import flags

from keras_bert.program.errors import InputError
from keras_bert.program.printing import print_data

BATCH_SIZE = 32
_NO_TEXT = "(empty text)"
_FLAGS = {
    "text": "A text to ask",
    "text_b": "The second text of a pair, as often as --text",
    "question": "A question about a text",
    "context": "The text with the answer, as often as --question",
    "prompt": "The prompt of the choices, given once",
    "choices": "A choice; give several",
}
# The inputs of our exports, each in the order in which people give them.
_QUESTIONS = (("text",), ("text", "text_b"), ("question", "context"), ("prompt", "choices"))


def define_question_flags() -> None:
    for name, help in _FLAGS.items():
        flags.DEFINE_multi_string(name, [], help)


def given_questions() -> dict[str, list[str]]:
    """Returns the columns in the flags. Raises `InputError` if columns that belong together have different lengths."""
    given = {name: flags.FLAGS[name].value for name in _FLAGS if flags.FLAGS[name].value}
    for first, second, hint in (
        ("text", "text_b", ' Give them equally often; --text_b="" means a single text.'),
        ("question", "context", " Give them equally often."),
    ):
        counts = [len(given.get(name, ())) for name in (first, second)]
        if second in given and counts[0] != counts[1]:
            raise InputError(f"--{first} is given {counts[0]} times and --{second} {counts[1]} times.{hint}")
    if len(given.get("prompt", ())) > 1:
        raise InputError("--prompt is given more than once. Write several to standard input, one per line.")
    return given


class AskedModel:
    """An exported model, on a server or in this process, with the interface for `answer_questions`.

    `folder` is its name in messages. `ask` takes the `inputs` of the signature by name and returns the outputs, arrays
    by name. Raises `InputError` if a command line cannot give these inputs.
    """

    def __init__(
        self, folder: str, signature_name: str, inputs: Iterable[str], ask: Callable[..., dict], as_json: bool = False
    ):
        self.folder, self._ask, self._as_json = folder, ask, as_json
        self.columns = next((columns for columns in _QUESTIONS if set(columns) == set(inputs)), ())
        if not self.columns:
            raise InputError(
                f"{folder} takes {', '.join(sorted(inputs)) or 'nothing'} in {signature_name}, which cannot be asked "
                "from a command line. Use a client of keras_bert.tf_serving.client."
            )

    def ask(self, *columns) -> list[str]:
        from run_scripts.readable_answers import readable_answers

        asked = {name: list(values) for name, values in zip(self.columns, columns, strict=True)}
        outputs = self._ask(**{name: _filled(values) for name, values in asked.items()})
        return _json_lines(outputs) if self._as_json else readable_answers(outputs, asked)


def _filled(values: list) -> list:
    """Pads lists of choices to equal lengths; texts are unchanged."""
    if not values or not isinstance(values[0], list):
        return values
    most = max(map(len, values))
    return [row + [b""] * (most - len(row)) for row in values]


def _json_lines(outputs: dict) -> list[str]:
    def as_json(data: bytes) -> dict:
        return {"b64": base64.b64encode(data).decode("ascii")}

    rows = zip(*([(name, value) for value in values.tolist()] for name, values in outputs.items()), strict=True)
    return [json.dumps(dict(row), ensure_ascii=False, default=as_json) for row in rows]


def answer_questions(given: dict[str, list[str]], model, *, with_questions: bool = True) -> None:
    """Prints the answers of an `AskedModel` to the questions of `given_questions`, or to those on standard input.

    `with_questions` prints each question before its answer, and an empty line after it. Raises `InputError` if there is
    no question, or the model has other inputs.
    """
    if given:
        rows = _rows_of_flags(given, model)
        batch_size = BATCH_SIZE
    else:
        rows = read_rows(sys.stdin.buffer, model.columns)
        # People expect the answer to a line before they write the next one.
        batch_size = 1 if sys.stdin.isatty() else BATCH_SIZE
        if sys.stdin.isatty():
            print(f"Write one line for each: {', tab, '.join(model.columns)}. Ctrl-D ends.", file=sys.stderr)
    if not print_answers(model, rows, batch_size, with_questions):
        raise InputError("No text was given. Use --text=..., or write texts to standard input, one per line.")


def _rows_of_flags(given: dict[str, list[str]], model) -> list[tuple]:
    """Returns a tuple of columns for each question, like `read_rows`."""
    needed = " and ".join(f"--{name}" for name in model.columns)
    if set(given) - set(model.columns):
        wrong = ", ".join(f"--{name}" for name in given if name not in model.columns)
        takes = "takes single texts, and a second text was given" if wrong == "--text_b" else f"takes {needed}"
        raise InputError(f"{model.folder} {takes}. Received: {wrong}")
    if set(model.columns) - set(given) - {"text_b"}:
        raise InputError(f"{model.folder} takes {needed}. Received: --{next(iter(given))}")
    if "choices" in model.columns:
        return [(given["prompt"][0], given["choices"])]
    columns = [given.get(name, [""] * len(given[model.columns[0]])) for name in model.columns]
    return list(zip(*columns, strict=True))


def read_rows(lines, columns: Sequence[str]) -> Iterator[tuple]:
    """Yields a tuple of columns for each line: bytes, or a list of bytes for choices. A blank line is an empty text.

    Raises `InputError` if a line, blank or not, has no context or no choices.
    """
    for number, line in enumerate(lines, start=1):
        line = line.rstrip(b"\r\n")
        if len(columns) == 1:
            yield (line,)
            continue
        first, _, rest = line.partition(b"\t")
        if columns[-1] in ("context", "choices") and not rest.strip():
            found = repr(_readable(line))[:100] if line.strip() else "a blank line"
            raise InputError(
                f"Line {number} cannot be asked: it has no {columns[-1]} after a tab. Expected "
                f"{', a tab, '.join(columns)}. Received: {found}"
            )
        yield first, [choice for choice in rest.split(b"\t") if choice] if columns[-1] == "choices" else rest


def print_answers(model, rows, batch_size: int, with_questions: bool) -> int:
    """Prints every question with its answer. Returns the number of questions."""
    count = 0
    for batch in _batches(rows, batch_size):
        answers = model.ask(*zip(*batch, strict=True))
        for row, answer in zip(batch, answers, strict=True):
            if not with_questions:
                print_data(answer)
                continue
            # Choices are printed with the answer.
            question = "  |  ".join(_readable(column) for column in row if column and not isinstance(column, list))
            print(f"{question if question.strip() else _NO_TEXT}\n{answer}\n", flush=True)
        count += len(batch)
    return count


def _batches(rows, size: int) -> Iterator[list]:
    """Yields the rows in lists. Rows before an unreadable one are yielded before the error is raised."""
    batch = []
    try:
        for row in rows:
            batch.append(row)
            if len(batch) == size:
                yield batch
                batch = []
    except InputError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _readable(text: str | bytes) -> str:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "replace")
