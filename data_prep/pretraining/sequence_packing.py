"""Packs several sequences into one row, so that rows have little padding."""

from collections.abc import Iterator

import numpy as np


def pack_sequences(
    lengths: np.ndarray, max_seq_length: int, max_sequences_per_row: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Distributes sequences over rows. Rows, and the sequences in a row, come in random order.

    Each row begins with the longest remaining sequence and is filled with the best fit. This is computed on the
    histogram of lengths: all rows with the same lengths are filled at once, so the work grows with the number of
    distinct lengths, not of sequences. Sequences of equal length are used in the given order.

    Returns:
        the numbers of the sequences, ordered by row, int64 (N,); and the start of each row in it, int64 (B + 1,).

    Example:
        lengths [5, 3, 8, 3, 2], rows of 8 -> rows {2}, {0, 1}, {3, 4}, in any order

    Reference: the idea is that of Krell et al., 2021, "Efficient Sequence Packing without Cross-contamination".
    """
    if max_sequences_per_row == 1:
        order = np.argsort(rng.random(len(lengths)), kind="stable")
        return order, np.arange(len(lengths) + 1)
    counts = np.bincount(lengths, minlength=max_seq_length + 1)
    by_length = np.argsort(lengths, kind="stable")
    used = np.cumsum(counts) - counts

    row_of_sequence = np.empty(len(lengths), np.int64)
    num_rows = 0
    for row_lengths, num_alike in _plan_rows(counts, max_seq_length, max_sequences_per_row):
        rows = np.arange(num_rows, num_rows + num_alike)
        for length in row_lengths:
            row_of_sequence[by_length[used[length] : used[length] + num_alike]] = rows
            used[length] += num_alike
        num_rows += num_alike

    row_place = np.argsort(rng.random(num_rows), kind="stable")[row_of_sequence]
    order = np.lexsort((rng.random(len(lengths)), row_place))
    return order, np.concatenate([[0], np.cumsum(np.bincount(row_place, minlength=num_rows))])


def _plan_rows(counts: np.ndarray, max_seq_length: int, max_sequences_per_row: int) -> Iterator[tuple[list[int], int]]:
    """Yields the lengths that share a row, and the number of such rows. `counts[n]` sequences have the length n."""
    left = counts.copy()
    while left.any():
        longest = int(np.flatnonzero(left)[-1])
        left[longest] -= 1
        row_lengths = [longest]
        room = max_seq_length - longest
        while len(row_lengths) < max_sequences_per_row and left[: room + 1].any():
            added = _lengths_to_add(left[: room + 1], max_sequences_per_row - len(row_lengths))
            for length in added:
                left[length] -= 1
            row_lengths += added
            room -= sum(added)
        lengths, times = np.unique(row_lengths, return_counts=True)
        more = int((left[lengths] // times).min())
        left[lengths] -= more * times
        yield row_lengths, 1 + more


def _lengths_to_add(left: np.ndarray, num_free: int) -> list[int]:
    """Chooses one or two of the remaining lengths, to fill a room of `len(left) - 1` tokens.

    Lengths that fill the room completely are preferred. Among several ways, and for the first of more than two lengths,
    the most frequent lengths are chosen: then the last rows have a mixture to choose from too.
    """
    room = len(left) - 1
    if left[room]:
        return [room]
    if num_free >= 2:
        pairs = np.minimum(left, left[::-1])
        if room % 2 == 0:
            pairs[room // 2] //= 2
        first = int(np.argmax(pairs))
        if pairs[first]:
            return [first, room - first]
    if num_free <= 2:
        return [int(np.flatnonzero(left)[-1])]
    return [int(np.argmax(left))]
