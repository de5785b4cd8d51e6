"""Unicode's normalisation form C inside the TensorFlow graph, equal to nfc.py: for tf.data and for SavedModels.

All operations are core TensorFlow operations, which TF Serving includes. Texts without accents beyond Latin pass after
one regular expression.
"""

import tensorflow as tf

from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.exact_graph import (
    CLASS_SHIFT,
    CodePointReplacements,
    CodePointTable,
    Sources,
    canonical_order,
    changes,
    code_point_bits,
    flagged,
    next_in_group,
    shifted,
    starts_of_runs,
    table,
)
from keras_bert.tokenization.nfc import continuing_points, decomposed_points

_CONTINUES, _DECOMPOSES = 1, 2
# No character below this one begins or continues anything that normalisation form C changes.
_UNCHANGED = "[\\x00-\\x{2FF}]*"


class GraphNfc(tf.Module):
    """Strings -> strings in normalisation form C. Invalid UTF-8 is kept."""

    def __init__(self):
        super().__init__()
        self._properties = CodePointTable(code_point_bits(continuing_points(), decomposed_points()))
        self._decomposed = CodePointReplacements(unicode_table.decompositions())
        pairs = unicode_table.compositions()
        keys = tf.constant([first << 21 | last for first, last in pairs], tf.int64)
        composed = tf.constant(list(pairs.values()), tf.int32)
        self._composed = table(keys, composed, -1)

    def __call__(self, texts) -> tuple[tf.Tensor, Sources]:
        """Returns the normalised texts and their sources: strings `(texts,)` -> strings `(texts,)`."""
        return tf.cond(
            tf.reduce_all(tf.strings.regex_full_match(texts, _UNCHANGED)),
            lambda: (texts, _unchanged(texts)),
            lambda: self._normalize(texts),
        )

    def _normalize(self, texts):
        decoded, offsets = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="replace")
        points, rows = decoded.values, tf.cast(decoded.value_rowids(), tf.int32)
        lengths = tf.strings.length(texts)
        starts = tf.cast(offsets.values, tf.int32)  # in the text
        ends = next_in_group(starts, rows, tf.gather(lengths, rows))
        properties = self._properties(points)
        begins = changes(rows) | tf.equal(properties & _CONTINUES, 0)
        groups = tf.cumsum(tf.cast(begins, tf.int32)) - 1
        is_open = tf.not_equal(properties & (_CONTINUES | _DECOMPOSES), 0)
        is_open = tf.gather(tf.math.unsorted_segment_max(tf.cast(is_open, tf.int32), groups, tf.size(points)), groups)
        characters = flagged(is_open > 0, points, rows, starts, ends, groups)
        return self._with_groups(texts, lengths, *characters)

    def _with_groups(self, texts, lengths, points, rows, starts, ends, groups):
        """Normalises the groups that consist of these characters, and puts them back into the texts."""
        parts, sources = self._decomposed(points)
        normalized, numbers = self._composed_groups(parts, tf.gather(groups, sources))
        (firsts,) = flagged(changes(groups), tf.range(tf.size(groups)))
        (normal_firsts,) = flagged(changes(numbers), tf.range(tf.size(numbers)))
        # A first character that stays is a part of the text before: it may be invalid UTF-8, which has no code point.
        stays = tf.equal(tf.gather(points, firsts), tf.gather(normalized, normal_firsts))
        splits = tf.concat([normal_firsts, [tf.size(normalized)]], 0)
        new = tf.strings.unicode_encode(tf.RaggedTensor.from_row_splits(normalized, splits, validate=False), "UTF-8")
        kept = tf.where(stays, tf.strings.length(tf.strings.substr(new, 0, 1, unit="UTF8_CHAR")), 0)
        new = tf.strings.substr(new, kept, tf.strings.length(new))
        group_rows = tf.gather(rows, firsts)
        lasts = shifted(firsts, -1, tf.size(groups)) - 1
        group_ends = tf.gather(ends, lasts)
        group_starts = tf.where(stays, tf.gather(ends, firsts), tf.gather(starts, firsts))
        old = tf.strings.substr(tf.gather(texts, group_rows), group_starts, group_ends - group_starts)
        return _joined(texts, lengths, *flagged(tf.not_equal(old, new), group_rows, group_starts, group_ends, new))

    def _composed_groups(self, points, groups):
        """Orders and composes the code points of each group. Only the first one of a group composes with others."""
        classes = tf.bitwise.right_shift(self._properties(points), CLASS_SHIFT)
        order = canonical_order(groups, classes)
        points, classes = tf.gather(points, order), tf.gather(classes, order)
        state = (tf.constant(True), points, classes, groups, tf.ones_like(groups, tf.bool))
        shapes = (tf.TensorShape([]), *(tf.TensorShape([None]) for _ in range(4)))
        _, points, _, groups, _ = tf.while_loop(
            lambda goes_on, *_: goes_on, lambda _, *arrays: self._compose_once(*arrays), state, shape_invariants=shapes
        )
        return points, groups

    def _compose_once(self, points, classes, groups, is_ahead):
        """Composes the first code point of each group with the next one that composes with it.

        `is_ahead` marks the code points after the last composed one of their group: the others have been tried.
        """
        begins = changes(groups)
        places = tf.range(tf.size(points))
        firsts = starts_of_runs(begins)  # the first place of each one's group
        class_before = shifted(classes, 1, 0)
        # Marks of one run are sorted, so the one before has the highest class that was kept; class 0 blocks the rest.
        zeros = tf.cumsum(tf.cast(tf.equal(classes, 0) & ~begins, tf.int32), exclusive=True)
        zeros -= tf.gather(zeros, firsts)
        is_free = tf.equal(zeros, 0) & (tf.equal(places, firsts + 1) | (class_before < classes)) & ~begins & is_ahead
        keys = tf.cast(tf.gather(points, firsts), tf.int64) * 2**21 + tf.cast(points, tf.int64)
        composed = self._composed.lookup(tf.where(is_free, keys, -1))
        can = tf.cast(composed >= 0, tf.int32)
        count = tf.cumsum(can)
        count -= tf.gather(count, firsts)
        is_next = (can > 0) & tf.equal(count, 1)
        targets, values = flagged(is_next, firsts, composed)
        points = tf.tensor_scatter_nd_update(points, targets[:, tf.newaxis], values)
        has_composed = tf.math.unsorted_segment_max(tf.cast(is_next, tf.int32), firsts, tf.size(points))
        is_ahead &= tf.equal(tf.gather(has_composed, firsts), 0) | (count > 0)
        return tf.reduce_any(is_next), *flagged(~is_next, points, classes, groups, is_ahead)


