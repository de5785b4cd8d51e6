"""The loop that encodes the examples of every task, part by part, so that memory stays bounded."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from keras_bert.records.token_rows import TokenRows

# The number of rows that are tokenised at once.
ROWS_AT_ONCE = 1024


def parts_of(num_examples: int, rows_per_example: int = 1, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[slice]:
    """Yields slices that cover all examples in order, each of at most `rows_at_once` rows.

    Example:
        >>> list(parts_of(5, rows_at_once=2))
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    at_once = max(1, rows_at_once // rows_per_example)
    for first in range(0, num_examples, at_once):
        yield slice(first, min(first + at_once, num_examples))


def encode_in_parts(
    encode: Callable[[slice], tuple[Mapping[str, np.ndarray], Any]],
    num_examples: int,
    padding: Mapping[str, int],
    rows_per_example: int = 1,
) -> tuple[TokenRows, list[Any]]:
    """Encodes examples part by part.

    Args:
        encode: takes a slice of the examples; returns their padded features, int `[rows, length]`, and a second result.
        num_examples: number of examples.
        padding: feature -> its value at padding; 0 for features that are not listed.
        rows_per_example: number of rows of each example, such as its choices.

    Returns:
        The rows of all examples, and a list of the second results of `encode`.
    """
    rows, collected = [], []
    for part in parts_of(num_examples, rows_per_example):
        batch, further = encode(part)
        rows.append(TokenRows.from_padded(batch, rows_per_example=rows_per_example, padding=padding))
        collected.append(further)
    return TokenRows.concatenate(rows), collected
