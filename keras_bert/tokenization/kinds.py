"""Reads, writes and makes tokenizers of every kind."""

import os

from keras_bert.program.errors import InputError
from keras_bert.program.json_files import member, read_json_object
from keras_bert.tokenization import byte_pair, sentence_piece_forms
from keras_bert.tokenization.byte_pair import BytePairTokenizer
from keras_bert.tokenization.sentence_piece import SentencePieceTokenizer
from keras_bert.tokenization.sentence_piece_files import read_sentence_piece
from keras_bert.tokenization.stream_vocabulary import VOCABULARY_JSON, StreamVocabulary
from keras_bert.tokenization.tokenizer import GraphForm, Tokenizer, TokenTable
from keras_bert.tokenization.vocabulary import VOCABULARY_FILE, Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer
from keras_bert.tokenization.wordpiece_files import read_word_piece, write_word_piece


def python_tokenizer(vocabulary: TokenTable, do_lower_case: bool) -> Tokenizer:
    """Returns the tokenizer in Python. Only WordPiece uses `do_lower_case`."""
    if isinstance(vocabulary, Tokenizer):
        return vocabulary
    assert isinstance(vocabulary, Vocabulary)
    return WordPieceTokenizer(vocabulary, do_lower_case)


def graph_tokenizer(vocabulary: TokenTable, do_lower_case: bool, core_operations: bool = False) -> GraphForm:
    """Returns the tokenizer for the TensorFlow graph. Only WordPiece uses `do_lower_case`.

    Args:
        core_operations: whether it must do without tensorflow-text, as in `Tokenizer.graph`.
    """
    return python_tokenizer(vocabulary, do_lower_case).graph(core_operations)


def find_vocabulary(path: str | os.PathLike, reads_tokenizer_json: bool = True) -> TokenTable | None:
    """Reads the vocabulary of a model from the files in a folder, from a `vocab.txt`, or from a `*.model`.

    Args:
        path: the folder or file.
        reads_tokenizer_json: whether a `tokenizer.json` may be the only file.

    Returns:
        a `Vocabulary` if there is a `vocab.txt`, or a `tokenizer.json` with a model of WordPiece; a
        `SentencePieceTokenizer` if there is one of its model files, such as `spiece.model`, or a `tokenizer.json` with
        a model of Unigram; a `BytePairTokenizer` if there are a `vocab.json` and a `merges.txt`, or a `tokenizer.json`
        with a model of BPE; a `StreamVocabulary` if there is a `stream_vocab.json`;
        None if the folder has none of these.

    Raises:
        InputError: a file is damaged, or one of a pair is missing.
    """
    if not os.path.isdir(path):
        if os.fspath(path).endswith(".model"):
            return SentencePieceTokenizer.from_file(path)
        folder, name = os.path.split(os.fspath(path))
        # The settings of a vocab.txt are in the files beside it.
        has_settings = name == VOCABULARY_FILE and os.path.isfile(path)
        return _word_piece(folder or os.curdir) if has_settings else Vocabulary.from_file(path)
    wordpiece, vocabulary, merges = (
        os.path.join(path, name) for name in (VOCABULARY_FILE, byte_pair.VOCABULARY_FILE, byte_pair.MERGES_FILE)
    )
    if os.path.isfile(os.path.join(path, VOCABULARY_JSON)):
        return StreamVocabulary.find(path)
    if os.path.isfile(wordpiece):
        return _word_piece(path)
    if any(os.path.isfile(os.path.join(path, name)) for name in sentence_piece_forms.MODEL_FILES):
        return read_sentence_piece(path)
    found = [file for file in (vocabulary, merges) if os.path.isfile(file)]
    if len(found) == 1:
        missing = merges if found == [vocabulary] else vocabulary
        raise InputError(
            f"There is {found[0]}, but no {missing}. Byte-level BPE needs both files of the same model: copy the other."
        )
    if found:
        return BytePairTokenizer.from_folder(path)
    model = _model_of_tokenizer_json(path) if reads_tokenizer_json else None
    if model == "WordPiece":
        return _word_piece(path)
    if model == "Unigram":
        return read_sentence_piece(path)
    return BytePairTokenizer.from_folder(path) if model == "BPE" else None


def _word_piece(folder: str | os.PathLike) -> Vocabulary | None:
    found = read_word_piece(folder)
    return found and found[0]


def _model_of_tokenizer_json(path: str | os.PathLike) -> str | None:
    file = os.path.join(path, byte_pair.TOKENIZER_FILE)
    if not os.path.isfile(file):
        return None
    return member(member(read_json_object(file), "model", dict, file, {}), "type", str, file)


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


def save_vocabulary(vocabulary: TokenTable, folder: str | os.PathLike) -> None:
    """Writes the files that `find_vocabulary` reads into an existing folder."""
    if isinstance(vocabulary, Vocabulary):
        write_word_piece(vocabulary, folder)
    elif isinstance(vocabulary, (Tokenizer, StreamVocabulary)):
        vocabulary.save(folder)
