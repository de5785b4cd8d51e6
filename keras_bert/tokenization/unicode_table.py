"""Lookups in the frozen data of Unicode 14.0 (unicode_14.txt), shared by the Python and the graph tokenizers, and the
settings by which WordPiece makes words of a text.

Python's `unicodedata` and `str.lower` depend on the Python version, and TensorFlow's ICU on the server, so neither is
used.
"""

import functools
import importlib.resources
from collections.abc import Iterator, Set
from typing import NamedTuple

# A longer word becomes one [UNK], unless a vocabulary states another number.
MAX_CHARACTERS_PER_WORD = 200

CAPITAL_SIGMA = 0x3A3
FINAL_SIGMA = 0x3C2

# The blocks that google-research/bert surrounds with spaces.
CJK_RANGES = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)

# Unicode's property White_Space: `\s` in the patterns of byte-level BPE. Python's `\s` would add U+001C to U+001F.
WHITE_SPACE = frozenset(
    [*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
)

_HANGUL_FIRST, _HANGUL_LAST = 0xAC00, 0xD7A3
_LEADING_FIRST, _VOWEL_FIRST, _TRAILING_BEFORE_FIRST = 0x1100, 0x1161, 0x11A7
_VOWEL_COUNT, _TRAILING_COUNT = 21, 28


@functools.cache
def _facts() -> dict[str, str]:
    """Returns name -> text of each table in unicode_14.txt."""
    text = importlib.resources.files(__package__).joinpath("unicode_14.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    sections = "\n".join(lines).split("[")[1:]
    return dict(section.split("]", 1) for section in sections)


def _items(name: str) -> Iterator[tuple[int, int, str]]:
    """Yields the items of a table: "41-5a:9 61" -> (0x41, 0x5A, "9"), (0x61, 0x61, "")."""
    for item in _facts()[name].split():
        points, _, value = item.partition(":")
        first, _, last = points.partition("-")
        yield int(first, 16), int(last or first, 16), value


@functools.cache
def _points(name: str) -> frozenset[int]:
    return frozenset(point for first, last, _ in _items(name) for point in range(first, last + 1))


# Each returns a set of code points. unicode_14.txt has their definitions.
whitespace = functools.partial(_points, "WHITESPACE")  # separate tokens
removed = functools.partial(_points, "REMOVED")  # dropped, which joins their neighbours
punctuation = functools.partial(_points, "PUNCTUATION")  # words of their own
young_punctuation = functools.partial(_points, "YOUNG_PUNCTUATION")  # not ASCII, and not punctuation in Unicode 3.2
nonspacing_marks = functools.partial(_points, "NONSPACING_MARKS")  # the accents, which lower-casing strips
cased_letters = functools.partial(_points, "CASED")  # those that are not case-ignorable
case_ignorable = functools.partial(_points, "CASE_IGNORABLE")  # skipped in the search for cased letters around a sigma
alphanumeric = functools.partial(_points, "ALPHANUMERIC")  # as `str.isalnum` defines them
uppercase = functools.partial(_points, "UPPERCASE")  # alphanumeric capitals, as `str.isupper` defines them
digits = functools.partial(_points, "DIGITS")  # as `str.isdigit` defines them
letters = functools.partial(_points, "LETTERS")  # categories L
numbers = functools.partial(_points, "NUMBERS")  # categories N
word_characters = functools.partial(_points, "WORD")  # `\w` of regular expressions: letters, marks, digits, joiners


@functools.cache
def unassigned_ranges() -> list[tuple[int, int]]:
    """Returns (first, last) of each run of code points that Unicode 14.0 does not assign. They are kept unchanged."""
    return [(first, last) for first, last, _ in _items("UNASSIGNED")]


def runs(points: Set[int]) -> Iterator[tuple[int, int]]:
    """Yields first and last code point of each run: {0x41, 0x42, 0x61} -> (0x41, 0x42), (0x61, 0x61)."""
    firsts, lasts = (sorted(point for point in points if point + step not in points) for step in (-1, 1))
    return zip(firsts, lasts, strict=True)


def character_class(points: Set[int]) -> str:
    """Returns code points as the inside of brackets of RE2: {0x41, 0x42, 0x61} -> "\\x{41}-\\x{42}\\x{61}-\\x{61}" """
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in runs(points))


@functools.cache
def combining_classes() -> dict[int, int]:
    """Returns code point -> canonical combining class, for classes other than 0."""
    items = _items("COMBINING_CLASSES")
    return {point: int(number) for first, last, number in items for point in range(first, last + 1)}


@functools.cache
def decompositions() -> dict[int, tuple[int, ...]]:
    """Returns code point -> its full canonical decomposition, NFD, if that differs from the code point."""
    steps = _decomposition_steps()

    def parts(point: int) -> tuple[int, ...]:
        return tuple(part for code in steps[point] for part in parts(code)) if point in steps else (point,)

    return {point: parts(point) for point in steps} | dict(_hangul_decompositions())


@functools.cache
def compositions() -> dict[tuple[int, int], int]:
    """Returns pair of code points -> the code point that NFC makes of them."""
    excluded = _points("NOT_COMPOSED")
    table = {parts: point for point, parts in _decomposition_steps().items() if point not in excluded}
    syllables = {letters: syllable for syllable, letters in _hangul_decompositions()}
    for letters, syllable in syllables.items():
        *first, last = letters
        table[syllables[tuple(first)] if len(first) == 2 else first[0], last] = syllable
    return table


def _decomposition_steps() -> dict[int, tuple[int, ...]]:
    return {point: tuple(int(code, 16) for code in value.split(".")) for point, _, value in _items("DECOMPOSED")}


@functools.cache
def lowered_points() -> dict[int, tuple[int, ...]]:
    """Returns code point -> its lower case, if that differs. That of a final sigma depends on its neighbours."""
    table = {}
    for first, last, value in _items("LOWERED"):
        codes = tuple(int(code, 16) for code in value.split("."))
        for point in range(first, last + 1):
            table[point] = codes if len(codes) > 1 else (codes[0] + point - first,)
    return table


@functools.cache
def folded_points() -> dict[int, tuple[int, ...]]:
    """Returns code point -> canonical decomposition of its lower case, marks included, if that differs."""
    lowered, decomposed = lowered_points(), decompositions()

    def fold(point: int) -> tuple[int, ...]:
        return tuple(part for low in lowered.get(point, (point,)) for part in decomposed.get(low, (low,)))

    return {point: fold(point) for point in sorted(lowered.keys() | decomposed.keys()) if fold(point) != (point,)}


def _hangul_decompositions() -> Iterator[tuple[int, tuple[int, ...]]]:
    # Unicode 14.0, section 3.12: a syllable's number encodes its letters in mixed radix.
    for syllable in range(_HANGUL_FIRST, _HANGUL_LAST + 1):
        rest, trailing = divmod(syllable - _HANGUL_FIRST, _TRAILING_COUNT)
        leading, vowel = divmod(rest, _VOWEL_COUNT)
        letters = (_LEADING_FIRST + leading, _VOWEL_FIRST + vowel)
        yield syllable, (*letters, _TRAILING_BEFORE_FIRST + trailing) if trailing else letters


def is_cjk(point: int) -> bool:
    """Returns whether google-research/bert makes the character a separate word (ideographs, not kana or Hangul)."""
    return point >= CJK_RANGES[0][0] and any(first <= point <= last for first, last in CJK_RANGES)


class TextRules(NamedTuple):
    """How a text becomes words."""

    lower_case: bool
    strip_accents: bool  # whether it is decomposed and non-spacing marks are dropped
    chinese_chars: bool = True  # whether every CJK ideograph is a word
    max_characters: int = MAX_CHARACTERS_PER_WORD  # a word with more characters is unknown

    def changed_points(self) -> dict[int, tuple[int, ...]]:
        """Returns code point -> its replacement, if that differs. Marks are not dropped."""
        if not self.strip_accents:
            return lowered_points() if self.lower_case else {}
        return folded_points() if self.lower_case else decompositions()

    def dropped_marks(self) -> frozenset[int]:
        return nonspacing_marks() if self.strip_accents else frozenset()
