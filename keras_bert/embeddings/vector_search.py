"""Searches vectors that lie in one or more arrays: by their graph, or by comparing all where that is cheaper."""

import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from keras_bert.embeddings.neighbour_graph import faiss_index, import_faiss
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole

# Vectors that are compared at once: 256 queries with them are 67 MB of products.
CHUNK = 65_536
QUERIES_AT_ONCE = 256
# Scores of queries and texts in memory at once, where all are compared and no vectors are mapped: 4 or 8 bytes each.
MOST_AT_ONCE = 1 << 24
# Of a mask that keeps no larger share, the vectors are gathered first: that costs less than to compare the others.
_MOST_GATHERED = 0.5
# Vectors of a mask that are gathered at once for a few queries, so that they stay in the processor's cache.
_GATHERED_AT_ONCE, _FEW_QUERIES, _GATHERED_FOR_MANY = 1024, 16, 4096
# The graph gives at most this many texts for a query; more are searched exactly.
_MOST_BY_GRAPH = 100
# How many candidates FAISS keeps while it searches.
_CANDIDATES, _CANDIDATES_FOR_EACH_RESULT = 128, 4
# Masks that keep a smaller share of the vectors are searched exactly.
_LEAST_SHARE_BY_GRAPH = 0.05
# Threads that search first wait for one copy of the vectors in FAISS instead of making one each.
_copying = threading.Lock()


