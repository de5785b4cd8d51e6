"""Vectors in fewer bits: whole numbers of 8 bits, or signs. Ranges and packing are those of sentence-transformers."""

import dataclasses
import functools

import numpy as np

from keras_bert.embeddings.exact_search import CHUNK, best_of_candidates, nearest_rows
from keras_bert.program.errors import InputError

PRECISIONS = ("float32", "int8", "binary")

# A search by signs compares this many times `top_k` vectors again, by their int8 codes.
CANDIDATES_OF_SIGNS = 4
# Rows of 8 bits that become float32 at once: they stay in the processor's cache.
_ROWS_AT_ONCE = 1024


def int8_ranges(vectors: np.ndarray) -> np.ndarray:
    """Returns the smallest and the largest number of each dimension, float32 (2, H).

    Raises:
        InputError: there is one vector only, which has no ranges.
    """
    if len(vectors) < 2:
        raise InputError(
            f"The ranges of int8 need two texts or more, better thousands. Received: {len(vectors)}. Add texts, or use "
            "precision='float32'."
        )
    return np.stack([vectors.min(axis=0), vectors.max(axis=0)]).astype(np.float32)


def quantise(vectors: np.ndarray, precision: str, ranges: np.ndarray | None = None) -> np.ndarray:
    """Returns vectors in a precision.

    >>> vectors = np.array([[0, 51], [255, 0]], "float32")
    >>> quantise(vectors, "int8", int8_ranges(vectors)).tolist()
    [[-128, 127], [127, -128]]
    >>> quantise(vectors, "binary").tolist()  # 01000000 and 10000000, less 128
    [[-64], [0]]

    Args:
        vectors: float32 (N, H).
        precision: one of `PRECISIONS`.
        ranges: for `int8`, from `int8_ranges`. Numbers outside become the smallest or the largest.

    Returns:
        float32 (N, H); int8 (N, H), the step of 255 in the range, less 128; or int8 (N, ceil(H / 8)), a bit for each
        number that is larger than 0, less 128.

    Reference: sentence-transformers 6.2, `quantize_embeddings`.
    """
    if precision == "float32":
        return vectors
    if precision == "binary":
        return (np.packbits(vectors > 0, axis=-1) - 128).astype(np.int8)
    assert ranges is not None
    codes = np.empty(vectors.shape, np.int8)
    for first in range(0, len(vectors), CHUNK):  # in parts, because of the copies in float32
        part = slice(first, first + CHUNK)
        codes[part] = np.clip(np.floor((vectors[part] - ranges[0]) / _steps(ranges)), 0, 255) - 128
    return codes


@dataclasses.dataclass(frozen=True)
class StoredVectors:
    """The vectors of an index in one precision, and their products with queries of float32.

    Attributes:
        codes: float32 (N, H), or int8 (N, H) for `int8` and `binary`, as from `quantise`; may be mapped from a file.
        precision: one of `PRECISIONS`.
        ranges: those of int8.
        signs: for `binary`, int8 (N, ceil(H / 8)), as from `quantise`.
    """

    codes: np.ndarray
    precision: str = "float32"
    ranges: np.ndarray | None = None
    signs: np.ndarray | None = None

    @classmethod
    def of(cls, vectors: np.ndarray, precision: str) -> "StoredVectors":
        """Returns vectors, float32 (N, H), in a precision. Raises `InputError` as `int8_ranges`."""
        empty = cls(vectors[:0], precision, None if precision == "float32" else int8_ranges(vectors))
        if precision == "binary":
            empty = dataclasses.replace(empty, signs=quantise(vectors[:0], precision))
        return empty.joined(vectors)

    def joined(self, vectors: np.ndarray) -> "StoredVectors":
        """Returns these vectors and further ones, float32 (N, H), behind them."""
        codes = vectors if self.ranges is None else quantise(vectors, "int8", self.ranges)
        signs = None if self.signs is None else np.concatenate([self.signs, quantise(vectors, "binary")])
        codes = np.concatenate([self.codes, codes]) if len(self.codes) else codes
        return dataclasses.replace(self, codes=codes, signs=signs)

    def kept(self, rows: np.ndarray) -> "StoredVectors":
        """Returns some of the vectors."""
        signs = None if self.signs is None else self.signs[rows]
        return dataclasses.replace(self, codes=self.codes[rows], signs=signs)

    def restored(self, rows: np.ndarray) -> np.ndarray:
        """Returns rows as float32 (..., H); of int8 the beginning of each step, as sentence-transformers."""
        codes = np.asarray(self.codes[rows])
        if self.ranges is None:
            return codes
        return (codes.astype(np.float32) + 128) * _steps(self.ranges) + self.ranges[0]

    def nearest(self, queries: np.ndarray, top_k: int, mask: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Compares all vectors, or those of a mask, and returns what `nearest_rows` does.

        For `binary`, the signs of the query select 4 * `top_k` vectors, whose int8 codes are compared with the query.
        """
        sizes = len(self.codes), len(queries)
        if self.signs is None:
            return nearest_rows(lambda rows: self._products(queries, rows), *sizes, top_k, mask)
        num_allowed = len(self.codes) if mask is None else int(np.count_nonzero(mask))
        num_candidates = min(CANDIDATES_OF_SIGNS * top_k, num_allowed)
        signs = _as_words(quantise(queries, "binary"))
        candidates, _ = nearest_rows(lambda rows: self._negative_distances(signs, rows), *sizes, num_candidates, mask)
        return best_of_candidates(queries, candidates, self.restored, top_k)

    def _products(self, queries: np.ndarray, rows: np.ndarray | slice) -> np.ndarray:
        codes = self.codes[rows]
        if self.ranges is None:
            return queries @ np.asarray(codes).T
        steps = _steps(self.ranges)
        scaled, shift = queries * steps, queries @ (self.ranges[0] + 128 * steps)
        products = np.empty((len(queries), len(codes)), np.float32)
        for first in range(0, len(codes), _ROWS_AT_ONCE):
            part = slice(first, first + _ROWS_AT_ONCE)
            np.matmul(scaled, codes[part].astype(np.float32).T, out=products[:, part])
        return products + shift[:, None]

    def _negative_distances(self, signs: np.ndarray, rows: np.ndarray | slice) -> np.ndarray:
        words = self._words[:, rows]
        distances = np.zeros((len(signs), words.shape[1]), np.uint16)
        for row, query in zip(distances, signs, strict=True):
            for word, other in zip(words, query, strict=True):
                row += np.bitwise_count(word ^ other)
        return -distances.astype(np.float32)

    @functools.cached_property
    def _words(self) -> np.ndarray:
        """The signs as uint64 (ceil(H / 64), N): a pass over one row of it counts the bits of all vectors."""
        assert self.signs is not None
        return np.ascontiguousarray(_as_words(self.signs).T)


def _as_words(codes: np.ndarray) -> np.ndarray:
    """Returns rows of 8 signs a byte as uint64, filled up with zeros."""
    return np.pad(codes, ((0, 0), (0, -codes.shape[1] % 8))).view(np.uint64)


def _steps(ranges: np.ndarray) -> np.ndarray:
    steps = (ranges[1] - ranges[0]) / 255
    return np.where(steps == 0, np.float32(1), steps)
