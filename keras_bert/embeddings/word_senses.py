"""Contextual vectors of one word, which separate its senses.

The token embedding of a word does not depend on its sense. The encoder's output depends on the sentence too, so the
`bank` of a river and the one that lends money get different vectors.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from tqdm import tqdm

from keras_bert.embeddings.text_vectors import EncodedText, token_features
from keras_bert.program.errors import InputError
from keras_bert.tokenization.user_inputs import as_texts
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer, split_at_white_space, words_of_stretch

LAYERS = (-1, -2, -3, -4)


@dataclasses.dataclass(frozen=True)
class Occurrence:
    """An occurrence of a word: the number of the text, from 0, and the characters `start:end`."""

    text_number: int
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class WordVectors:
    """The N occurrences of a word.

    Attributes:
        occurrences: the N occurrences, in the order of the texts.
        vectors: float32 (N, H).
    """

    occurrences: tuple[Occurrence, ...]
    vectors: np.ndarray


def word_vectors(
    model,
    texts: Sequence[str],
    words: str | Sequence[str],
    *,
    layers: Sequence[int] = LAYERS,
    max_seq_length: int | None = None,
    max_occurrences: int | None = None,
    batch_size: int = 32,
) -> WordVectors:
    """Returns a vector for every occurrence of a word: the mean over its word pieces and over some layers.

    Args:
        model: a `BertEncoder` created with `output_hidden_states=True`, with a vocabulary.
        texts: strings, preferably single sentences.
        words: a word, or several forms of a word (`["plant", "plants"]`). A form may consist of several words. Case and
            accents matter only if the model distinguishes them.
        layers: layer numbers; -1 is the last layer. The mean of the last four is a common choice.
        max_seq_length: longer texts are cut to this many tokens around the occurrence. By default the number of the
            model's positions.
        max_occurrences: maximum number of occurrences, evenly spaced among all. By default all.
        batch_size: occurrences computed at once.

    Raises:
        InputError: the word does not occur, the vocabulary has no tokens for it, a layer does not exist, or the model
            has no vocabulary or does not return its hidden states.

    Example:
        encoder = BertEncoder.from_pretrained("uncased_L-12_H-768_A-12", output_hidden_states=True)
        found = word_vectors(encoder, ["He sat on the bank of the river.", "The bank lends money."], "bank")
        found.vectors.shape
        # (2, 768)
    """
    if model.vocabulary is None:
        raise InputError("The model has no vocabulary. Set model.vocabulary = load_vocabulary(path).")
    texts, words = as_texts(texts), as_texts(words, "word")
    longest = model.config.max_sequence_length if max_seq_length is None else max_seq_length
    model.config.check_sequence_length(longest)
    if not isinstance(model.vocabulary, Vocabulary):
        raise InputError(
            "Word senses need a WordPiece tokenizer, but this model has another kind. Use a BERT, a DistilBERT or an "
            "ELECTRA."
        )
    tokenizer = WordPieceTokenizer(model.vocabulary, model.config.do_lower_case)
    found = list(_find_in_texts(words, texts, tokenizer, longest))
    if not found:
        raise InputError(f"{' and '.join(map(repr, words))} does not occur in the {len(texts)} texts.")
    if max_occurrences is not None and len(found) > max_occurrences:
        found = [found[number] for number in np.linspace(0, len(found) - 1, max_occurrences).astype(int)]
    occurrences, rows, columns = zip(*found, strict=True)
    with tqdm(total=len(rows), unit=" occurrences", desc="vectors", mininterval=1, delay=2) as bar:
        features = token_features(model, rows, layers, batch_size, bar.update)
        vectors = [array[place].mean(axis=(0, 1)) for array, place in zip(features, columns, strict=True)]
    return WordVectors(occurrences, np.array(vectors, np.float32))


def project(vectors: np.ndarray, dimensions: int = 2) -> np.ndarray:
    """Returns the coordinates of vectors along the directions in which they differ most (principal components).

    Args:
        vectors: float (N, H).
        dimensions: the number of directions.

    Returns:
        float32 (N, dimensions). Missing directions are filled with zeros. The sign of each direction is chosen so that
        its largest coordinate is positive.
    """
    centred = np.asarray(vectors, np.float64)
    centred = centred - centred.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    found = (left * sizes)[:, :dimensions]
    extremes = found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])]
    coordinates = np.zeros((len(centred), dimensions), np.float32)
    coordinates[:, : found.shape[1]] = found * np.where(extremes < 0, -1.0, 1.0)
    return coordinates


def cluster(vectors: np.ndarray, count: int) -> np.ndarray:
    """Divides vectors into groups by direction. With few groups, these often are the senses of a word.

    Agglomerative clustering of the normalised vectors by Ward's criterion: it needs no random start, and a few outliers
    do not form their own group.

    Args:
        vectors: float (N, H).
        count: the number of groups, from 1 to N.

    Returns:
        int64 (N,): the group of each vector. Groups are numbered from 0 in the order of first occurrence.

    Raises:
        InputError: `count` is out of range, or scikit-learn is not installed.
    """
    if not 1 <= count <= len(vectors):
        raise InputError(f"The number of groups must be between 1 and the {len(vectors)} vectors. Received: {count}")
    if count == 1:
        return np.zeros(len(vectors), np.int64)
    try:
        from sklearn.cluster import AgglomerativeClustering
    except ImportError:
        raise InputError("Grouping needs scikit-learn: pip install scikit-learn, or leave the groups out.") from None
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    groups = AgglomerativeClustering(n_clusters=count, linkage="ward").fit_predict(unit)
    _, first, numbers = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers]


def nearest_neighbour_accuracy(vectors: np.ndarray, senses: Sequence) -> float:
    """Returns the share of vectors whose nearest other one, by cosine, has the same sense.

    Raises:
        InputError: there are fewer than two vectors, or the number of senses differs from that of vectors.
    """
    senses = np.asarray(list(senses))
    if len(vectors) < 2 or len(vectors) != len(senses):
        raise InputError(
            f"Expected two or more vectors and a sense for each. Received: {len(vectors)} vectors, {len(senses)} senses"
        )
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    similarities = unit @ unit.T
    np.fill_diagonal(similarities, -np.inf)
    return float(np.mean(senses[similarities.argmax(axis=1)] == senses))


def _find_in_texts(
    words: Sequence[str], texts: Sequence[str], tokenizer: WordPieceTokenizer, longest: int
) -> Iterator[tuple[Occurrence, EncodedText, slice]]:
    """Yields every occurrence, a row of at most `longest` tokens around it, and the word's columns in that row."""
    vocabulary = tokenizer.vocabulary
    spellings = [_spelling(word, tokenizer, longest) for word in words]
    beginnings = [words_of_stretch(split_at_white_space(word)[0], True)[0] for word in words]
    for number, text in enumerate(tqdm(texts, unit=" texts", desc="looking", mininterval=1, delay=2)):
        if text.isascii() and text.isprintable() and not any(beginning in text.lower() for beginning in beginnings):
            continue  # skips slow tokenisation if the text cannot contain the word
        ids, starts, ends = tokenizer.tokenize_with_offsets(text)
        for first, last in _find(ids, spellings, vocabulary.tokens):
            window = _window(first, last, len(ids), longest - 2)
            row = [vocabulary.cls_id, *ids[window], vocabulary.sep_id]
            place = slice(first - window.start + 1, last - window.start + 1)
            yield Occurrence(number, starts[first], ends[last - 1]), EncodedText(row, [0] * len(row)), place


def _spelling(word: str, tokenizer: WordPieceTokenizer, longest: int) -> list[int]:
    ids = tokenizer.encode(word)
    if not ids or tokenizer.vocabulary.unk_id in ids:
        raise InputError(
            f"The vocabulary has no tokens for {word!r}, so its occurrences cannot be distinguished from other words."
        )
    if len(ids) > longest - 2:
        raise InputError(f"{word!r} has {len(ids)} tokens, and the model reads {longest} at most.")
    return ids


def _find(ids: list[int], spellings: list[list[int]], tokens: Sequence[str]):
    """Yields the tokens (first, last + 1) of every occurrence as a whole word, not as the start of a longer word."""
    for first in range(len(ids)):
        for spelling in spellings:
            last = first + len(spelling)
            if ids[first:last] == spelling and not (last < len(ids) and tokens[ids[last]].startswith("##")):
                yield first, last
                break


def _window(first: int, last: int, count: int, room: int) -> slice:
    """Returns a slice of at most `room` of `count` tokens, centred on first:last as far as possible."""
    start = max(0, min((first + last - room) // 2, count - room))
    return slice(start, min(start + room, count))
