"""Finds texts that repeat other texts."""

import re

_WORD = re.compile(r"[^\W\d_]{2,}")
_WORDS_IN_A_ROW = 4


class SeenText:
    """Remembers every group of four consecutive words, and computes the share of them that a new text repeats.

    Words consist of letters only, and case is ignored: texts that differ in numbers, one-letter names or punctuation
    are equal.

    Example:
        >>> seen = SeenText()
        >>> seen.add("Returns the sum of two numbers.")
        0.0
        >>> seen.add("returns the sum of two arrays")
        0.666...
    """

    def __init__(self):
        self._known = set()

    def add(self, text: str) -> float:
        """Remembers a text, and returns the share of it, 0 to 1, that was known before."""
        groups = _word_groups(text)
        share = sum(group in self._known for group in groups) / len(groups)
        self._known.update(groups)
        return share

    def known_share(self, text: str) -> float:
        """Returns the share of a text, 0 to 1, that is known."""
        groups = _word_groups(text)
        return sum(group in self._known for group in groups) / len(groups)


def _word_groups(text: str) -> list[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    if len(words) < _WORDS_IN_A_ROW:
        return [tuple(words)]
    return list(zip(*(words[start:] for start in range(_WORDS_IN_A_ROW)), strict=False))
