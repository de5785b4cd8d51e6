"""Counts values that occur more than once, in bounded memory: by their hashes, and of very many by a fair sample."""

import hashlib
from collections import Counter
from collections.abc import Iterable

# Hashes that are kept: 200 MB.
_MOST_HASHES = 1 << 21


class RepetitionCounter:
    """Counts distinct values by 64-bit hashes.

    When there are more than `most_hashes`, only those are kept whose lowest bits are 0: one in 2, 4, 8, ... Every copy
    of a value has the same hash, so the shares among the kept ones are those among all.
    """

    def __init__(self, most_hashes: int = _MOST_HASHES):
        self._most_hashes = most_hashes
        self._dropped_bits = 0
        self.copies: Counter[int] = Counter()

    def add(self, values: Iterable[bytes]) -> None:
        hashes = (int.from_bytes(hashlib.blake2b(value, digest_size=8).digest()) for value in values)
        self.copies.update(number for number in hashes if self._is_kept(number))
        while len(self.copies) > self._most_hashes:
            self._dropped_bits += 1
            self.copies = Counter({number: count for number, count in self.copies.items() if self._is_kept(number)})

    def _is_kept(self, number: int) -> bool:
        return number % (1 << self._dropped_bits) == 0

    def summary(self) -> dict[str, float | int]:
        """Returns what was counted.

        `sampled_one_in` is 1 if every value was counted. `share_repeated` is the share of values that came before,
        `most_copies` the number of copies of the most frequent value.
        """
        num_counted = self.copies.total()
        return {
            "sampled_one_in": 1 << self._dropped_bits,
            "num_counted": num_counted,
            "num_distinct": len(self.copies),
            "share_repeated": 1 - len(self.copies) / num_counted if num_counted else 0.0,
            "most_copies": max(self.copies.values(), default=0),
        }