def _unchanged(texts) -> Sources:
    start, end = tf.zeros([1], tf.int32), tf.reduce_sum(tf.strings.length(texts))[tf.newaxis]
    return Sources(start, start, end, tf.zeros([1], tf.bool))


def _joined(texts, lengths, rows, starts, ends, new):
    """Puts changed parts, strings `(changes,)`, into texts of these lengths. Returns these and their `Sources`.

    `rows`, `starts` and `ends`, int32 `(changes,)`, are the number of the text of each part and its bytes there.
    """
    count, num_new = tf.size(texts), tf.size(new)
    # The parts: what follows the start of a text (0) or a changed part (1), and the changed parts (2).
    part_rows = tf.concat([tf.range(count), rows, rows], 0)
    part_starts = tf.concat([tf.zeros_like(lengths), ends, starts], 0)
    kinds = tf.repeat([0, 1, 2], [count, num_new, num_new])
    base = tf.cumsum(lengths, exclusive=True)
    places = tf.gather(base, part_rows) + part_starts
    order = tf.argsort((tf.cast(places + part_rows, tf.int64)) * 3 + tf.cast(kinds, tf.int64))
    part_rows, places, kinds = (tf.gather(values, order) for values in (part_rows, places, kinds))
    new = tf.gather(tf.concat([tf.fill([count + num_new], ""), new], 0), order)
    part_ends = shifted(places, -1, tf.reduce_sum(lengths))
    old = tf.strings.substr(tf.gather(texts, part_rows), places - tf.gather(base, part_rows), part_ends - places)
    is_changed = tf.equal(kinds, 2)
    parts = tf.where(is_changed, new, old)
    part_lengths = tf.strings.length(parts)
    sources = Sources(tf.cumsum(part_lengths, exclusive=True), places, part_ends, is_changed)
    return tf.strings.unsorted_segment_join(parts, part_rows, count), sources
