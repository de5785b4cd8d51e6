"""The operations that make answers from outputs, on NumPy arrays.

`serving/graph/answer_operations.py` has the same ones on tensors. The functions in the `answers.py` of a task get one
of the two modules, so that each formula of an answer is written once. Of equal numbers, the first one is the largest.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

where, tanh, exp, take_along = np.where, np.tanh, np.exp, np.take_along_axis


def softmax(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax over the last axis.

    >>> softmax(np.log([[1.0, 3.0]])).round(2).tolist()
    [[0.25, 0.75]]
    """
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Returns logits as log-probabilities along the last axis.

    >>> np.exp(log_softmax(np.log([1.0, 3.0]))).round(2).tolist()
    [0.25, 0.75]
    """
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Returns 1 / (1 + exp(-logits)), without overflow."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1, small) / (1 + small)


def linear(outputs: np.ndarray) -> np.ndarray:
    """Returns the outputs."""
    return outputs


def relu(outputs: np.ndarray) -> np.ndarray:
    """Returns the outputs, and 0 for negative ones."""
    return np.maximum(outputs, 0)


def largest(values: np.ndarray) -> np.ndarray:
    """Returns the largest number along the last axis."""
    return values.max(axis=-1)


def total(values: np.ndarray) -> np.ndarray:
    """Returns the sum along the last axis; of truth values, how many are true."""
    return values.sum(axis=-1)


def columns_of(values: np.ndarray) -> np.ndarray:
    """Returns the numbers of the columns of values `[B, C]`: 0 to C - 1."""
    return np.arange(values.shape[1])


def descending(values: np.ndarray) -> np.ndarray:
    """Returns the indices that sort along the last axis, the largest number first."""
    return np.argsort(-values, axis=-1, kind="stable")


def argmax(values: np.ndarray) -> np.ndarray:
    """Returns the index of the largest number along the last axis, int32."""
    return values.argmax(axis=-1).astype(np.int32)


def top_k(values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the k largest numbers along the last axis, the largest first, and their indices, int32."""
    indices = descending(values)[..., :k].astype(np.int32)
    return np.take_along_axis(values, indices, axis=-1), indices


def lookup(names: Sequence[Any], indices: np.ndarray) -> np.ndarray:
    """Returns the names at indices: ["no", "yes"], [1, 0, 1] -> ["yes", "no", "yes"]."""
    return np.array(names, object)[indices]


def in_every_row(names: Sequence[Any], outputs: np.ndarray) -> np.ndarray:
    """Returns the names for each row of outputs, `[B, names]`."""
    return np.tile(np.array(names, object), (len(outputs), 1))


def as_numbers(numbers: Sequence[float], like: np.ndarray) -> np.ndarray:
    """Returns numbers of the type of `like`."""
    return np.asarray(numbers, like.dtype)
