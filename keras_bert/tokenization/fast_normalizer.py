"""Compiles Google's normalisation for tf.text's FastBertNormalize op, and detects the texts that this covers.

The op replaces code points by strings from a table (a double-array trie in a FlatBuffer). tf.text's own table also
folds compatibility characters, which Google does not do. So the table here is made from our frozen Unicode data. It has
single code points only: `table_text_pattern` matches the texts for which this is exact.

The following texts are not covered and left to `exact_graph`: texts with a capital sigma that could be final, with
marks that canonical ordering could move, with code points on which Unicode versions differ (the pieces op asks the
server's ICU where words end), with invalid UTF-8, or with words of more than 200 characters (100 in MPNet).
"""

import functools

import flatbuffers
import numpy as np

from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.unicode_table import TextRules, character_class

# Characters that are punctuation in older Unicode versions but not in 14.0: an old server would split words there.
FORMER_PUNCTUATION = (0x166D, 0x111C9)

# Private-use code points that stand for others in the exact path. Texts that contain them take that path too.
STAND_INS = range(0x100000, 0x10FFFE)

# An entry has 32 bits: whether the character changes, the start of its replacement, and the length of the replacement.
_CHANGES = 1 << 30
_LENGTH_BITS = 6

# A unit of the trie: the label, whether the node has a value, and the node's index XOR the index of its children.
# A value is a unit with the top bit set.
_HAS_VALUE = 1 << 8
_OFFSET_SHIFT = 10
_IS_VALUE = 1 << 31
_ROOT_CHILDREN = 256


def normalized(point: int, rules: TextRules) -> str:
    """Returns the replacement of a code point, regardless of its neighbours: "É" -> "e", tab -> " ", U+200B -> "".

    The op that follows separates ASCII punctuation, CJK ideographs and all characters that have been punctuation since
    Unicode 3.2 from words, in each of its versions. Punctuation added later gets spaces here.
    """
    if point in unicode_table.removed():
        return ""
    if point in unicode_table.whitespace():
        return " "
    points = rules.changed_points().get(point, (point,))
    points = tuple(part for part in points if part not in rules.dropped_marks())
    young = unicode_table.young_punctuation()
    return "".join(f" {chr(part)} " if part in young else chr(part) for part in points)


@functools.cache
def normalizer_model(rules: TextRules) -> bytes:
    """Returns the FastBertNormalizerModel FlatBuffer that holds `normalized`."""
    changing = set(unicode_table.removed()) | unicode_table.whitespace() | unicode_table.young_punctuation()
    changing |= rules.dropped_marks() | rules.changed_points().keys()
    changes = {point: normalized(point, rules) for point in sorted(changing)}
    pool = bytearray()
    entries: dict[str, int] = {}
    for result in changes.values():
        if result not in entries:
            encoded = result.encode()
            entries[result] = _CHANGES | len(pool) << _LENGTH_BITS | len(encoded)
            pool += encoded
    # The trie cannot hold NUL, which has a field of its own.
    values = {point: entries[result] for point, result in changes.items() if point and result != chr(point)}
    return _flatbuffer(_double_array(values), entries[changes[0]], bytes(pool), rules.strip_accents)


