"""Packing: several sequences in one row, so that little of it is padding."""

import bisect
import collections

import numpy as np


def pack_sequences(
    lengths: np.ndarray, max_seq_length: int, max_sequences_per_row: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Distributes sequences over rows; rows, and the sequences in a row, come in random order.

    Best fit, longest sequences first, on the histogram of lengths: whole groups of rows that look alike are filled at
    once, so that the work grows with the number of different lengths, not of sequences.

    Args:
        lengths: int64 (N,), each at most `max_seq_length`. Sequences of a length are taken in the order given.

    Returns:
        the numbers of the sequences, row by row, int64 (N,); and where in it each row begins, int64 (B + 1,).

    Example:
        lengths [5, 3, 8, 3, 2], rows of 8 -> rows {2}, {0, 1}, {3, 4}, in any order

    Reference: Krell et al., 2021, "Efficient Sequence Packing without Cross-contamination" (longest-pack-first).
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


def _plan_rows(
    counts: np.ndarray, max_seq_length: int, max_sequences_per_row: int
) -> list[tuple[tuple[int, ...], int]]:
    """Which lengths share a row, and how many such rows there are.

    Args:
        counts: `counts[n]` is the number of sequences of length n.
    """
    finished = []
    # Room left -> groups of rows, each the lengths in them and their number; and the rooms, ascending.
    open_groups: dict[int, collections.deque] = {}
    rooms: list[int] = []

    def put(row_lengths: tuple[int, ...], num_rows: int) -> None:
        room = max_seq_length - sum(row_lengths)
        if len(row_lengths) == max_sequences_per_row or not room:
            finished.append((row_lengths, num_rows))
            return
        if room not in open_groups:
            open_groups[room] = collections.deque()
            bisect.insort(rooms, room)
        open_groups[room].append((row_lengths, num_rows))

    for length in range(max_seq_length, 0, -1):
        left = int(counts[length])
        while left:
            best = bisect.bisect_left(rooms, length)
            if best == len(rooms):
                put((length,), left)
                break
            groups = open_groups[rooms[best]]
            row_lengths, num_rows = groups.popleft()
            filled = min(left, num_rows)
            if filled < num_rows:
                groups.appendleft((row_lengths, num_rows - filled))
            if not groups:
                del open_groups[rooms[best]], rooms[best]
            put((*row_lengths, length), filled)
            left -= filled
    return finished + [group for groups in open_groups.values() for group in groups]
