"""Vectors in fewer bits, for engines that search them: whole numbers of 8 bits, or signs."""

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.options import check_choice

PRECISIONS = ("int8", "binary")
# Vectors that are computed at once, because of the copies in float32.
_ROWS_AT_ONCE = 65_536


def int8_ranges(vectors: np.ndarray) -> np.ndarray:
    """Returns the smallest and the largest number of each dimension, float32 (2, H).

    Raises:
        InputError: there is one vector only, which has no ranges.
    """
    if len(vectors) < 2:
        raise InputError(f"The ranges of int8 need two vectors or more, better thousands. Received: {len(vectors)}")
    return np.stack([vectors.min(axis=0), vectors.max(axis=0)]).astype(np.float32)


def quantise(vectors: np.ndarray, precision: str, ranges: np.ndarray | None = None) -> np.ndarray:
    """Returns vectors in a precision, as `quantize_embeddings` of sentence-transformers 6.2 does.

    >>> vectors = np.array([[0, 51], [255, 0]], "float32")
    >>> quantise(vectors, "int8").tolist()
    [[-128, 127], [127, -128]]
    >>> quantise(vectors, "binary").tolist()  # 01000000 and 10000000, less 128
    [[-64], [0]]

    Args:
        vectors: float32 (N, H), such as `VectorIndex.vectors`.
        precision: one of `PRECISIONS`.
        ranges: for `int8`, from `int8_ranges` of the documents, also for queries; else those of `vectors`. Numbers
            outside become the smallest or the largest.

    Returns:
        int8 (N, H), the step of 255 in the range, less 128; or int8 (N, ceil(H / 8)), a bit for each
        number that is larger than 0, less 128.

    Raises:
        InputError: there is no such precision, or one vector only without ranges.
    """
    check_choice("precision", precision, PRECISIONS)
    if precision == "binary":
        return (np.packbits(vectors > 0, axis=-1) - 128).astype(np.int8)
    ranges = int8_ranges(vectors) if ranges is None else ranges
    steps = (ranges[1] - ranges[0]) / 255
    steps = np.where(steps == 0, np.float32(1), steps)
    codes = np.empty(vectors.shape, np.int8)
    for first in range(0, len(vectors), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        codes[part] = np.clip(np.floor((vectors[part] - ranges[0]) / steps), 0, 255) - 128
    return codes
