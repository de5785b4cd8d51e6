"""Vectors of one word in different sentences, which show its senses.

The token table has one vector for a word. The outputs of the encoder depend on the sentence: the `bank` of a river and
a `bank` that lends money get different vectors.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from keras_bert.embeddings.text_vectors import EncodedText, token_features
from keras_bert.program.errors import InputError
from keras_bert.program.long_work import progress_bar
from keras_bert.program.number_checks import check_numbers
from keras_bert.program.options import check_whole
from keras_bert.program.user_inputs import as_texts
from keras_bert.tasks.text_rows import checked_length, tokenizer_of
from keras_bert.tokenization.wordpiece import WordPieceTokenizer, split_at_white_space, words_of_stretch

LAYERS = (-1, -2, -3, -4)
_CONTEXT = 24  # characters on either side of the word


@dataclasses.dataclass(frozen=True)
class Occurrence:
    """A word in a text: `text[start:end]` of the text with this number, counted from 0."""

    text_number: int
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class WordVectors:
    """The N occurrences of a word.

    Attributes:
        occurrences: their places, in the order of the texts.
        vectors: float32 (N, H).
    """

    occurrences: tuple[Occurrence, ...]
    vectors: np.ndarray


def word_vectors(
    model: Any,
    texts: Sequence[str],
    words: str | Sequence[str],
    *,
    layers: Sequence[int] = LAYERS,
    max_seq_length: int | None = None,
    max_occurrences: int | None = None,
    batch_size: int = 32,
) -> WordVectors:
    """Returns a vector for every occurrence of a word: the mean of its pieces and of some layers.

    Args:
        model: a `BertEncoder` made with `output_hidden_states=True`, with a vocabulary.
        texts: strings, preferably single sentences.
        words: a word, or several forms of one (`["plant", "plants"]`); each may be an expression of several words.
            Case and accents matter only if they matter to the model.
        layers: -1 is the last layer; the mean of the last four is a common choice.
        max_seq_length: the number of tokens around an occurrence that the model reads. The default is the number of its
            positions.
        max_occurrences: the largest number of occurrences; if there are more, an even sample is taken. The default is
            all.
        batch_size: occurrences computed at once.

    Raises:
        InputError: the word does not occur or the vocabulary cannot spell it, a layer is not there, or the model has no
            vocabulary or does not return its layers.

    Example:
        encoder = BertEncoder.from_pretrained("uncased_L-12_H-768_A-12", output_hidden_states=True)
        found = word_vectors(encoder, ["He sat on the bank of the river.", "The bank lends money."], "bank")
        found.vectors.shape
        # (2, 768)
    """
    tokenizer_of(model)  # raises without a vocabulary
    texts, words = as_texts(texts), as_texts(words, "word")
    longest = checked_length(model.config, max_seq_length)
    if not isinstance(model.tokenizer, WordPieceTokenizer):
        raise InputError(
            "Words are found by WordPiece tokens, and this model has another kind of tokenizer. Use a BERT, a "
            "DistilBERT or an ELECTRA."
        )
    found = list(_find_in_texts(words, texts, model.tokenizer, longest))
    if not found:
        raise InputError(f"{' and '.join(map(repr, words))} does not occur in the {len(texts)} texts.")
    if max_occurrences is not None and len(found) > max_occurrences:
        found = [found[number] for number in np.linspace(0, len(found) - 1, max_occurrences).astype(int)]
    occurrences, rows, columns = zip(*found, strict=True)
    with progress_bar(total=len(rows), unit=" occurrences", desc="vectors", mininterval=1, delay=2) as bar:
        features = token_features(model, rows, layers, batch_size, bar.update)
        vectors = [array[place].mean(axis=(0, 1)) for array, place in zip(features, columns, strict=True)]
    return WordVectors(occurrences, np.array(vectors, np.float32))


def cluster(vectors: np.ndarray, count: int) -> np.ndarray:
    """Divides vectors, float (N, H), into `count` groups by their directions. A few can match the senses of a word.

    Agglomerative clustering by Ward's criterion of vectors at length 1: it takes no random start, and a few outlying
    vectors make no group of their own.

    Returns:
        int64 (N,): the group of each, numbered from 0 in the order in which they first occur.

    Raises:
        InputError: `count` is not from 1 to N, or a vector has values that are not numbers.
    """
    check_whole("count", count, at_least=1, at_most=len(vectors))
    check_numbers(np.asarray(vectors), "vector")
    if count == 1:
        return np.zeros(len(vectors), np.int64)
    from sklearn.cluster import AgglomerativeClustering  # only now, because it takes a second

    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    groups = AgglomerativeClustering(n_clusters=count, linkage="ward").fit_predict(unit)
    _, first, numbers = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers]


def contexts_of(texts: Sequence[str], found: WordVectors) -> list[str]:
    """Returns each occurrence with a few words on either side: "... on the [bank] of the river ..."."""
    contexts = []
    for one in found.occurrences:
        text = texts[one.text_number]
        before, after = text[: one.start], text[one.end :]
        if len(before) > _CONTEXT:
            before = f"... {before[-_CONTEXT:].partition(' ')[2]}"
        if len(after) > _CONTEXT:
            after = f"{after[:_CONTEXT].rpartition(' ')[0]} ..."
        contexts.append(" ".join(f"{before}[{text[one.start : one.end]}]{after}".split()))
    return contexts


def _find_in_texts(
    words: Sequence[str], texts: Sequence[str], tokenizer: WordPieceTokenizer, longest: int
) -> Iterator[tuple[Occurrence, EncodedText, slice]]:
    """Yields every occurrence, the `longest` tokens around it as a row for the model, and its place in that row."""
    vocabulary = tokenizer.vocabulary
    spellings = [_spelling(word, tokenizer, longest) for word in words]
    beginnings = [words_of_stretch(split_at_white_space(word)[0], True)[0] for word in words]
    for number, text in enumerate(progress_bar(texts, unit=" texts", desc="looking", mininterval=1, delay=2)):
        if text.isascii() and text.isprintable() and not any(beginning in text.lower() for beginning in beginnings):
            continue  # told without tokenising, which is slow
        ids, starts, ends = tokenizer.tokenize_with_offsets(text)
        for first, last in _find(ids, spellings, vocabulary.tokens):
            window = _window(first, last, len(ids), longest - 2)
            row = [vocabulary.cls_id, *ids[window], vocabulary.sep_id]
            place = slice(first - window.start + 1, last - window.start + 1)
            yield Occurrence(number, starts[first], ends[last - 1]), EncodedText(row, [0] * len(row)), place


def _spelling(word: str, tokenizer: WordPieceTokenizer, longest: int) -> list[int]:
    ids = tokenizer.encode(word)
    if not ids or tokenizer.vocabulary.unk_id in ids:
        raise InputError(f"The vocabulary cannot spell {word!r}, so its occurrences cannot be told from other words.")
    if len(ids) > longest - 2:
        raise InputError(f"{word!r} has {len(ids)} tokens, and the model reads {longest} at most.")
    return ids


def _find(ids: list[int], spellings: list[list[int]], tokens: Sequence[str]):
    """Yields start and end of every occurrence as a whole word; beginnings of longer words do not count."""
    for first in range(len(ids)):
        for spelling in spellings:
            last = first + len(spelling)
            if ids[first:last] == spelling and not (last < len(ids) and tokens[ids[last]].startswith("##")):
                yield first, last
                break


def _window(first: int, last: int, count: int, room: int) -> slice:
    """Returns a slice of at most `room` of `count` tokens, centred on first:last where there are enough tokens."""
    start = max(0, min((first + last - room) // 2, count - room))
    return slice(start, min(start + room, count))
