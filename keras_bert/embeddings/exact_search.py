"""Compares queries with all vectors, part by part, and keeps the best."""

from collections.abc import Callable

import numpy as np

from keras_bert.program.errors import InputError

# Vectors that are compared at once: 256 queries with them are 67 MB of products.
CHUNK = 65_536

Rows = np.ndarray | slice


def nearest_rows(
    products: Callable[[Rows], np.ndarray],
    num_rows: int,
    num_queries: int,
    top_k: int,
    mask: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows with the largest products, the best first; the earlier of equally good ones first.

    Args:
        products: a slice or an array of rows -> the products with all queries, float32 [queries, rows].
        num_rows: the number of all rows.
        num_queries: the number of queries, 1 or more.
        top_k: how many for each query; the mask allows as many, at least.
        mask: bool [rows]: the rows that count. By default all do.

    Returns:
        The numbers of the rows and their products, int64 and float32 [queries, top_k].

    Raises:
        InputError: a product is not finite.
    """
    numbers = np.full((num_queries, top_k), -1, np.int64)
    scores = np.full((num_queries, top_k), -np.inf, np.float32)
    for first in range(0, num_rows, CHUNK):
        rows: Rows = slice(first, min(first + CHUNK, num_rows))
        allowed = None if mask is None else mask[rows]
        if allowed is not None and np.count_nonzero(allowed) < len(allowed) / 2:  # cheaper without the others
            rows, allowed = first + np.flatnonzero(allowed), None
        found = products(rows)
        check_finite(found)
        for query, row in enumerate(found):
            better = row > scores[query, -1]
            if allowed is not None:
                better &= allowed
            candidates = np.flatnonzero(better)
            if len(candidates):
                candidates = candidates[largest(row[candidates], top_k)]
                new = rows.start + candidates if isinstance(rows, slice) else rows[candidates]
                joined = np.concatenate([scores[query], row[candidates]])
                best = np.argsort(-joined, kind="stable")[:top_k]
                numbers[query] = np.concatenate([numbers[query], new])[best]
                scores[query] = joined[best]
    return numbers, scores


def best_of_candidates(
    queries: np.ndarray, candidates: np.ndarray, restored: Callable[[np.ndarray], np.ndarray], top_k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Compares the candidates of each query, int64 [queries, candidates], with the query itself.

    Returns:
        As `nearest_rows`.
    """
    numbers = np.sort(candidates, axis=1)  # so the earlier of equal texts comes first
    scores = np.einsum("qh,qkh->qk", queries, restored(numbers))
    check_finite(scores)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :top_k]
    return np.take_along_axis(numbers, best, axis=1), np.take_along_axis(scores, best, axis=1)


def check_finite(products: np.ndarray) -> None:
    """Raises `InputError` if a product is not a number."""
    if not np.isfinite(products).all():
        raise InputError("The index, or a query, has vectors that are not finite. Build it again.")


def largest(row: np.ndarray, count: int) -> np.ndarray:
    """Returns the indices of the largest numbers, in order; equal ones as they come: [3, 9, 9], 2 -> [1, 2]."""
    candidates = np.arange(len(row))
    if len(row) > count:
        candidates = np.flatnonzero(row >= np.partition(row, -count)[-count])
    return candidates[np.argsort(-row[candidates], kind="stable")[:count]]
