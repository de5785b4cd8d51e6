"""Writes unicode_14.txt, the frozen facts of Unicode 14.0, from the database of Python 3.11.

    python3.11 tests/tokenization/generate_unicode_data.py > keras_bert/tokenization/unicode_14.txt

Run it once; the result is in git. It refuses Pythons with another Unicode version: with the frozen table, tokens do not
depend on the version of Python, TensorFlow or the server.
"""

import sys
import textwrap
import unicodedata
from collections.abc import Iterable

UNICODE_VERSION = "14.0.0"
ALL_CODE_POINTS = range(0x110000)
JOINERS = (0x200C, 0x200D)
CIRCLED_LETTERS = (range(0x24B6, 0x24EA), range(0x1F130, 0x1F14A), range(0x1F150, 0x1F16A), range(0x1F170, 0x1F18A))


def main() -> None:
    if unicodedata.unidata_version != UNICODE_VERSION:
        sys.exit(f"This Python has Unicode {unicodedata.unidata_version}; {UNICODE_VERSION} (Python 3.11) is needed.")
    print("# Facts of Unicode 14.0 that the tokenizers need, written by generate_unicode_data.py: do not edit.")
    print("# Numbers are hexadecimal code points; a-b is a range with both ends. unicode_table.py reads them.")
    for name, comment, text in tables():
        print(f"\n# {comment}")
        print(f"[{name}]")
        print("\n".join(textwrap.wrap(text, width=118, break_long_words=False, break_on_hyphens=False)))


def tables() -> Iterable[tuple[str, str, str]]:
    """Yields name, comment and text of every table."""
    yield "WHITESPACE", "Space, tab, line feed, carriage return and categories Zs, Zl, Zp.", ranges(is_whitespace)
    yield "REMOVED", "Categories Cc and Cf except tab, line feed, carriage return; and U+FFFD.", ranges(is_removed)
    yield "PUNCTUATION", "ASCII symbols and category P.", ranges(is_punctuation)
    yield "NONSPACING_MARKS", "Category Mn.", ranges(lambda point: unicodedata.category(chr(point)) == "Mn")
    yield "UNASSIGNED", "Category Cn.", ranges(lambda point: unicodedata.category(chr(point)) == "Cn")
    yield "YOUNG_PUNCTUATION", "Punctuation that was none, or not there, in Unicode 3.2.", ranges(is_young_punctuation)
    yield "CASED", "Cased letters that are not case-ignorable, for the final sigma.", ranges(is_cased_letter)
    yield "CASE_IGNORABLE", "Skipped when looking for a cased letter beside a sigma.", ranges(is_case_ignorable)
    yield "ALPHANUMERIC", "What Python's str.isalnum says: letters, digits and other numbers.", ranges(is_alphanumeric)
    yield "UPPERCASE", "Those of them that str.isupper says are capitals.", ranges(is_uppercase)
    yield "DIGITS", "Those of them that str.isdigit says are digits.", ranges(lambda point: chr(point).isdigit())
    yield "LETTERS", "Categories L, as byte-level BPE splits words.", ranges(lambda point: is_of_category(point, "L"))
    yield "NUMBERS", "Categories N, as byte-level BPE splits words.", ranges(lambda point: is_of_category(point, "N"))
    yield "COMBINING_CLASSES", "Canonical combining classes other than 0, as range:decimal.", combining_classes()
    yield (
        "DECOMPOSED",
        "Canonical decompositions in one step, as point:result. Hangul syllables are left out.",
        decomposed(),
    )
    yield "NOT_COMPOSED", "Those of them that NFC decomposes.", ranges(is_not_composed)
    yield (
        "LOWERED",
        "Lower case where that changes something, as range:result. A range maps to consecutive results.",
        lowered(),
    )
    yield "WORD", "Word characters as regular expressions of Unicode define them (UTS 18).", ranges(is_word_character)


def is_whitespace(point: int) -> bool:
    return chr(point) in "\t\n\r" or unicodedata.category(chr(point)) in ("Zs", "Zl", "Zp")


