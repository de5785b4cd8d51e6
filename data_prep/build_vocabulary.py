"""Learns a vocabulary from text: WordPiece (BERT), byte-level BPE (RoBERTa, ModernBERT) or SentencePiece (ALBERT).

Text of any size is read from files, folders, patterns, .gz, .jsonl, .parquet and tensorflow_datasets names. The command
keeps a table of at most two million words in memory. The same text and flags give the same bytes, with any number of
processes.

Examples:
  python -m data_prep.build_vocabulary --input_file='text/*.txt' --output_file=vocab.txt --vocab_size=30000
  python -m data_prep.build_vocabulary --kind=byte_pair --input_file='text/*.txt' --output_file=roberta-vocabulary
"""

import dataclasses
import functools
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import MISSING

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_option_flags, flag_values
from keras_bert.program.options import Options, option
from keras_bert.registry import BYTE_PAIR, SENTENCE_PIECE, WORD_PIECE
from keras_bert.tokenization.tokenizer import TokenTable

MODERN_BYTE_PAIR = "modern_byte_pair"
KINDS = (WORD_PIECE, BYTE_PAIR, MODERN_BYTE_PAIR, SENTENCE_PIECE)
_BYTE_PAIRS = (BYTE_PAIR, MODERN_BYTE_PAIR)
# Kind -> the options that its learner takes besides vocab_size.
_OPTIONS = {
    WORD_PIECE: ("do_lower_case", "character_coverage", "min_frequency", "num_unused_tokens"),
    BYTE_PAIR: ("min_frequency",),
    MODERN_BYTE_PAIR: ("min_frequency",),
    SENTENCE_PIECE: ("do_lower_case", "character_coverage"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyOptions(Options):
    """The flags of the command, which are the arguments of `build_vocabulary`."""

    input_file: Sequence[str] | str = option(MISSING, "Text: files, folders, patterns, tfds:NAME, separated by commas.")
    kind: str = option(WORD_PIECE, "For BERT, RoBERTa, ModernBERT or ALBERT, in this order.", choices=KINDS)
    output_file: str | os.PathLike = option(MISSING, "A file, usually vocab.txt, for wordpiece, or a folder.")
    vocab_size: int = option(30000, "Number of tokens of all kinds. Short texts yield fewer.", at_least=1)
    do_lower_case: bool = option(True, "Lower-case and strip accents, as for uncased models; not for byte_pair kinds.")
    min_frequency: int = option(2, "Pieces that occur less often are not learnt.", at_least=1)
    character_coverage: float = option(
        0.9999, "The share of the characters to cover. Words with others become [UNK].", above=0, at_most=1
    )
    num_unused_tokens: int = option(0, "Number of slots [unused0], [unused1], ... for later tokens.", at_least=0)
    text_field: str = option("text", "The field with the text, in .jsonl and in tensorflow_datasets.")
    tfds_data_dir: str | None = option(None, "The data folder of tensorflow_datasets (default: its own).")
    num_processes: int = option(1, "Processes that count words.", at_least=1)


def define_flags() -> None:
    define_option_flags(VocabularyOptions)
    flags.mark_flags_as_required(["input_file", "output_file"])


@dataclasses.dataclass(frozen=True)
class VocabularySummary:
    """The result of `build_vocabulary`.

    `vocabulary` is a `Vocabulary`, `BytePairTokenizer` or `SentencePieceTokenizer`. `num_characters` is the number of
    distinct characters that it covers, or 0 for all; `unknown_share` of the words, 0 to 1, contain other characters.
    """

    vocabulary: TokenTable
    num_words: int
    num_different_words: int
    num_characters: int
    unknown_share: float

    def __str__(self):
        characters = f"{self.num_characters:,}" if self.num_characters else "all"
        return (
            f"{len(self.vocabulary):,} tokens, which spell {characters} characters, learnt from "
            f"{self.num_words:,} words ({self.num_different_words:,} different); {self.unknown_share:.3%} of the words "
            "have other characters"
        )


def build_vocabulary(
    input_file: str | Sequence[str],
    output_file: str | os.PathLike,
    *,
    kind: str = VocabularyOptions.kind,
    vocab_size: int = VocabularyOptions.vocab_size,
    do_lower_case: bool = VocabularyOptions.do_lower_case,
    min_frequency: int = VocabularyOptions.min_frequency,
    character_coverage: float = VocabularyOptions.character_coverage,
    num_unused_tokens: int = VocabularyOptions.num_unused_tokens,
    text_field: str = VocabularyOptions.text_field,
    tfds_data_dir: str | None = VocabularyOptions.tfds_data_dir,
    num_processes: int = VocabularyOptions.num_processes,
    show_progress: bool = False,
) -> VocabularySummary:
    """Learns a vocabulary from text and writes it; see the top of this file.

    Args:
        input_file: as in `data_prep.text.corpus.read_documents`.
        output_file: for "wordpiece" a file, which is replaced atomically; for the other kinds a folder, which must be
            empty or missing.
        kind: "wordpiece", "byte_pair", "modern_byte_pair" (with NFC and tokens for runs of spaces), "sentence_piece".
        num_processes: with more than one, the calling script needs the usual `if __name__ == "__main__":`.

    Raises:
        InputError: the text cannot be read or has no words, a value is out of range, the kind does not use one of the
            given options, `vocab_size` is too small for the special tokens and the characters of the text, or the
            output cannot be written.
    """
    options = VocabularyOptions(
        input_file=input_file,
        output_file=output_file,
        kind=kind,
        vocab_size=vocab_size,
        do_lower_case=do_lower_case,
        min_frequency=min_frequency,
        character_coverage=character_coverage,
        num_unused_tokens=num_unused_tokens,
        text_field=text_field,
        tfds_data_dir=tfds_data_dir,
        num_processes=num_processes,
    )
    return _build(options, show_progress)


def _build(options: VocabularyOptions, show_progress: bool) -> VocabularySummary:
    from data_prep.text.corpus import list_sources
    from data_prep.vocabulary.word_counts import count_words_of_files
    from keras_bert.program.atomic_output import atomic_file, atomic_folder, check_output_file

    kind = options.kind
    for name in _OPTIONS[WORD_PIECE]:
        value = getattr(options, name)
        is_ignored = name not in _OPTIONS[kind] and name != "do_lower_case"
        if is_ignored and value != getattr(VocabularyOptions, name):
            raise InputError(f"{name}={value} has no effect on the kind {kind}. Leave the option out.")
    if kind == WORD_PIECE:
        check_output_file(options.output_file)
        check_output_file(options.output_file, list_sources(options.input_file))
    # Open the output first: an error should appear before hours of counting.
    with (atomic_file if kind == WORD_PIECE else atomic_folder)(options.output_file) as output:
        words_of, learn = _learner(kind)
        counts = count_words_of_files(
            options.input_file,
            options.do_lower_case,
            text_field=options.text_field,
            tfds_data_dir=options.tfds_data_dir,
            show_progress=show_progress,
            num_processes=options.num_processes,
            words_of=words_of,
        )
        if not counts:
            raise InputError("The text has no words, only white space and control characters. Give another text.")
        of_kind = {name: getattr(options, name) for name in _OPTIONS[kind]}
        vocabulary = learn(counts, vocab_size=options.vocab_size, show_progress=show_progress, **of_kind)
        if kind == WORD_PIECE:
            output.write("".join(f"{token}\n" for token in vocabulary.tokens).encode())
        else:
            vocabulary.save(output)
    return _summary(kind, vocabulary, counts)


def _learner(kind: str):
    """Returns the function that splits text into words, and the one that learns from their counts."""
    if kind in _BYTE_PAIRS:
        from data_prep.vocabulary import learn_byte_pair as learning

        if kind == MODERN_BYTE_PAIR:
            return learning.modern_byte_pair_words, functools.partial(learning.learn_byte_pair, is_modern=True)
        return learning.byte_pair_words, learning.learn_byte_pair
    if kind == SENTENCE_PIECE:
        from data_prep.vocabulary.learn_sentence_piece import learn_sentence_piece, sentence_piece_words

        return sentence_piece_words, learn_sentence_piece
    from data_prep.vocabulary.learn_wordpiece import learn_wordpiece
    from keras_bert.tokenization.wordpiece import words_of_stretch

    return words_of_stretch, learn_wordpiece


def _summary(kind: str, vocabulary: TokenTable, counts: Counter[str]) -> VocabularySummary:
    characters = {token for token in vocabulary.tokens if len(token) == 1}
    num_known = sum(count for word, count in counts.items() if kind in _BYTE_PAIRS or characters.issuperset(word))
    return VocabularySummary(
        vocabulary=vocabulary,
        num_words=counts.total(),
        num_different_words=len(counts),
        num_characters=0 if kind in _BYTE_PAIRS else len(characters),
        unknown_share=1 - num_known / counts.total(),
    )


def main() -> None:
    options = flag_values(VocabularyOptions)
    summary = build_vocabulary(**options, show_progress=True)
    print(f"{options['output_file']}: {summary}")


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
