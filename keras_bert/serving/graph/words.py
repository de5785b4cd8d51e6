"""Splits plain texts into words as a TensorFlow graph, with byte offsets, as `tokenization/text_words.py` does.

That module goes from left to right and looks at the word so far. Here each rule looks only at the few characters around
a position, so all positions of all texts are decided at once. The rules start from the words of `word_spans`. Comments
call them spans and number them by i; span i begins at character s.
"""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.exact_graph import CodePointTable, changes
from keras_bert.tokenization.text_words import APOSTROPHES, DIGIT_JOINERS, JOINERS

_WHITESPACE, _REMOVED, _SEPARATE, _ALPHANUMERIC, _UPPERCASE, _DIGIT, _JOINER, _DIGIT_JOINER = (
    1 << bit for bit in range(8)
)
_PERIOD = ord(".")


class WordsOfTexts(NamedTuple):
    """The W words of B texts.

    Attributes:
        points: int32 (C,), the code points of all texts, concatenated.
        first_points, end_points: int64 (W,), the start and end of each word in `points`.
        starts, ends: int32 RaggedTensor (B, None), the same in bytes of its text.
    """

    points: tf.Tensor
    first_points: tf.Tensor
    end_points: tf.Tensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


class GraphWords(tf.Module):
    """Strings -> their words, in the graph, equal to `words_of_text`.

    Invalid UTF-8 is skipped; it is outside all words, or at the end of the word before it.

    Example:
        ["it's 10,000"] -> points "it's 10,000", starts [[0, 2, 5]], ends [[2, 4, 11]]
    """

    def __init__(self):
        super().__init__()
        self._properties = CodePointTable(_property_numbers())

    def __call__(self, texts: tf.Tensor) -> WordsOfTexts:
        """Finds the words of strings (B,)."""
        decoded, byte_starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="ignore")
        points, rows = decoded.values, decoded.value_rowids()
        properties = tf.cast(self._properties(points), tf.int32)
        firsts, ends = _spans(properties, rows)
        span_rows = tf.gather(rows, firsts)
        begins = ~_goes_on(points, properties, firsts, ends, span_rows)

        first_points = tf.boolean_mask(firsts, begins)
        # A word ends with the span before the first span of the next word.
        is_last = tf.concat([begins[1:], tf.ones_like(begins[:1])], 0)
        end_points = tf.boolean_mask(ends, is_last)
        word_rows = tf.boolean_mask(span_rows, begins)
        splits = tf.searchsorted(word_rows, tf.range(tf.size(texts, tf.int64) + 1), out_type=tf.int64)
        starts = tf.gather(byte_starts.values, first_points)
        is_inside = end_points < tf.gather(decoded.row_splits, word_rows + 1)
        ends_inside = tf.gather(tf.concat([byte_starts.values, [0]], 0), end_points)
        text_ends = tf.gather(tf.cast(tf.strings.length(texts), tf.int64), word_rows)

        def ragged(values):
            return tf.RaggedTensor.from_row_splits(tf.cast(values, tf.int32), splits, validate=False)

        return WordsOfTexts(
            points, first_points, end_points, ragged(starts), ragged(tf.where(is_inside, ends_inside, text_ends))
        )


