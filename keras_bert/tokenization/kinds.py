"""Reads and makes tokenizers of every kind."""

import importlib.util
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from keras_bert.program.errors import InputError, how_to_install
from keras_bert.program.json_files import member
from keras_bert.registry import BYTE_PAIR, SENTENCE_PIECE, WORD_PIECE
from keras_bert.tokenization import byte_pair, sentence_piece_forms
from keras_bert.tokenization.byte_pair import BytePairTokenizer
from keras_bert.tokenization.sentence_piece import SentencePieceTokenizer
from keras_bert.tokenization.sentence_piece_files import read_sentence_piece
from keras_bert.tokenization.stream_vocabulary import VOCABULARY_JSON, StreamVocabulary
from keras_bert.tokenization.tokenizer import TokenTable
from keras_bert.tokenization.tokenizer_json import TOKENIZER_FILE, read_tokenizer_json
from keras_bert.tokenization.vocabulary import VOCABULARY_FILE, Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer
from keras_bert.tokenization.wordpiece_files import read_word_piece


def as_tokenizer(vocabulary: TokenTable | None, do_lower_case: bool) -> Any:
    """Returns the tokenizer of a vocabulary. Only a `Vocabulary` gets the casing: the others are tokenizers."""
    return WordPieceTokenizer(vocabulary, do_lower_case) if isinstance(vocabulary, Vocabulary) else vocabulary


def find_vocabulary(path: str | os.PathLike, reads_tokenizer_json: bool = True) -> TokenTable | None:
    """Reads the vocabulary of a model from the files in a folder, from a `vocab.txt`, or from a `*.model`.

    Args:
        path: the folder or file.
        reads_tokenizer_json: whether a `tokenizer.json` may be the only file.

    Returns a `StreamVocabulary` if the folder has a `stream_vocab.json`; else the vocabulary of `read_folder`, without
    the casing of a WordPiece. Raises `InputError` if a file is damaged, or one of a pair is missing.
    """
    if os.path.isdir(path):
        if os.path.isfile(os.path.join(path, VOCABULARY_JSON)):
            return StreamVocabulary.find(path)
        found = read_folder(path, reads_tokenizer_json=reads_tokenizer_json)
        return None if found is None else found.vocabulary
    if os.fspath(path).endswith(".model"):
        return SentencePieceTokenizer.from_file(path)
    folder, name = os.path.split(os.fspath(path))
    # The settings of a vocab.txt are in the files beside it.
    has_settings = name == VOCABULARY_FILE and os.path.isfile(path)
    word_piece = read_word_piece(folder or os.curdir) if has_settings else None
    return Vocabulary.from_file(path) if word_piece is None else word_piece.vocabulary


def read_folder(
    folder: str | os.PathLike, makes_rows: bool = True, reads_tokenizer_json: bool = True
) -> TokenTable | None:
    """Reads the tokenizer of a folder, of the kind that its files have.

    Args:
        makes_rows: whether the special tokens around texts matter.
        reads_tokenizer_json: whether a `tokenizer.json` may be the only file.

    Returns a `WordPieceTokenizer`, or a `Vocabulary` if no file says whether texts are lower-cased; a
    `BytePairTokenizer` or a `SentencePieceTokenizer`; or None if there are no files of these. Raises `InputError` if a
    file is damaged, the files are of several kinds or of an unknown one, or the tokenizer's package is not installed.
    """
    kind = kind_of_folder(folder, reads_tokenizer_json)
    if kind is None:
        return None
    package = _KINDS[kind].package
    if package and importlib.util.find_spec(package) is None:
        raise InputError(
            f"The tokenizer of {os.fspath(folder)} needs the package {package}, which is not installed. "
            f"{how_to_install(package)}"
        )
    if kind == WORD_PIECE:
        return read_word_piece(folder, makes_rows)
    if kind == SENTENCE_PIECE:
        return read_sentence_piece(folder)
    vocabulary, merges = (os.path.join(folder, name) for name in (byte_pair.VOCABULARY_FILE, byte_pair.MERGES_FILE))
    found = [file for file in (vocabulary, merges) if os.path.isfile(file)]
    if len(found) == 1:
        missing = merges if found == [vocabulary] else vocabulary
        raise InputError(
            f"There is {found[0]}, but no {missing}. Byte-level BPE needs both files of the same model: copy the other."
        )
    return BytePairTokenizer.from_folder(folder)


class _Kind(NamedTuple):
    """How a kind of tokenizer is recognised: by its model in tokenizer.json, and by files of its own."""

    model: str
    files: Sequence[str]
    package: str = ""  # the one that finds its tokens, if that is not our own code


_KINDS = {
    WORD_PIECE: _Kind("WordPiece", (VOCABULARY_FILE,)),
    BYTE_PAIR: _Kind("BPE", (byte_pair.VOCABULARY_FILE, byte_pair.MERGES_FILE), "tokenizers"),
    SENTENCE_PIECE: _Kind("Unigram", sentence_piece_forms.MODEL_FILES, "sentencepiece"),
}


def kind_of_folder(folder: str | os.PathLike, reads_tokenizer_json: bool = True) -> str | None:
    """Returns `WORD_PIECE`, `BYTE_PAIR` or `SENTENCE_PIECE`; None if a folder has no tokenizer.

    The model in `tokenizer.json` must be one of these kinds and agree with the names of the other files, otherwise this
    raises `InputError`. The reader of the kind refuses a `tokenizer_class` of another one.
    """
    found: dict[str, str] = {}
    file = os.path.join(folder, TOKENIZER_FILE)
    stored = member(read_tokenizer_json(folder), "model", dict, file) if reads_tokenizer_json else None
    if stored is not None:
        model = member(stored, "type", str, file, "WordPiece")  # older files do not state it
        kind = next((kind for kind, its in _KINDS.items() if its.model == model), None)
        if kind is None:
            raise InputError(
                f"{file}: the model is {model!r:.100}. Supported are {', '.join(its.model for its in _KINDS.values())}."
            )
        found[kind] = f"{TOKENIZER_FILE} has the model {model}"
    for kind, its in _KINDS.items():
        names = [name for name in its.files if os.path.isfile(os.path.join(folder, name))]
        if names:
            found.setdefault(kind, f"{names[0]} is of {its.model}")
    if len(found) > 1:
        raise InputError(
            f"{os.fspath(folder)} has files of tokenizers of several kinds: {', '.join(found.values())}. Remove those "
            "that do not belong to the model."
        )
    return next(iter(found), None)


def load_vocabulary(path: str | os.PathLike) -> TokenTable:
    """Reads a vocabulary as `find_vocabulary` does.

    Raises:
        InputError: a file is damaged, or there is no vocabulary.
    """
    vocabulary = find_vocabulary(path)
    if vocabulary is None:
        raise InputError(
            f"{os.fspath(path)} has no vocabulary. Expected: vocab.txt (WordPiece), vocab.json and merges.txt "
            f"(byte-level BPE), or one of {', '.join(sentence_piece_forms.MODEL_FILES)} (SentencePiece)."
        )
    return vocabulary
