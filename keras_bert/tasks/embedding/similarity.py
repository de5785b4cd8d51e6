"""Similarities of vectors: cosines."""

from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.number_checks import check_numbers


class CosineSimilarity:
    """The methods of a `SentenceEncoder`, and of its loaded exports, on vectors."""

    def similarity(self, vectors: Any, others: Any) -> np.ndarray:
        """Returns the cosines of vectors `[N, D]` with others `[M, D]`: float32 `[N, M]`. `[D]` is one vector.

        Raises:
            InputError: the vectors have different sizes, or are not finite.
        """
        vectors, others = _units(vectors, others)
        return vectors @ others.T

    def similarity_pairwise(self, vectors: Any, others: Any) -> np.ndarray:
        """Returns the cosine of each vector `[N, D]` with that of the same number of others `[N, D]`: float32 `[N]`.

        Raises:
            InputError: as `similarity`, or the vectors are not equally many.
        """
        vectors, others = _units(vectors, others)
        if len(vectors) != len(others):
            raise InputError(f"Vectors and others must be equally many. Received: {len(vectors)} and {len(others)}")
        return np.einsum("nd,nd->n", vectors, others)


def _units(*given: Any) -> list[np.ndarray]:
    """Returns arrays `[N, D]` with vectors of length 1."""
    found = [np.atleast_2d(np.asarray(vectors, np.float32)) for vectors in given]
    if any(vectors.ndim != 2 for vectors in found) or len({vectors.shape[1] for vectors in found}) > 1:
        shapes = " and ".join(str(list(vectors.shape)) for vectors in found)
        raise InputError(f"The vectors must be arrays [texts, D] of one model. Received the shapes {shapes}")
    for vectors in found:
        check_numbers(vectors)
    return [vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12) for vectors in found]
