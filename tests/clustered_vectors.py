"""Vectors around centres, as those of real texts are, indexes of them, and how many of them a search finds."""

import numpy as np

from keras_bert.embeddings.index_rows import IndexRows, table_of, with_vectors
from keras_bert.embeddings.vector_index import VectorIndex


def index_of(vectors: np.ndarray, texts=None, graph=None, *, ids=None, metadata=None) -> VectorIndex:
    """Returns an index of vectors that were made by no model; by default all texts are "x"."""
    table = table_of(["x"] * len(vectors) if texts is None else texts, ids, metadata)
    return VectorIndex(IndexRows.of([with_vectors(table, vectors)], graph), "", {})


def clusters(count: int, size: int = 16, seed: int = 0) -> np.ndarray:
    """Returns unit vectors [count, size] around 50 centres, float32."""
    centres = np.random.default_rng(7).normal(size=(50, size))
    generator = np.random.default_rng(seed)
    vectors = centres[generator.integers(50, size=count)] + 0.4 * generator.normal(size=(count, size))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("float32")


def recall(found: np.ndarray, expected: np.ndarray) -> float:
    """Returns the share of the expected numbers in each row that were found."""
    return np.mean([len({*row} & {*other}) / len(other) for row, other in zip(found, expected, strict=True)])