def spell(points: tf.Tensor, firsts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Returns the code points `points[firsts:ends]` as strings (n,); `firsts` and `ends` are int64 (n,)."""
    indices = tf.ragged.range(firsts, ends)
    return tf.strings.unicode_encode(indices.with_values(tf.gather(points, indices.values)), "UTF-8")


def _spans(properties, rows):
    """Returns the start and end of each word of `word_spans`, int64 (S,), as character indices."""
    num_points = tf.size(properties, tf.int64)
    is_break = changes(rows) | _has(properties, _WHITESPACE)
    stretches = tf.cumsum(tf.cast(is_break, tf.int64)) - 1
    kept = tf.where(~_has(properties, _WHITESPACE | _REMOVED))[:, 0]
    is_separate = _has(tf.gather(properties, kept), _SEPARATE)
    begins = changes(tf.gather(stretches, kept)) | is_separate | _before(is_separate)
    firsts = tf.boolean_mask(kept, begins)
    # A span ends where the next one begins, or at the end of its stretch without white space.
    next_breaks = tf.concat([tf.where(is_break)[1:, 0], [num_points, num_points]], 0)
    stretch_ends = tf.gather(next_breaks, tf.gather(stretches, firsts))
    return firsts, tf.minimum(tf.concat([firsts[1:], [num_points]], 0)[: tf.size(firsts)], stretch_ends)


def _goes_on(points, properties, firsts, ends, rows):
    """Returns whether each span continues the word before it, bool (S,): `_belongs_together`, without the word."""
    point, kind = tf.gather(points, firsts), tf.gather(properties, firsts)
    # The two characters before it, 0 if there are none.
    padded_points, padded_properties = (tf.concat([[0, 0], values], 0) for values in (points, properties))
    last_point, last_kind = tf.gather(padded_points, firsts + 1), tf.gather(padded_properties, firsts + 1)
    second_last_point, second_last_kind = tf.gather(padded_points, firsts), tf.gather(padded_properties, firsts)
    touches = tf.equal(_before(ends), firsts) & ~changes(rows)
    is_single = tf.equal(ends - firsts, 1)
    # The adjacent character after it.
    touched = tf.concat([touches[1:], tf.zeros_like(touches[:1])], 0)
    after_point, after_kind = (tf.where(touched, tf.concat([values[1:], values[:1]], 0), 0) for values in (point, kind))
    is_alphanumeric = _has(kind, _ALPHANUMERIC)

    # Repeated punctuation. Each such character is a span.
    repeats = touches & is_single & ~is_alphanumeric & tf.equal(point, last_point)

    # A letter or digit after an apostrophe that is a word so far, or after a joiner that was joined because of it.
    is_apostrophe = tf.reduce_any([tf.equal(last_point, ord(character)) for character in sorted(APOSTROPHES)], 0)
    is_joined = _has(last_kind, _JOINER) | (
        _has(last_kind, _DIGIT_JOINER) & _has(second_last_kind, _DIGIT) & _has(kind, _DIGIT)
    )
    follows = (is_apostrophe & ~_before(repeats)) | (
        is_joined & _has(second_last_kind, _ALPHANUMERIC) & _before(touches)
    )
    follows &= touches & is_alphanumeric

    # A joiner between letters or digits; the period of an initial.
    is_initial = _has(last_kind, _UPPERCASE) & _before(is_single) & ~tf.equal(after_point, _PERIOD)
    is_initial &= ~_before(follows) | tf.equal(second_last_point, _PERIOD)
    joins = (
        (_has(kind, _JOINER) & _has(after_kind, _ALPHANUMERIC))
        | (_has(kind, _DIGIT_JOINER) & _has(last_kind, _DIGIT) & _has(after_kind, _DIGIT))
        | (tf.equal(point, _PERIOD) & is_initial)
    )
    joins &= touches & is_single & _has(last_kind, _ALPHANUMERIC)
    return repeats | follows | joins


def _has(properties: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.not_equal(tf.bitwise.bitwise_and(properties, bits), 0)


def _before(values: tf.Tensor) -> tf.Tensor:
    """[7, 8, 9] -> [0, 7, 8]"""
    return tf.concat([tf.zeros_like(values[:1]), values[:-1]], 0)


@functools.cache
def _property_numbers() -> np.ndarray:
    numbers = np.zeros(0x110000, np.uint8)
    ideographs = {point for first, last in unicode_table.CJK_RANGES for point in range(first, last + 1)}
    for bit, points in (
        (_WHITESPACE, unicode_table.whitespace()),
        (_REMOVED, unicode_table.removed()),
        (_SEPARATE, unicode_table.punctuation() | ideographs),
        (_ALPHANUMERIC, unicode_table.alphanumeric()),
        (_UPPERCASE, unicode_table.uppercase()),
        (_DIGIT, unicode_table.digits()),
        (_JOINER, map(ord, JOINERS)),
        (_DIGIT_JOINER, map(ord, DIGIT_JOINERS)),
    ):
        numbers[list(points)] |= bit
    return numbers
