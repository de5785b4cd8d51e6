"""Learns a WordPiece vocabulary from text and writes it as vocab.txt, one token a line.

Text is read from files, folders, patterns, .gz, .jsonl and tensorflow_datasets names, of any size: what is kept in
memory is a table of at most two million words. It is normalised and split into words exactly as the tokenizer does;
which pieces are learnt from the words is decided by the library Hugging Face tokenizers. The same text and flags give
the same bytes, with any number of processes.

Example:
  python -m data_prep.build_vocabulary --input_file='text/*.txt' --output_file=vocab.txt --vocab_size=30000
"""

import dataclasses
import os
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from absl import flags

from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

if TYPE_CHECKING:
    from keras_bert.tokenization.vocabulary import Vocabulary


def define_flags() -> None:
    flags.DEFINE_list("input_file", None, "Text: files, folders, patterns, tfds:NAME, with commas between them.")
    flags.DEFINE_string("output_file", None, "The vocabulary to write, usually named vocab.txt.")
    flags.DEFINE_integer("vocab_size", 30000, "Number of tokens, all kinds together. Less come out of too little text.")
    flags.DEFINE_bool("do_lower_case", True, "Lower-case the text and strip accents, for an uncased model.")
    flags.DEFINE_integer("min_frequency", 2, "Pieces that occur less often are not learnt.")
    flags.DEFINE_float(
        "character_coverage",
        0.9999,
        "The share of the text's characters that the vocabulary must be able to spell; the rarest characters are left "
        "out, and words with them become [UNK].",
    )
    flags.DEFINE_integer("num_unused_tokens", 0, "Slots [unused0], [unused1], ... for tokens to be added later.")
    flags.DEFINE_string("text_field", "text", "The field with the text, in .jsonl and in tensorflow_datasets.")
    flags.DEFINE_string("tfds_data_dir", None, "Where tensorflow_datasets keeps its data. By default its own folder.")
    flags.DEFINE_integer("num_processes", 1, "Processes that count words.")
    flags.mark_flags_as_required(["input_file", "output_file"])


# Every vocabulary can spell these, even if the text it was learnt from could not.
_ALWAYS_SPELT = string.ascii_letters + string.digits + string.punctuation

# The learner takes text, not counts: beyond this many words the counts are scaled down together.
_MAX_WORDS_TO_LEARNER = 50_000_000


@dataclasses.dataclass(frozen=True)
class VocabularySummary:
    """What came of `build_vocabulary`.

    Attributes:
        vocabulary: `Vocabulary`.
        num_words: words in the text.
        num_different_words: how many of them differ.
        num_characters: different characters that the vocabulary can spell.
        unknown_share: the share of the text's words that have other characters, 0 to 1.
    """

    vocabulary: "Vocabulary"
    num_words: int
    num_different_words: int
    num_characters: int
    unknown_share: float

    def __str__(self):
        return (
            f"{len(self.vocabulary):,} tokens, which spell {self.num_characters:,} characters, learnt from "
            f"{self.num_words:,} words ({self.num_different_words:,} different); {self.unknown_share:.3%} of the words "
            "have other characters"
        )


def build_vocabulary(
    input_file: str | Sequence[str],
    output_file: str | os.PathLike,
    *,
    vocab_size: int = 30000,
    do_lower_case: bool = True,
    min_frequency: int = 2,
    character_coverage: float = 0.9999,
    num_unused_tokens: int = 0,
    text_field: str = "text",
    tfds_data_dir: str | None = None,
    num_processes: int = 1,
    show_progress: bool = False,
) -> VocabularySummary:
    """Learns a WordPiece vocabulary from text and writes it; see the top of this file.

    Args:
        input_file: what `data_prep.text.corpus.read_documents` takes.
        output_file: an existing file is replaced, whole or not at all.
        num_processes: with more than one, the calling script needs the usual `if __name__ == "__main__":`.

    Raises:
        InputError: the text cannot be read or has no words, a value is out of range, `vocab_size` is too small for
            the special tokens and the characters of the text, or the file cannot be written.
    """
    from tqdm import tqdm

    from data_prep.text.corpus import input_size, list_sources, read_documents
    from data_prep.text.word_counts import count_words
    from keras_bert.program.atomic_output import atomic_file, check_output_file

    _check_values(vocab_size, min_frequency, character_coverage, num_unused_tokens, num_processes)
    check_output_file(output_file)
    check_output_file(output_file, list_sources(input_file))
    # Opened first: that nothing can be written there should be said before hours of counting.
    with atomic_file(output_file) as file:
        size = input_size(input_file, tfds_data_dir=tfds_data_dir)
        with tqdm(desc="counting words", total=size, unit="B", unit_scale=True, disable=not show_progress) as progress:
            documents = read_documents(
                input_file, text_field=text_field, tfds_data_dir=tfds_data_dir, on_progress=progress.update
            )
            counts = count_words(documents, do_lower_case, num_processes=num_processes)
        summary = learn_vocabulary(
            counts,
            vocab_size=vocab_size,
            do_lower_case=do_lower_case,
            min_frequency=min_frequency,
            character_coverage=character_coverage,
            num_unused_tokens=num_unused_tokens,
            show_progress=show_progress,
        )
        file.write("".join(f"{token}\n" for token in summary.vocabulary.tokens).encode("utf-8"))
    return summary