def _double_array(values: dict[int, int]) -> np.ndarray:
    """Lays out a trie from UTF-8 to values as a double array, uint32.

    The index of a child is the base of its parent XOR the child's byte. The children of the root are in a block of 256.
    All others are continuation bytes 0x80-0xBF, so each inner node gets an aligned block of 64, without a search for
    gaps. The distinct values follow, each stored once.
    """
    encodings = [chr(point).encode() for point in values]
    inner = sorted({encoded[:end] for encoded in encodings for end in range(1, len(encoded))})
    first_block = _ROOT_CHILDREN + 256
    blocks = {prefix: first_block + 64 * index for index, prefix in enumerate(inner)}
    first_value = first_block + 64 * len(inner)
    distinct = {value: first_value + index for index, value in enumerate(sorted(set(values.values())))}
    # Lookups with any byte must stay inside the array.
    units = np.zeros((first_value + len(distinct)) // 256 * 256 + 512, np.uint32)

    def place(encoded: bytes) -> int:
        return _ROOT_CHILDREN + encoded[0] if len(encoded) == 1 else blocks[encoded[:-1]] + (encoded[-1] & 0x3F)

    units[0] = _ROOT_CHILDREN << _OFFSET_SHIFT
    for prefix, block in blocks.items():
        node = place(prefix)
        units[node] = prefix[-1] | (node ^ block ^ 0x80) << _OFFSET_SHIFT
    for encoded, value in zip(encodings, values.values(), strict=True):
        node = place(encoded)
        units[node] = encoded[-1] | _HAS_VALUE | (node ^ distinct[value]) << _OFFSET_SHIFT
    for value, position in distinct.items():
        units[position] = _IS_VALUE | value
    return units


def _flatbuffer(units: np.ndarray, zero_entry: int, pool: bytes, strips: bool) -> bytes:
    builder = flatbuffers.Builder(len(pool) + 4 * len(units) + 1024)
    pool_vector = builder.CreateByteVector(pool)
    trie_vector = builder.CreateNumpyVector(units)
    # The fields of tf.text's fast_bert_normalizer_model.fbs, which are the same from 2.12 to 2.21.
    builder.StartObject(4)
    builder.PrependBoolSlot(0, strips, False)
    builder.PrependUOffsetTRelativeSlot(1, trie_vector, 0)
    builder.PrependInt32Slot(2, zero_entry, 0)
    builder.PrependUOffsetTRelativeSlot(3, pool_vector, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


@functools.cache
def needs_stand_in(chinese_chars: bool = True) -> np.ndarray:
    """Marks the code points that must not reach the pieces op, in a bool array `(0x110000,)`.

    They are those that a server's ICU may take for punctuation or space although Unicode 14.0 does not, and ideographs,
    which the op makes words, if they are none.
    """
    marked = np.zeros(0x110000, bool)
    marked[list(FORMER_PUNCTUATION)] = True
    marked[STAND_INS.start : STAND_INS.stop] = True
    for first, last in (*unicode_table.unassigned_ranges(), *(() if chinese_chars else unicode_table.CJK_RANGES)):
        marked[first : last + 1] = True
    return marked


@functools.cache
def table_text_pattern(rules: TextRules) -> str:
    """Returns an RE2 expression for the texts whose code points can be normalised one by one."""
    covered = ~needs_stand_in(rules.chinese_chars)
    covered[0xD800:0xE000] = False
    if rules.strip_accents:
        covered[[*_marks_that_move(rules)]] = False
    if not rules.lower_case:
        return f"[{character_class({*np.flatnonzero(covered).tolist()})}]*"
    # A sigma before a cased letter is never final.
    sigma = unicode_table.CAPITAL_SIGMA
    covered[sigma] = False
    cased = {point for point in unicode_table.cased_letters() if covered[point]}
    return f"(?:[{character_class({*np.flatnonzero(covered).tolist()})}]|\\x{{{sigma:x}}}+[{character_class(cased)}])*"


def _marks_that_move(rules: TextRules) -> set[int]:
    # Reordering is visible only for marks that are kept. All kept marks of class 9 are equal.
    classes, marks = unicode_table.combining_classes(), unicode_table.nonspacing_marks()
    moving = {point for point, number in classes.items() if point not in marks and number != 9}
    return moving | {point for point, parts in rules.changed_points().items() if moving.intersection(parts)}


def short_words_pattern(rules: TextRules) -> str:
    """Returns an RE2 expression for normalised texts without words that are unknown because of their length.

    The expression knows only ASCII punctuation, CJK punctuation and ideographs as separators. It rejects few texts
    without need.
    """
    separator = r" -/:-@\[-`{-~\x{3001}-\x{3003}\x{3008}-\x{3011}\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}"
    word = f"[^{separator}]{{0,{rules.max_characters}}}"
    return f"(?:{word}[{separator}])*{word}"
