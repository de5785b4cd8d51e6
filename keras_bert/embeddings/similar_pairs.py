"""Pairs of similar texts among many, and groups of similar texts: the algorithms of sentence-transformers."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from keras_bert.embeddings.vector_search import largest, parts_of
from keras_bert.program.errors import InputError
from keras_bert.program.number_checks import check_numbers
from keras_bert.program.options import check_whole


class SimilarPair(NamedTuple):
    """Two texts, by their numbers from 0, and their cosine; `first` is less than `second`."""

    score: float
    first: int
    second: int


def paraphrase_mining(
    model: Any, texts: Any, *, top_k: int = 100, max_pairs: int = 500_000, batch_size: int = 32
) -> list[SimilarPair]:
    """Returns the most similar pairs of texts, with the arguments and errors of `similar_pairs`.

    Args:
        model: a `SentenceEncoder`, or its loaded export.
        texts: N strings.
        batch_size: texts computed at once.

    Example:
        paraphrase_mining(encoder, ["a cat sits", "stocks fell", "a kitten sits"])[0]  # SimilarPair(0.8, 0, 2)

    Reference: sentence-transformers 6.2, `util.paraphrase_mining`.
    """
    return similar_pairs(model.encode(texts, batch_size=batch_size), top_k=top_k, max_pairs=max_pairs)


def similar_pairs(vectors: Any, *, top_k: int = 100, max_pairs: int = 500_000) -> list[SimilarPair]:
    """Returns the pairs of vectors with the highest cosines, the highest first; then those of the lowest numbers.

    Args:
        vectors: float `[N, D]`.
        top_k: a pair must be among the `top_k` most similar ones of one of its vectors.
        max_pairs: the largest number of pairs.

    Raises:
        InputError: the vectors have another shape or are not finite, or a number is below 1.

    Reference: sentence-transformers 6.2, `util.paraphrase_mining_embeddings`.
    """
    check_whole("top_k", top_k, at_least=1)
    check_whole("max_pairs", max_pairs, at_least=1)
    scores, codes = np.zeros(0, np.float32), np.zeros(0, np.int64)
    for first, cosines in _rows_of_cosines(vectors):
        size = cosines.shape[1]
        np.fill_diagonal(cosines[:, first:], -np.inf)  # no text is its own paraphrase
        nearest = np.stack([largest(row, min(top_k, size - 1)) for row in cosines])
        own = np.repeat(np.arange(first, first + len(cosines)), nearest.shape[1])
        found = np.minimum(own, nearest.ravel()) * size + np.maximum(own, nearest.ravel())
        codes, places = np.unique(np.concatenate([codes, found]), return_index=True)
        scores = np.concatenate([scores, np.take_along_axis(cosines, nearest, axis=1).ravel()])[places]
        best = np.argsort(-scores, kind="stable")[:max_pairs]
        scores, codes = scores[best], codes[best]
    pairs = zip(scores.tolist(), *(part.tolist() for part in np.divmod(codes, max(len(vectors), 1))), strict=True)
    return [SimilarPair(*pair) for pair in pairs]


def communities(vectors: Any, *, threshold: float = 0.75, min_size: int = 10) -> list[list[int]]:
    """Returns groups of similar vectors, the largest first. No vector is in two of them.

    The largest group of vectors around one of them, its centre, is taken first, then the largest of the others; of
    equally large ones that with the first centre. A vector that is taken already is left out of later groups.

    Args:
        vectors: float `[N, D]`.
        threshold: the lowest cosine of a member with the centre.
        min_size: the smallest group that is returned.

    Returns:
        for each group the numbers of its vectors: the centre, then the others by their cosines with it, the highest
        first.

    Raises:
        InputError: the vectors have another shape or are not finite, or `min_size` is below 1.

    Example:
        communities(encoder.encode(texts), threshold=0.7, min_size=2)  # [[0, 2], [1, 5]]

    Reference: sentence-transformers 6.2, `util.community_detection`.
    """
    check_whole("min_size", min_size, at_least=1)
    around: list[tuple[int, np.ndarray]] = []
    for first, cosines in _rows_of_cosines(vectors):
        counts = (cosines >= np.float32(threshold)).sum(axis=1)
        around += [(first + int(row), largest(cosines[row], counts[row])) for row in np.flatnonzero(counts >= min_size)]
    is_taken, found = np.zeros(len(vectors), bool), []
    for centre, members in sorted(around, key=lambda group: -len(group[1])):
        members = members[~is_taken[members]]
        if not is_taken[centre] and len(members) >= min_size:
            found.append([centre, *members[members != centre].tolist()])
            is_taken[members] = True
    return sorted(found, key=len, reverse=True)


def _rows_of_cosines(vectors: Any) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the number of a vector, and the cosines of this one and the next ones with all: float32 `[n, N]`."""
    vectors = np.asarray(vectors, np.float32)
    if vectors.ndim != 2:
        raise InputError(f"The vectors must be an array [texts, D]. Received the shape {list(vectors.shape)}")
    check_numbers(vectors)
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    for some in parts_of(len(units), len(units)):
        yield some.start, units[some] @ units.T