def learn_vocabulary(
    counts: Counter[str],
    *,
    vocab_size: int,
    do_lower_case: bool = True,
    min_frequency: int = 2,
    character_coverage: float = 0.9999,
    num_unused_tokens: int = 0,
    show_progress: bool = False,
) -> VocabularySummary:
    """Learns a vocabulary from the counts of normalised words (`word_counts.count_words`).

    The tokens come in this order: [PAD] [UNK] [CLS] [SEP] [MASK], unused slots, characters, characters that continue a
    word, and pieces of several characters, the most useful first.

    Raises:
        InputError: there are no words, or `vocab_size` is too small.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    from keras_bert.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

    if not counts:
        raise InputError("The text has no words: it is nothing but white space and control characters.")
    characters = _characters(counts, character_coverage, do_lower_case)
    known = {word: count for word, count in counts.items() if characters.issuperset(word)}
    first_tokens = [
        *SPECIAL_TOKENS,
        *(f"[unused{number}]" for number in range(num_unused_tokens)),
        *sorted(characters),
        *(f"##{character}" for character in sorted(_continuing_characters(known, characters))),
    ]
    if vocab_size < len(first_tokens):
        raise InputError(
            f"vocab_size={vocab_size} is too small: special tokens, unused slots and the characters of the text take "
            f"{len(first_tokens)}. Use a larger one, or a lower character_coverage."
        )
    num_words = sum(counts.values())
    scale = min(1.0, _MAX_WORDS_TO_LEARNER / num_words)
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=max(1, round(min_frequency * scale)),
        # The learner numbers pieces in the random order of its hash tables, and breaks ties by number. With all
        # characters given as special tokens the numbers are fixed, and so is what is learnt.
        special_tokens=first_tokens,
        initial_alphabet=sorted(characters),
        limit_alphabet=len(characters),
        continuing_subword_prefix="##",
        show_progress=show_progress,
    )
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(_text_with_counts(known, scale), trainer)
    ids = tokenizer.get_vocab()
    return VocabularySummary(
        vocabulary=Vocabulary(sorted(ids, key=ids.get)),
        num_words=num_words,
        num_different_words=len(counts),
        num_characters=len(characters),
        unknown_share=1 - sum(known.values()) / num_words,
    )


def _check_values(vocab_size, min_frequency, character_coverage, num_unused_tokens, num_processes) -> None:
    for name, value, least in [
        ("vocab_size", vocab_size, 1),
        ("min_frequency", min_frequency, 1),
        ("num_unused_tokens", num_unused_tokens, 0),
        ("num_processes", num_processes, 1),
    ]:
        if value < least:
            raise InputError(f"{name} must be {least} or more. Received: {value}")
    if not 0.0 < character_coverage <= 1.0:
        raise InputError(f"character_coverage must be above 0 and at most 1. Received: {character_coverage}")


def _characters(counts: Counter[str], coverage: float, do_lower_case: bool) -> set[str]:
    """Returns the most frequent characters that make up `coverage` of the text, and those of ASCII."""
    character_counts = Counter()
    for word, count in counts.items():
        for character in word:
            character_counts[character] += count
    characters = set(_ALWAYS_SPELT.lower() if do_lower_case else _ALWAYS_SPELT)
    left_out = (1.0 - coverage) * character_counts.total()
    for character, count in sorted(character_counts.items(), key=lambda item: (item[1], item[0])):
        left_out -= count
        # Compared with a little room, for the rounding of 1 - coverage.
        if left_out < -1e-6:
            characters.add(character)
    return characters


def _continuing_characters(words: Iterable[str], characters: set[str]) -> set[str]:
    """Returns the characters that stand inside words; ASCII letters and digits always can."""
    inside = {character for word in words for character in word[1:]}
    return inside | {character for character in characters if character.isascii() and character.isalnum()}


def _text_with_counts(counts: dict[str, int], scale: float) -> Iterator[str]:
    """Yields text in which every word occurs as often as it should, the most frequent words first."""
    for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        rest = int(count * scale)
        while rest > 0:
            repeats = min(rest, 1000)
            yield f"{word} " * repeats
            rest -= repeats


def main() -> None:
    """Reads the flags and writes the vocabulary."""
    arguments = flags.FLAGS
    summary = build_vocabulary(
        arguments.input_file,
        arguments.output_file,
        vocab_size=arguments.vocab_size,
        do_lower_case=arguments.do_lower_case,
        min_frequency=arguments.min_frequency,
        character_coverage=arguments.character_coverage,
        num_unused_tokens=arguments.num_unused_tokens,
        text_field=arguments.text_field,
        tfds_data_dir=arguments.tfds_data_dir,
        num_processes=arguments.num_processes,
        show_progress=True,
    )
    print(f"{arguments.output_file}: {summary}")


def command() -> None:
    """Console-script entry."""
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
