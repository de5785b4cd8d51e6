"""A graph of near neighbours (HNSW) for approximate search in many vectors. FAISS builds it.

FAISS's own files are not used, because a damaged one can crash the process. The graph is kept as one array, which
`check_graph` checks completely before FAISS gets it (docs/decisions/graph_is_checked_array.md).
"""

from typing import Any

import numpy as np

from keras_bert.program.errors import InputError, how_to_install
from keras_bert.program.long_work import progress_bar

# Links of a vector on each level of the graph; the lowest level has twice as many. Saved graphs have this number.
LINKS = 16
# FAISS draws levels for these links up to this number.
MOST_LEVELS = 8
# How many candidates FAISS keeps while it adds a vector.
_CANDIDATES_IN_BUILDING = 200
# Vectors that are copied to FAISS at once.
_PART = 65_536


def build_graph(vectors: Any, graph: np.ndarray | None = None, start: int = 0) -> np.ndarray:
    """Returns a graph of all vectors, float32 (N, H), as one array. Raises `InputError` if FAISS is missing.

    A `graph` of the first `start` vectors, as this function returned it, grows by the others.

    Returns:
        int32: the number of the vector where searches begin; the number of levels of each vector (N); for each vector
        the numbers of its neighbours on each level, 2 * LINKS on the lowest and LINKS on each other, filled with -1.
    """
    faiss = import_faiss()
    index = faiss_index(vectors, start, graph)
    index.hnsw.efConstruction = _CANDIDATES_IN_BUILDING
    step = max(1000, (len(vectors) - start) // 100)
    options = {"unit": " vectors", "desc": "graph", "mininterval": 1, "delay": 2}
    with progress_bar(total=len(vectors), initial=start, **options) as bar:
        for first in range(start, len(vectors), step):
            part = vectors[first : first + step]
            index.add(np.ascontiguousarray(part, np.float32))
            bar.update(len(part))
    hnsw = index.hnsw
    arrays = [[hnsw.entry_point], faiss.vector_to_array(hnsw.levels), faiss.vector_to_array(hnsw.neighbors)]
    return np.concatenate(arrays, dtype=np.int32, casting="same_kind")


def check_graph(graph: np.ndarray, num_vectors: int) -> np.ndarray:
    """Returns a graph in memory that FAISS can search without reading outside of it. Raises `ValueError` for others."""
    largest = 1 + num_vectors + num_vectors * LINKS * (MOST_LEVELS + 1)
    if graph.ndim != 1 or graph.dtype != np.int32 or not num_vectors < len(graph) <= largest:
        raise ValueError(f"{graph.dtype} numbers of the shape {list(graph.shape)} for {num_vectors} vectors")
    graph = np.array(graph)  # in memory, because the file could change after the check
    entry, levels, links = _parts(graph, num_vectors)
    if not 0 <= entry < num_vectors or levels.min() < 1 or levels.max() > MOST_LEVELS or levels[entry] != levels.max():
        raise ValueError("levels or the entry point are impossible")
    offsets = _offsets(levels)
    if len(links) != offsets[-1] or links.min() < -1 or links.max() >= num_vectors:
        raise ValueError("links lead outside")
    for level in range(1, levels.max()):
        members = np.flatnonzero(levels > level)
        targets = links[offsets[members, None] + LINKS * (level + 1) + np.arange(LINKS)]
        if ((targets >= 0) & (levels[targets] <= level)).any():
            raise ValueError("links lead to vectors of a lower level")
    return graph


def import_faiss():
    """Returns the module `faiss`. Raises `InputError` if it is missing."""
    try:
        import faiss
    except ImportError:
        raise InputError(
            "Approximate search in many texts needs faiss; exact search (exact=True, --exact) does not. "
            + how_to_install("search")
        ) from None
    return faiss


def faiss_index(vectors: Any, count: int, graph: np.ndarray | None):
    """Returns FAISS's index of the first `count` vectors, whose graph is given, with 2 bytes a number."""
    faiss = import_faiss()
    index = faiss.IndexHNSWSQ(vectors.shape[1], faiss.ScalarQuantizer.QT_fp16, LINKS, faiss.METRIC_INNER_PRODUCT)
    index.is_trained = index.storage.is_trained = True  # half precision has nothing to learn
    if graph is None:
        return index
    for first in range(0, count, _PART):
        index.storage.add(np.ascontiguousarray(vectors[first : min(first + _PART, count)], np.float32))
    entry, levels, links = _parts(graph, count)
    hnsw = index.hnsw
    faiss.copy_array_to_vector(levels, hnsw.levels)
    faiss.copy_array_to_vector(_offsets(levels).astype(np.uint64), hnsw.offsets)
    faiss.copy_array_to_vector(links, hnsw.neighbors)
    hnsw.entry_point, hnsw.max_level = entry, int(levels.max()) - 1
    index.ntotal = count
    return index


def _parts(graph: np.ndarray, num_vectors: int) -> tuple[int, np.ndarray, np.ndarray]:
    return int(graph[0]), graph[1 : 1 + num_vectors], graph[1 + num_vectors :]


def _offsets(levels: np.ndarray) -> np.ndarray:
    """Returns where the links of each vector begin, and the number of all: [1, 2, 1] -> [0, 32, 80, 112]."""
    return np.concatenate([[0], np.cumsum(LINKS * (levels.astype(np.int64) + 1))])
