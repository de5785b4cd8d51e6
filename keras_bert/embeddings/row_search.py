"""Searches the vectors of an index: by its graph, or exactly where that is asked for or cheaper."""

import threading

import numpy as np

from keras_bert.embeddings.exact_search import best_of_candidates
from keras_bert.embeddings.neighbour_graph import GraphSearch
from keras_bert.embeddings.quantised_vectors import StoredVectors
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole

# The graph gives at most this many texts for a query; more are searched exactly.
_MOST_BY_GRAPH = 100
# Masks that keep a smaller share of the vectors are searched exactly.
_LEAST_SHARE_BY_GRAPH = 0.05
_QUERIES_AT_ONCE = 256
# Threads that search first wait for one copy of the vectors in FAISS instead of making one each.
_copying = threading.Lock()


class RowSearch:
    """Finds the nearest vectors of an index; see `VectorIndex.nearest`.

    Args:
        stored: N vectors.
        graph: of these vectors, from `build_graph` or `check_graph`; None for exact search.
    """

    def __init__(self, stored: StoredVectors, graph: np.ndarray | None):
        self._stored, self._graph = stored, graph
        self._graph_search: GraphSearch | None = None

    def is_of(self, stored: StoredVectors, graph: np.ndarray | None) -> bool:
        """Returns whether it searches these very vectors, so that FAISS needs no new copy."""
        return self._stored is stored and self._graph is graph

    def nearest(
        self, vectors: np.ndarray, top_k: int, mask: np.ndarray | None, exact: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers and products of the nearest vectors that a mask allows, int64 and float32 (Q, top_k).

        Args:
            vectors: float32 (Q, H).
            top_k: how many; there are fewer columns where the mask allows fewer.
            mask: bool (N), or None for all.
            exact: whether all vectors are compared.

        Raises:
            InputError: an argument is out of range, or FAISS is missing where a graph is searched.
        """
        check_whole("top_k", top_k, at_least=1)
        self.check_dimension(vectors)
        num_vectors = len(self._stored.codes)
        num_allowed = num_vectors if mask is None else int(np.count_nonzero(mask))
        top_k = min(top_k, num_allowed)
        is_wide = num_allowed >= _LEAST_SHARE_BY_GRAPH * num_vectors
        by_graph = self._graph is not None and not exact and is_wide and top_k <= _MOST_BY_GRAPH
        nearest = self._nearest_by_graph if by_graph else self._stored.nearest
        parts = [
            nearest(vectors[first : first + _QUERIES_AT_ONCE], top_k, mask)
            for first in range(0, len(vectors) if top_k else 0, _QUERIES_AT_ONCE)
        ]
        if not parts:
            return np.zeros((len(vectors), top_k), np.int64), np.zeros((len(vectors), top_k), np.float32)
        numbers, scores = zip(*parts, strict=True)
        return np.concatenate(numbers), np.concatenate(scores)

    def check_dimension(self, vectors: np.ndarray) -> None:
        """Raises `InputError` unless vectors have the dimension of those of the index."""
        dimension = self._stored.codes.shape[-1]
        if vectors.ndim != 2 or vectors.shape[1] != dimension:
            raise InputError(f"Expected vectors [number, {dimension}]. Received the shape {list(vectors.shape)}")

    def _nearest_by_graph(
        self, vectors: np.ndarray, top_k: int, mask: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        with _copying:
            if self._graph_search is None:
                assert self._graph is not None
                self._graph_search = GraphSearch(self._stored.codes, self._graph, self._stored.ranges)
        # More than are asked for, because the graph's products are less precise.
        candidates = self._graph_search.nearest(vectors, min(2 * top_k + 10, len(self._stored.codes)), mask)
        numbers, scores = best_of_candidates(vectors, candidates, self._stored.restored, top_k)
        cut_off = np.flatnonzero((candidates < 0).any(axis=1))
        if len(cut_off):  # parts of the graph may be out of reach
            numbers[cut_off], scores[cut_off] = self._stored.nearest(vectors[cut_off], top_k, mask)
        return numbers, scores