class VectorSearch:
    """Finds the nearest of N vectors; see `VectorIndex.nearest`.

    Args:
        parts: one or more arrays, float32 (n, H) each, which may be mapped from files. Their rows count on.
        graph: of these vectors, from `build_graph` or `check_graph`; None for exact search.
    """

    def __init__(self, parts: Sequence[np.ndarray], graph: np.ndarray | None = None):
        self.parts, self.graph = list(parts), graph
        self._starts = [0, *itertools.accumulate(map(len, self.parts))]
        self.shape = self._starts[-1], self.parts[0].shape[1]
        self._faiss_index: Any = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: np.ndarray | slice) -> np.ndarray:
        """Returns rows, int64 (...) or a slice, as float32 (..., H). Slices of a single part are not copied."""
        if len(self.parts) == 1:
            return self.parts[0][rows]
        rows = np.arange(len(self))[rows] if isinstance(rows, slice) else rows
        gathered = np.empty((*rows.shape, self.shape[1]), np.float32)
        for start, part in zip(self._starts, self.parts, strict=False):
            is_there = (rows >= start) & (rows < start + len(part))
            gathered[is_there] = part[rows[is_there] - start]
        return gathered

    def check_dimension(self, vectors: np.ndarray) -> None:
        """Raises `InputError` unless vectors have the dimension of these."""
        if vectors.ndim != 2 or vectors.shape[1] != self.shape[1]:
            raise InputError(f"Expected vectors [number, {self.shape[1]}]. Received the shape {list(vectors.shape)}")

    def nearest(
        self, queries: np.ndarray, top_k: int, mask: np.ndarray | None, exact: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers and products of the nearest vectors that a mask allows, int64 and float32 (Q, top_k).

        The best come first, and the earlier of equally good ones. There are fewer columns where the mask, bool (N),
        allows fewer. The errors are those of `VectorIndex.nearest`.
        """
        check_whole("top_k", top_k, at_least=1)
        self.check_dimension(queries)
        num_allowed = len(self) if mask is None else int(np.count_nonzero(mask))
        top_k = min(top_k, num_allowed)
        is_wide = num_allowed >= _LEAST_SHARE_BY_GRAPH * len(self)
        by_graph = self.graph is not None and not exact and is_wide and top_k <= _MOST_BY_GRAPH
        nearest = self._nearest_by_graph if by_graph else self._nearest_of_all
        numbers = np.zeros((len(queries), top_k), np.int64)
        scores = np.zeros((len(queries), top_k), np.float32)
        for first in range(0, len(queries) if top_k else 0, QUERIES_AT_ONCE):
            some = slice(first, first + QUERIES_AT_ONCE)
            numbers[some], scores[some] = nearest(queries[some], top_k, mask)
        return numbers, scores

    def _nearest_of_all(
        self, queries: np.ndarray, top_k: int, mask: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.full((len(queries), top_k), -1, np.int64)
        scores = np.full((len(queries), top_k), -np.inf, np.float32)
        for start, part in zip(self._starts, self.parts, strict=False):
            for first in range(0, len(part), CHUNK):
                chunk = part[first : first + CHUNK]
                allowed = None if mask is None else mask[start + first :][: len(chunk)]
                rows = None
                if allowed is not None and np.count_nonzero(allowed) <= _MOST_GATHERED * len(allowed):
                    rows, allowed = np.flatnonzero(allowed), None
                products = queries @ chunk.T if rows is None else _products_with(queries, chunk, rows)
                _check_finite(products)
                for query, row in enumerate(products):
                    better = row > scores[query, -1]
                    candidates = np.flatnonzero(better if allowed is None else better & allowed)
                    if len(candidates):
                        candidates = candidates[largest(row[candidates], top_k)]
                        new = candidates if rows is None else rows[candidates]
                        joined = np.concatenate([scores[query], row[candidates]])
                        best = np.argsort(-joined, kind="stable")[:top_k]
                        numbers[query] = np.concatenate([numbers[query], start + first + new])[best]
                        scores[query] = joined[best]
        return numbers, scores

    def _nearest_by_graph(
        self, queries: np.ndarray, top_k: int, mask: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        candidates = self._candidates(queries, min(2 * top_k + 10, len(self)), mask)
        in_order = np.sort(candidates, axis=1)  # so the earlier of equal texts comes first
        products = np.einsum("qh,qkh->qk", queries, self[np.maximum(in_order, 0)])
        _check_finite(products)
        best = np.argsort(-products, axis=1, kind="stable")[:, :top_k]
        numbers, scores = (np.take_along_axis(found, best, axis=1) for found in (in_order, products))
        cut_off = np.flatnonzero((candidates < 0).any(axis=1))
        if len(cut_off):  # parts of the graph may be out of reach
            numbers[cut_off], scores[cut_off] = self._nearest_of_all(queries[cut_off], top_k, mask)
        return numbers, scores

    def _candidates(self, queries: np.ndarray, count: int, mask: np.ndarray | None) -> np.ndarray:
        """Returns vectors that the graph finds, int64 (Q, count), near ones first; -1 where it leads to fewer.

        There are more than are asked for, because FAISS compares a copy of the vectors in half precision.
        """
        with _copying:
            if self._faiss_index is None:
                self._faiss_index = faiss_index(self, len(self), self.graph)
        num_visited, selector = max(_CANDIDATES, _CANDIDATES_FOR_EACH_RESULT * count), None
        if mask is not None:
            bits = np.packbits(mask, bitorder="little")  # kept here, since FAISS makes no copy
            selector = import_faiss().IDSelectorBitmap(bits)
            # Vectors that the mask leaves out still lead to the others.
            num_visited = max(num_visited, int(count * len(mask) / max(np.count_nonzero(mask), 1)))
        parameters = import_faiss().SearchParametersHNSW(efSearch=num_visited, sel=selector)
        return self._faiss_index.search(np.ascontiguousarray(queries, np.float32), count, params=parameters)[1]


def parts_of(count: int, width: int) -> Iterator[slice]:
    """Yields slices of `count` rows that have at most `MOST_AT_ONCE` numbers in `width` columns, or a single row."""
    step = max(1, MOST_AT_ONCE // max(width, 1))
    return (slice(first, first + step) for first in range(0, count, step))


def largest(row: np.ndarray, count: int) -> np.ndarray:
    """Returns the indices of the largest numbers, in order; equal ones as they come: [3, 9, 9], 2 -> [1, 2]."""
    candidates = np.arange(len(row))
    if len(row) > count:
        candidates = np.flatnonzero(row >= np.partition(row, -count)[-count])
    return candidates[np.argsort(-row[candidates], kind="stable")[:count]]


def _products_with(queries: np.ndarray, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns the products of queries with some rows, float32 [queries, rows]."""
    step = min(len(rows), _GATHERED_AT_ONCE if len(queries) <= _FEW_QUERIES else _GATHERED_FOR_MANY)
    gathered = np.empty((step, vectors.shape[1]), np.float32)
    products = np.empty((len(queries), len(rows)), np.float32)
    for first in range(0, len(rows), step or 1):
        some = rows[first : first + step]
        part = np.take(vectors, some, axis=0, out=gathered[: len(some)], mode="clip")  # "raise" would copy once more
        np.matmul(queries, part.T, out=products[:, first : first + step])
    return products


def _check_finite(products: np.ndarray) -> None:
    if not np.isfinite(products).all():
        raise InputError("The index, or a query, has vectors that are not finite. Build it again.")
