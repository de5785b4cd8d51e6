"""The tokenizer's exact path: each step works on code points, in core TensorFlow ops.

It accepts any bytes but is slower than the path through tf.text's normaliser, so `graph_wordpiece` uses it only for
texts that need it. wordpiece.py has the same steps in Python, for one text at a time.
"""

import itertools
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.program.errors import InputError
from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.unicode_table import TextRules

# Bits of the property table; the higher bits hold the canonical combining class.
_REMOVED, _WHITESPACE, _CJK, _PUNCTUATION, _MARK, _CASED, _IGNORABLE = (1 << bit for bit in range(7))
CLASS_SHIFT = 8
_BLOCK = 128


class CodePointTable(tf.Module):
    """Maps code points to `numbers`, an array (0x110000,), in two stages: equal blocks of 128 are stored once."""

    def __init__(self, numbers: np.ndarray):
        super().__init__()
        blocks: dict[bytes, int] = {}
        starts = [blocks.setdefault(block.tobytes(), len(blocks) * _BLOCK) for block in numbers.reshape(-1, _BLOCK)]
        self._starts = tf.constant(starts, tf.int32)
        self._numbers = tf.constant(np.frombuffer(b"".join(blocks), numbers.dtype))

    def __call__(self, points: tf.Tensor) -> tf.Tensor:
        return tf.gather(self._numbers, tf.gather(self._starts, points // _BLOCK) + points % _BLOCK)


class CodePointReplacements(tf.Module):
    """Replaces code points by others: code point -> those that take its place. The others stay."""

    def __init__(self, replacements: Mapping[int, tuple[int, ...]]):
        super().__init__()
        rows = np.zeros(0x110000, np.int32)  # row 0 is for code points that stay
        rows[list(replacements)] = np.arange(1, len(replacements) + 1)
        lengths = np.array([1, *map(len, replacements.values())])
        self._rows = CodePointTable(rows)
        self._lengths = tf.constant(lengths, tf.int32)
        self._starts = tf.constant(np.cumsum(lengths) - lengths, tf.int32)
        self._values = tf.constant([0, *itertools.chain.from_iterable(replacements.values())], tf.int32)

    def __call__(self, points: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the new code points, and the index of the source of each."""
        rows = self._rows(points)
        lengths = tf.gather(self._lengths, rows)
        sources = tf.repeat(tf.range(tf.size(points)), lengths)
        within = tf.range(tf.size(sources)) - tf.gather(tf.cumsum(lengths, exclusive=True), sources)
        rows = tf.gather(rows, sources)
        values = tf.gather(self._values, tf.gather(self._starts, rows) + within)
        return tf.where(tf.equal(rows, 0), tf.gather(points, sources), values), sources


class Sources(NamedTuple):
    """Where the parts of normalised texts come from. Places are bytes in the concatenation of all texts."""

    places: tf.Tensor  # int32 `(parts,)`, where each part begins in the normalised texts
    starts: tf.Tensor  # int32 `(parts,)`, where its source starts
    ends: tf.Tensor
    is_changed: tf.Tensor  # bool `(parts,)`, whether it differs from its source

    def of_spans(self, starts, ends) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the sources of spans of the normalised texts. An empty span stays empty."""
        last = tf.maximum(tf.searchsorted(self.places, ends - 1, side="right") - 1, 0)
        first = tf.searchsorted(self.places, starts, side="right") - 1
        source_ends = tf.where(
            tf.gather(self.is_changed, last),
            tf.gather(self.ends, last),
            tf.gather(self.starts, last) + ends - tf.gather(self.places, last),
        )
        inside = tf.where(tf.gather(self.is_changed, first), 0, starts - tf.gather(self.places, first))
        source_starts = tf.where(tf.equal(starts, ends), source_ends, tf.gather(self.starts, first) + inside)
        return source_starts, source_ends


class ExactTokenizer(tf.Module):
    """Converts texts to pieces with byte offsets, for any bytes.

    Words are cut by `graph_wordpiece.TextPieces` or `core_wordpiece.TriePieces`.
    """

    def __init__(self, cut_words, rules: TextRules):
        super().__init__()
        self._cut_words = cut_words
        self._rules = rules
        ranges = unicode_table.CJK_RANGES if rules.chinese_chars else ()
        self._properties = CodePointTable(
            code_point_bits(
                unicode_table.removed(),
                unicode_table.whitespace(),
                [point for first, last in ranges for point in range(first, last + 1)],
                unicode_table.punctuation(),
                unicode_table.nonspacing_marks(),
                unicode_table.cased_letters(),
                unicode_table.case_ignorable(),
            )
        )
        self._folded = CodePointReplacements(rules.changed_points())

    def __call__(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Tokenizes strings `(rows,)`.

        Returns ids int32 `(pieces,)`, row splits int64 `(rows + 1,)`, starts and ends int64 `(pieces,)`.
        """
        points, starts, ends, tokens, rows = self._normalized_characters(texts, keeps_space=False)
        properties = self._properties(points)
        is_punctuation = tf.not_equal(properties & _PUNCTUATION, 0)
        word_starts = changes(tokens) | is_punctuation | shifted(is_punctuation, 1, False)
        ids, piece_words, first, last = self._cut_words(points, word_starts)
        piece_rows = tf.gather(flagged(word_starts, rows)[0], piece_words)
        splits = tf.searchsorted(piece_rows, tf.range(tf.size(texts, tf.int64) + 1), out_type=tf.int64)
        return ids, splits, tf.gather(starts, first), tf.gather(ends, last)

    def normalize(self, texts: tf.Tensor) -> tuple[tf.Tensor, Sources]:
        """As `WordPieceTokenizer.normalize`: returns the normalised texts, strings `(rows,)`, and their sources."""
        points, starts, ends, _, rows = self._normalized_characters(texts, keeps_space=True)
        points, starts, ends, rows = self._with_spaces_around_cjk(points, starts, ends, rows)
        splits = tf.searchsorted(rows, tf.range(tf.size(texts, tf.int64) + 1), out_type=tf.int64)
        normalized = tf.RaggedTensor.from_row_splits(points, splits, validate=False)
        lengths = tf.strings.length(tf.strings.unicode_encode(points[:, tf.newaxis], "UTF-8"))
        bases = tf.gather(tf.cumsum(tf.strings.length(texts), exclusive=True), rows)
        starts, ends = tf.cast(starts, tf.int32) + bases, tf.cast(ends, tf.int32) + bases
        sources = Sources(tf.cumsum(lengths, exclusive=True), starts, ends, tf.ones_like(starts, tf.bool))
        return tf.strings.unicode_encode(normalized, "UTF-8"), sources

    def _with_spaces_around_cjk(self, points, starts, ends, rows):
        """Puts a space on both sides of each ideograph that is a word."""
        is_cjk = tf.not_equal(self._properties(points) & _CJK, 0)
        lengths = tf.where(is_cjk, 3, 1)
        sources = tf.repeat(tf.range(tf.size(points)), lengths)
        place = tf.range(tf.size(sources)) - tf.gather(tf.cumsum(lengths, exclusive=True), sources)
        is_space = tf.gather(is_cjk, sources) & tf.not_equal(place, 1)
        starts, ends, rows = tf.gather(starts, sources), tf.gather(ends, sources), tf.gather(rows, sources)
        return tf.where(is_space, ord(" "), tf.gather(points, sources)), starts, ends, rows

    def _normalized_characters(self, texts, keeps_space: bool):
        """Decodes and normalises strings `(rows,)`. White space becomes U+0020 if it is kept.

        Returns for every character that is left its code point, the bytes where its source starts and ends, the number
        of its token and its row.
        """
        points, starts, stretches, tokens, rows, stretch_ends = self._kept_characters(texts, keeps_space)
        points, sources = self._changed(points, tokens)
        # A source ends where the next kept one of its stretch starts.
        (distinct,) = flagged(changes(sources), sources)
        left, stretches = tf.gather(starts, distinct), tf.gather(stretches, distinct)
        left_ends = next_in_group(left, stretches, tf.gather(stretch_ends, stretches))
        ends = tf.gather(left_ends, tf.cumsum(tf.cast(changes(sources), tf.int32)) - 1)
        return points, tf.gather(starts, sources), ends, tf.gather(tokens, sources), tf.gather(rows, sources)

    def _kept_characters(self, texts, keeps_space: bool):
        """Decodes, splits at white space, removes control characters.

        Returns for every kept character its code point, the byte where it starts, the number of its stretch (text
        without white space), that of its token (CJK ideographs are tokens), and its row; then the ends of stretches.
        """
        decoded, byte_starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="ignore")
        points, starts, rows = decoded.values, byte_starts.values, decoded.value_rowids()
        properties = self._properties(points)
        is_space = tf.not_equal(properties & _WHITESPACE, 0)
        breaks = changes(rows) | is_space
        kept = tf.equal(properties & _REMOVED, 0)
        if keeps_space:
            # Every white space is a stretch of its own.
            breaks |= shifted(is_space, 1, False)
            points = tf.where(is_space, ord(" "), points)
        else:
            kept &= ~is_space
        stretches = tf.cumsum(tf.cast(breaks, tf.int32)) - 1
        break_starts, break_rows = flagged(breaks, starts, rows)
        row_ends = tf.gather(tf.cast(tf.strings.length(texts), tf.int64), break_rows)
        stretch_ends = next_in_group(break_starts, break_rows, row_ends)
        is_cjk = tf.not_equal(properties & _CJK, 0)
        points, starts, stretches, rows, is_cjk = flagged(kept, points, starts, stretches, rows, is_cjk)
        tokens = tf.cumsum(tf.cast(changes(stretches) | is_cjk | shifted(is_cjk, 1, False), tf.int32))
        return points, starts, stretches, tokens, rows, stretch_ends

    def _changed(self, points, tokens):
        """Lower-cases, decomposes and strips marks. Returns code points and the index of the source of each."""
        if not self._rules.lower_case and not self._rules.strip_accents:
            return points, tf.range(tf.size(points))
        if self._rules.lower_case:
            points = tf.cond(
                tf.reduce_any(tf.equal(points, unicode_table.CAPITAL_SIGMA)),
                lambda: self._with_final_sigmas(points, tokens),
                lambda: points,
            )
        points, sources = self._folded(points)
        return self._without_marks(points, tokens, sources) if self._rules.strip_accents else (points, sources)

    def _without_marks(self, points, tokens, sources):
        """Brings marks into canonical order and drops the non-spacing ones."""
        properties = self._properties(points)
        stays = tf.equal(properties & _MARK, 0)

        def in_canonical_order():
            order = canonical_order(tf.gather(tokens, sources), tf.bitwise.right_shift(properties, CLASS_SHIFT))
            (left,) = flagged(tf.gather(stays, order), order)
            # The marks are reordered, but their source positions stay ascending.
            return tf.gather(points, left), tf.sort(tf.gather(sources, left))

        return tf.cond(
            tf.reduce_any(stays & (properties >= 1 << CLASS_SHIFT)),
            in_canonical_order,
            lambda: tuple(flagged(stays, points, sources)),
        )

    def _with_final_sigmas(self, points, tokens):
        """Replaces each capital sigma at the end of a word: after a cased letter of the same token, and before none."""
        properties = self._properties(points)
        seen = tf.equal(properties & _IGNORABLE, 0)
        indices = tf.where(seen)[:, 0]
        seen_tokens = tf.gather(tokens, indices)
        is_cased = tf.not_equal(tf.gather(properties, indices) & _CASED, 0)
        is_first = changes(seen_tokens)
        cased_before = shifted(is_cased, 1, False) & ~is_first
        cased_after = shifted(is_cased, -1, False) & ~shifted(is_first, -1, True)
        is_sigma = tf.equal(tf.gather(points, indices), unicode_table.CAPITAL_SIGMA)
        (final,) = flagged(is_sigma & cased_before & ~cased_after, indices)
        return tf.tensor_scatter_nd_update(
            points, final[:, tf.newaxis], tf.fill(tf.shape(final), unicode_table.FINAL_SIGMA)
        )


def code_point_bits(*sets: Collection[int]) -> np.ndarray:
    """Returns a number for every code point: a bit for each set, from the lowest on, and its combining class behind."""
    numbers = np.zeros(0x110000, np.int32)
    for bit, points in enumerate(sets):
        numbers[list(points)] |= 1 << bit
    classes = unicode_table.combining_classes()
    numbers[list(classes)] |= np.array(list(classes.values())) << CLASS_SHIFT
    return numbers


def as_strings(texts) -> tf.Tensor:
    """Returns texts as a string tensor `(texts,)`."""
    try:
        texts = tf.convert_to_tensor(texts, tf.string)
    except (TypeError, ValueError) as error:  # a surrogate raises UnicodeEncodeError, which is a ValueError
        reason = str(error).splitlines()[0]
        raise InputError(f"Texts must be valid Unicode strings. Received: {texts!r:.100} ({reason})") from None
    return texts[tf.newaxis] if texts.shape.rank == 0 else texts


def flagged(flags: tf.Tensor, *values: tf.Tensor) -> list[tf.Tensor]:
    """[True, False, True], [5, 6, 7] -> [[5, 7]]: like `tf.boolean_mask`, with fewer operations."""
    indices = tf.reshape(tf.where(flags), [-1])
    return [tf.gather(tensor, indices) for tensor in values]


def behind_single(is_single: tf.Tensor, splits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Puts the rows that have a single value in front of the others, which have these row splits.

    Returns the place of each row, and the row splits of all:
    [False, True, True, False], [0, 3, 4] -> [2, 0, 1, 3], [0, 1, 2, 5, 6]
    """
    singles = tf.cumsum(tf.cast(is_single, tf.int32))
    count = tf.size(is_single) - tf.size(splits, tf.int32) + 1
    rows = tf.where(is_single, singles - 1, tf.range(tf.size(is_single)) - singles + count)
    return rows, tf.concat([tf.range(count), tf.cast(splits, tf.int32) + count], 0)


def indices_of_rows(splits: tf.Tensor, rows: tf.Tensor) -> tf.RaggedTensor:
    """Returns the indices of the values of rows: [0, 2, 3], [1, 0] -> [[2], [0, 1]]"""
    return tf.ragged.range(tf.gather(splits, rows), tf.gather(splits, rows + 1))


def starts_in_rows(rows: tf.RaggedTensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns where each value of a row starts: [["a", "bc"], ["d"]], [1, 2, 1] -> [0, 1, 0]"""
    starts = tf.cumsum(lengths, exclusive=True)
    return starts - tf.repeat(tf.gather(tf.concat([starts, [0]], 0), rows.row_starts()), rows.row_lengths())


def table(keys: tf.Tensor, values: tf.Tensor, default: int) -> tf.lookup.StaticHashTable:
    """Returns a look-up table."""
    return tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(keys, values), tf.constant(default, values.dtype)
    )


def changes(values: tf.Tensor) -> tf.Tensor:
    """[5, 5, 7, 7] -> [True, False, True, False]"""
    return tf.concat([tf.ones_like(values[:1], tf.bool), tf.not_equal(values[1:], values[:-1])], 0)


def shifted(values: tf.Tensor, places: int, fill) -> tf.Tensor:
    """Shifts values, filling with 0 here: [1, 2, 3] -> [0, 1, 2] by 1 place, [2, 3, 0] by -1."""
    padding = tf.fill([abs(places)], tf.cast(fill, values.dtype))
    if places > 0:
        return tf.concat([padding, values], 0)[: tf.size(values)]
    return tf.concat([values, padding], 0)[-places:]


def starts_of_runs(begins: tf.Tensor) -> tf.Tensor:
    """Returns the index where the run of each element begins: [True, False, True] -> [0, 0, 2]"""
    (starts,) = flagged(begins, tf.range(tf.size(begins)))
    return tf.gather(starts, tf.cumsum(tf.cast(begins, tf.int32)) - 1)


def is_one_of(numbers: tf.Tensor, wanted) -> tf.Tensor:
    """[5, 6, 7], [7, 5] -> [True, False, True]"""
    return tf.reduce_any(tf.equal(numbers[:, tf.newaxis], wanted), axis=1)


def next_in_group(values: tf.Tensor, groups: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Returns the next value of the same group, or its end: [1, 4, 2], groups [0, 0, 1], ends [9, 9, 7] -> [4, 9, 7]"""
    return tf.where(tf.equal(groups, shifted(groups, -1, -1)), shifted(values, -1, 0), ends)


def canonical_order(tokens: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
    """Sorts each run of marks in a token stably by combining class. Returns indices."""
    runs = tf.cumsum(tf.cast(tf.equal(classes, 0) | changes(tokens), tf.int64))
    return tf.argsort(runs * 256 + tf.cast(classes, tf.int64), stable=True)


def without_blanks(first, last, begins, ends, total) -> tuple[tf.Tensor, tf.Tensor]:
    """Moves the ends of spans inwards past blanks. The other characters have these begins and ends in `total` bytes."""
    first = tf.minimum(tf.gather(tf.concat([begins, [total]], 0), tf.searchsorted(begins, first)), last)
    ends_before = tf.gather(tf.concat([[0], ends], 0), tf.searchsorted(ends, last, side="right"))
    return first, tf.maximum(first, ends_before)
