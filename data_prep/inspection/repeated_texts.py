"""Counting what is there more than once, in bounded memory: hashes instead of texts, and of very many a fair sample."""

import functools
from collections.abc import Iterable

import numpy as np

# 32 MB of hashes, and a few times that while they are sorted.
_MOST_HASHES = 1 << 22
_SEED = 20181011
_LIST_FACTOR = 0x9E3779B97F4A7C15


class RepetitionCounter:
    """Counts distinct values by 64-bit hashes.

    When there are more than `most_hashes`, only those are kept whose lowest bits are 0, one in 2, 4, 8, ...: every copy
    of a value has the same hash, so the shares among the kept ones are those among all.
    """

    def __init__(self, most_hashes: int = _MOST_HASHES):
        self._most_hashes = most_hashes
        self._parts: list[np.ndarray] = []
        self._num_kept = 0
        self._dropped_bits = 0

    def add(self, hashes: np.ndarray) -> None:
        """Takes hashes, uint64 (N,)."""
        self._parts.append(self._sample(hashes))
        self._num_kept += len(self._parts[-1])
        while self._num_kept > self._most_hashes:
            self._dropped_bits += 1
            self._parts = [self._sample(np.concatenate(self._parts))]
            self._num_kept = len(self._parts[0])

    def _sample(self, hashes: np.ndarray) -> np.ndarray:
        lowest = np.uint64((1 << self._dropped_bits) - 1)
        return hashes[hashes & lowest == 0]

    def summary(self) -> dict[str, float | int]:
        """Returns what was counted.

        `sampled_one_in` is 1 when every value was counted. `share_repeated` is the share of values that were there
        before, `most_copies` how often the most frequent of the counted ones is there.
        """
        hashes = np.concatenate([*self._parts, np.zeros(0, np.uint64)])
        copies = np.unique(hashes, return_counts=True)[1]
        return {
            "sampled_one_in": 1 << self._dropped_bits,
            "num_counted": len(hashes),
            "num_distinct": len(copies),
            "share_repeated": 1 - len(copies) / len(hashes) if len(hashes) else 0.0,
            "most_copies": int(copies.max(initial=0)),
        }


def hash_runs(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Hashes consecutive runs of numbers: int64 (N,), ascending starts (R,) -> uint64 (R,).

    Equal runs have equal hashes, wherever they stand; different ones differ but for one pair in about 2 ** 64.

    Example:
        values [7, 8, 7, 8, 8, 7], starts [0, 2, 4] -> the first two hashes are equal, the third is another.
    """
    if not len(starts):
        return np.zeros(0, np.uint64)
    lengths = np.diff(np.append(starts, len(values)))
    offsets = np.arange(len(values)) - np.repeat(starts, lengths)
    # 1 is added so that zeros count: [7] and [7, 0] are different.
    terms = (values.astype(np.uint64) + np.uint64(1)) * _multipliers(int(lengths.max()))[offsets]
    return _mix(np.add.reduceat(terms, starts))


def hash_rows(columns: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Hashes rows that consist of several lists of numbers: uint64 (B,).

    Args:
        columns: for each list its numbers, int64 or float32 (B, longest), and their count in each row (B,). What stands
            behind the count does not matter.
    """
    hashes = np.uint64(0)
    for values, lengths in columns:
        if values.dtype == np.float32:
            values = np.ascontiguousarray(values).view(np.int32)
        width = values.shape[1]
        terms = np.where(np.arange(width) < lengths[:, None], values.astype(np.uint64) + np.uint64(1), np.uint64(0))
        # Mixed list by list, so that a number that moves from one to the next makes a difference.
        hashes = _mix(hashes * np.uint64(_LIST_FACTOR) + terms @ _multipliers(width)[:width])
    return hashes


def _multipliers(number: int) -> np.ndarray:
    """Odd random numbers, always the same, one for each place of a run and some more."""
    return _draw_multipliers(1 << number.bit_length())


@functools.lru_cache
def _draw_multipliers(number: int) -> np.ndarray:
    return np.random.PCG64(_SEED).random_raw(number) | np.uint64(1)


def _mix(hashes: np.ndarray) -> np.ndarray:
    """Spreads differences over all bits (the finaliser of MurmurHash3)."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        hashes = (hashes ^ hashes >> np.uint64(33)) * np.uint64(factor)
    return hashes ^ hashes >> np.uint64(33)
