"""Unicode's normalisation form C in Python, with the source of each character.

The text is cut into groups: a character that never composes with a preceding one, and those that follow it and may
compose or be reordered. `unicodedata` normalises each group. The groups are those of the frozen table, because the
version of `unicodedata` is that of Python: what Unicode 14.0 does not know yet stays as it is.

Reference: Unicode Standard Annex #15.
"""

import bisect
import functools
import re
import sys
import unicodedata
from collections.abc import Iterator

from keras_bert.tokenization import unicode_table


def nfc(text: str) -> str:
    """Returns the text in normalisation form C: "e" and U+0301 -> "é"."""
    return "".join(part for part, _, _ in _parts(text))


def nfc_with_sources(text: str) -> tuple[str, list[int], list[int]]:
    """Returns the normalised text, and for each of its characters the start and end of its source in `text`.

    Where characters were composed or reordered, each result has all of them as its source.

    >>> nfc_with_sources("cafe\\u0301s")
    ('cafés', [0, 1, 2, 3, 5], [1, 2, 3, 5, 6])
    """
    characters, starts, ends = [], [], []
    for part, first, last in _parts(text):
        characters.append(part)
        is_same = part == text[first:last]
        starts += range(first, last) if is_same else [first] * len(part)
        ends += range(first + 1, last + 1) if is_same else [last] * len(part)
    return "".join(characters), starts, ends


@functools.cache
def continuing_points() -> frozenset[int]:
    """Returns the code points that do not begin a group: marks, and characters that compose with a preceding one."""
    found = set(unicode_table.combining_classes()) | {last for _, last in unicode_table.compositions()}
    return frozenset(found | {point for point, parts in unicode_table.decompositions().items() if parts[0] in found})


@functools.cache
def decomposed_points() -> frozenset[int]:
    """Returns the code points that normalisation form C changes also when they are alone."""
    composed = set(unicode_table.compositions().values())
    return frozenset(point for point in unicode_table.decompositions() if point not in composed)


def _parts(text: str) -> Iterator[tuple[str, int, int]]:
    """Yields the normalised parts of the text in order, each with the start and end of its source."""
    if unicodedata.is_normalized("NFC", text):
        yield text, 0, len(text)
        return
    place = 0
    for match in _groups_to_normalize().finditer(text):
        first = match.start()
        if first and ord(text[first]) in continuing_points() and not _is_young(text[first - 1]):
            first -= 1
        group = text[first : match.end()]
        normalized = unicodedata.normalize("NFC", group)
        if normalized[0] == group[0]:  # a character that stays is a part of the text before
            first, group, normalized = first + 1, group[1:], normalized[1:]
        if normalized != group:
            yield text[place:first], place, first
            place = match.end()
            yield normalized, first, place
    yield text[place:], place, len(text)


@functools.cache
def _groups_to_normalize() -> re.Pattern:
    continuing, alone = (
        "".join(f"{chr(first)}-{chr(last)}" for first, last in unicode_table.runs(points))
        for points in (continuing_points(), decomposed_points())
    )
    return re.compile(f"[{continuing}{alone}][{continuing}]*")  # without the character before


def _is_young(character: str) -> bool:
    """Returns whether Unicode 14.0 does not assign the character."""
    ranges = unicode_table.unassigned_ranges()
    place = bisect.bisect_right(ranges, (ord(character), sys.maxunicode))
    return place > 0 and ord(character) <= ranges[place - 1][1]