def is_removed(point: int) -> bool:
    return point == 0xFFFD or (unicodedata.category(chr(point)) in ("Cc", "Cf") and not is_whitespace(point))


def is_punctuation(point: int) -> bool:
    is_ascii_symbol = 33 <= point <= 47 or 58 <= point <= 64 or 91 <= point <= 96 or 123 <= point <= 126
    return is_ascii_symbol or unicodedata.category(chr(point)).startswith("P")


def is_of_category(point: int, first_letter: str) -> bool:
    return unicodedata.category(chr(point)).startswith(first_letter)


def is_alphanumeric(point: int) -> bool:
    return chr(point).isalnum()


def is_uppercase(point: int) -> bool:
    return chr(point).isupper() and is_alphanumeric(point)


def is_young_punctuation(point: int) -> bool:
    old_category = unicodedata.ucd_3_2_0.category(chr(point))
    return point >= 128 and is_punctuation(point) and not old_category.startswith("P")


# Python does not expose these two properties, but str.lower() shows them: a capital sigma becomes a final one after
# a cased letter unless a cased letter follows, with case-ignorable characters skipped on both sides.
def is_cased_letter(point: int) -> bool:
    return ("A\N{GREEK CAPITAL LETTER SIGMA}" + chr(point)).lower()[1] == "\N{GREEK SMALL LETTER SIGMA}"


def is_case_ignorable(point: int) -> bool:
    skipped = ("A\N{GREEK CAPITAL LETTER SIGMA}" + chr(point) + "A").lower()[1] == "\N{GREEK SMALL LETTER SIGMA}"
    return skipped and not is_cased_letter(point)


def ranges(condition) -> str:
    """Returns "41-5a 61" for the code points that satisfy `condition`."""
    runs: list[list[int]] = []
    for point in filter(condition, ALL_CODE_POINTS):
        if runs and runs[-1][1] == point - 1:
            runs[-1][1] = point
        else:
            runs.append([point, point])
    return " ".join(range_text(first, last) for first, last in runs)


def range_text(first: int, last: int) -> str:
    return f"{first:x}" if first == last else f"{first:x}-{last:x}"


def combining_classes() -> str:
    runs: list[list[int]] = []
    for point in ALL_CODE_POINTS:
        combining_class = unicodedata.combining(chr(point))
        if combining_class and runs and runs[-1][1:] == [point - 1, combining_class]:
            runs[-1][1] = point
        elif combining_class:
            runs.append([point, point, combining_class])
    return " ".join(f"{range_text(first, last)}:{combining_class}" for first, last, combining_class in runs)


def canonical_decomposition(point: int) -> str:
    """Returns the decomposition in one step as in Unicode's data, "1100 1161"; "" without a canonical one."""
    text = unicodedata.decomposition(chr(point))
    return "" if text.startswith("<") else text


def decomposed() -> str:
    found = ((point, canonical_decomposition(point)) for point in ALL_CODE_POINTS)
    return " ".join(
        f"{point:x}:{'.'.join(f'{int(code, 16):x}' for code in text.split())}" for point, text in found if text
    )


def is_not_composed(point: int) -> bool:
    return bool(canonical_decomposition(point)) and unicodedata.normalize("NFC", chr(point)) != chr(point)


def lowered() -> str:
    runs: list[list] = []
    for point in ALL_CODE_POINTS:
        result = [ord(character) for character in chr(point).lower()]
        if result == [point]:
            continue
        if runs and len(result) == 1 and runs[-1][1] == point - 1 and runs[-1][3] == result[0] - 1:
            runs[-1][1:] = [point, runs[-1][2], result[0]]
        else:
            runs.append([point, point, result, result[0] if len(result) == 1 else None])
    return " ".join(
        f"{range_text(first, last)}:{'.'.join(f'{code:x}' for code in result)}" for first, last, result, _ in runs
    )


def is_word_character(point: int) -> bool:
    category = unicodedata.category(chr(point))
    is_circled_letter = any(point in letters for letters in CIRCLED_LETTERS)
    return category[0] in "LM" or category in ("Nd", "Nl", "Pc") or point in JOINERS or is_circled_letter


if __name__ == "__main__":
    main()
