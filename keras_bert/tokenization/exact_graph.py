"""The tokenizer's exact path: each step works on code points, in core TensorFlow ops.

It accepts any bytes but is slower than the path through tf.text's normaliser, so `graph_wordpiece` uses it only for
texts that need it. wordpiece.py has the same steps in Python, for one text at a time.
"""

import functools

import numpy as np
import tensorflow as tf

from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.fast_normalizer import STAND_INS, needs_stand_in
from keras_bert.tokenization.wordpiece import MAX_CHARACTERS_PER_WORD

# Bits of the property table; the higher bits hold the canonical combining class.
_REMOVED, _WHITESPACE, _CJK, _PUNCTUATION, _MARK, _CASED, _IGNORABLE, _STAND_IN = (1 << bit for bit in range(8))
_CLASS_SHIFT = 8
_BLOCK = 128


class StandIns:
    """Private-use code points that replace others in the input of tf.text's pieces op.

    The op asks the server's ICU where words end. ICUs of other Unicode versions would end words at code points that
    Unicode 14.0 does not know. So these code points are replaced: one that occurs in the vocabulary by its own
    stand-in, all others by `UNKNOWN`, which is in no token.
    """

    UNKNOWN = STAND_INS[0]

    def __init__(self, tokens: tuple[str, ...]):
        replaced = needs_stand_in()
        used = sorted(character for character in set("".join(tokens)) if replaced[ord(character)])
        self._next = iter(STAND_INS[1:])
        self._never_in_words = set(map(chr, unicode_table.removed() | unicode_table.whitespace()))
        self.table = {ord(character): next(self._next) for character in used}

    def translate(self, token: str) -> str:
        """Returns the token with its characters replaced, for the vocabulary of the pieces op."""
        if not token or len(token) > MAX_CHARACTERS_PER_WORD or not self._never_in_words.isdisjoint(token):
            # Such a token matches no text, but the op would split it at the spaces. It keeps its id under another name.
            return chr(next(self._next))
        return token.translate(self.table)


class CodePointTable(tf.Module):
    """Maps code points to numbers, in two stages: equal blocks of 128 are stored once.

    Args:
        numbers: array (0x110000,), the number of each code point.
    """

    def __init__(self, numbers: np.ndarray):
        super().__init__()
        blocks: dict[bytes, int] = {}
        starts = [blocks.setdefault(block.tobytes(), len(blocks) * _BLOCK) for block in numbers.reshape(-1, _BLOCK)]
        self._starts = tf.constant(starts, tf.int32)
        self._numbers = tf.constant(np.frombuffer(b"".join(blocks), numbers.dtype))

    def __call__(self, points: tf.Tensor) -> tf.Tensor:
        return tf.gather(self._numbers, tf.gather(self._starts, points // _BLOCK) + points % _BLOCK)


class ExactTokenizer(tf.Module):
    """Converts texts to pieces with byte offsets, for any bytes.

    Args:
        pieces: tf.text FastWordpieceTokenizer with the vocabulary translated by `stand_ins`.
        stand_ins: `StandIns` of the vocabulary.
        unk_id: id of [UNK].
        do_lower_case: whether to lower-case and strip accents.
    """

    def __init__(self, pieces, stand_ins: StandIns, unk_id: int, do_lower_case: bool):
        super().__init__()
        self._pieces = pieces
        self._unk_id = unk_id
        self._do_lower_case = do_lower_case
        self._properties = CodePointTable(_property_numbers())
        # The 0 keeps `searchsorted` defined if no character of the vocabulary has a stand-in.
        replaced = {0: 0, **stand_ins.table}
        self._replaced = tf.constant(sorted(replaced), tf.int32)
        self._replacements = tf.constant([replaced[point] for point in sorted(replaced)], tf.int32)
        if do_lower_case:
            rows, lengths, values = _folding()
            self._fold_rows = CodePointTable(rows)
            self._fold_lengths = tf.constant(lengths, tf.int32)
            self._fold_starts = tf.constant(np.cumsum(lengths) - lengths, tf.int32)
            self._fold_values = tf.constant(values, tf.int32)

    def __call__(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Tokenizes strings of shape `(rows,)`.

        Returns:
            ids int32 `(pieces,)`, row splits int64 `(rows + 1,)`, starts and ends int64 `(pieces,)`.
        """
        points, starts, stretches, tokens, rows, stretch_ends = self._kept_characters(texts)
        if self._do_lower_case:
            points, sources = self._fold(points, tokens)
        else:
            sources = tf.range(tf.size(points))
        ends = tf.gather(_source_ends(starts, stretches, stretch_ends, sources), sources)
        starts, tokens, rows = tf.gather(starts, sources), tf.gather(tokens, sources), tf.gather(rows, sources)
        is_punctuation = tf.not_equal(self._properties(points) & _PUNCTUATION, 0)
        word_starts = changes(tokens) | is_punctuation | _after(is_punctuation)
        ids, piece_words, first, last = self._cut(self._with_stand_ins(points), word_starts)
        piece_rows = tf.gather(flagged(word_starts, rows)[0], piece_words)
        splits = tf.searchsorted(piece_rows, tf.range(tf.size(texts, tf.int64) + 1), out_type=tf.int64)
        return ids, splits, tf.gather(starts, first), tf.gather(ends, last)

    def _kept_characters(self, texts):
        """Decodes, splits at white space, removes control characters.

        Returns:
            For every kept character: its code point, the byte where it starts, the number of its stretch (text without
            white space), the number of its token (CJK ideographs are tokens), and its row. And the end of each stretch
            in bytes.
        """
        decoded, byte_starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="ignore")
        points, starts, rows = decoded.values, byte_starts.values, decoded.value_rowids()
        properties = self._properties(points)
        is_space = tf.not_equal(properties & _WHITESPACE, 0)
        breaks = changes(rows) | is_space
        stretches = tf.cumsum(tf.cast(breaks, tf.int32)) - 1
        stretch_ends = _stretch_ends(*flagged(breaks, starts, rows), texts)
        kept = tf.equal(properties & (_REMOVED | _WHITESPACE), 0)
        is_cjk = tf.not_equal(properties & _CJK, 0)
        points, starts, stretches, rows, is_cjk = flagged(kept, points, starts, stretches, rows, is_cjk)
        tokens = tf.cumsum(tf.cast(changes(stretches) | is_cjk | _after(is_cjk), tf.int32))
        return points, starts, stretches, tokens, rows, stretch_ends

    def _fold(self, points, tokens):
        """Lower-cases, decomposes and strips marks. Returns code points and the index of the source of each."""
        points = tf.cond(
            tf.reduce_any(tf.equal(points, unicode_table.CAPITAL_SIGMA)),
            lambda: self._with_final_sigmas(points, tokens),
            lambda: points,
        )
        rows = self._fold_rows(points)
        lengths = tf.gather(self._fold_lengths, rows)
        sources = tf.repeat(tf.range(tf.size(points)), lengths)
        within = tf.range(tf.size(sources)) - tf.gather(tf.cumsum(lengths, exclusive=True), sources)
        rows = tf.gather(rows, sources)
        values = tf.gather(self._fold_values, tf.gather(self._fold_starts, rows) + within)
        # Row 0 is for characters that do not change.
        points = tf.where(tf.equal(rows, 0), tf.gather(points, sources), values)
        properties = self._properties(points)
        stays = tf.equal(properties & _MARK, 0)

        def incanonical_order():
            order = canonical_order(tf.gather(tokens, sources), tf.bitwise.right_shift(properties, _CLASS_SHIFT))
            (left,) = flagged(tf.gather(stays, order), order)
            # The marks are reordered, but their source positions stay ascending.
            return tf.gather(points, left), tf.sort(tf.gather(sources, left))

        return tf.cond(
            tf.reduce_any(stays & (properties >= 1 << _CLASS_SHIFT)),
            incanonical_order,
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
        is_last = tf.concat([is_first[1:], tf.ones_like(is_first[:1])], 0)
        cased_before = _after(is_cased) & ~is_first
        cased_after = tf.concat([is_cased[1:], tf.zeros_like(is_cased[:1])], 0) & ~is_last
        is_sigma = tf.equal(tf.gather(points, indices), unicode_table.CAPITAL_SIGMA)
        (final,) = flagged(is_sigma & cased_before & ~cased_after, indices)
        return tf.tensor_scatter_nd_update(
            points, final[:, tf.newaxis], tf.fill(tf.shape(final), unicode_table.FINAL_SIGMA)
        )

    def _with_stand_ins(self, points):
        found = tf.minimum(tf.searchsorted(self._replaced, points), tf.size(self._replaced) - 1)
        is_known = tf.equal(tf.gather(self._replaced, found), points)
        stand_ins = tf.where(is_known, tf.gather(self._replacements, found), StandIns.UNKNOWN)
        return tf.where(tf.not_equal(self._properties(points) & _STAND_IN, 0), stand_ins, points)

    def _cut(self, points, word_starts):
        """Cuts words into pieces.

        Returns:
            For every piece its id, the number of its word, and the indices of its first and last character.
        """
        word_firsts = tf.where(word_starts)[:, 0]
        word_splits = tf.concat([word_firsts, [tf.size(points, tf.int64)]], 0)
        words = tf.strings.unicode_encode(tf.RaggedTensor.from_row_splits(points, word_splits, validate=False), "UTF-8")
        too_long = word_splits[1:] - word_firsts > MAX_CHARACTERS_PER_WORD
        pieces, starts, ends = self._pieces.tokenize_with_offsets(
            tf.where(too_long, chr(StandIns.UNKNOWN).encode(), words)
        )
        piece_words = pieces.value_rowids()
        widths = 1 + sum(tf.cast(points >= limit, tf.int32) for limit in (0x80, 0x800, 0x10000))
        characters = tf.repeat(tf.range(tf.size(points)), widths)
        word_bytes = tf.gather(
            tf.cumsum(tf.cast(widths, tf.int64), exclusive=True), tf.gather(word_firsts, piece_words)
        )
        first = tf.gather(characters, word_bytes + starts.values)
        last = tf.gather(characters, word_bytes + ends.values - 1)
        is_unknown = tf.equal(pieces.values, self._unk_id)
        word_firsts, word_splits = tf.cast(word_firsts, tf.int32), tf.cast(word_splits, tf.int32)
        first = tf.where(is_unknown, tf.gather(word_firsts, piece_words), first)
        last = tf.where(is_unknown, tf.gather(word_splits, piece_words + 1) - 1, last)
        return pieces.values, piece_words, first, last


@functools.cache
def _property_numbers() -> np.ndarray:
    """Returns the property bits and the combining class of every code point."""
    numbers = np.zeros(0x110000, np.int32)
    cjk = {point for first, last in unicode_table.CJK_RANGES for point in range(first, last + 1)}
    for bit, points in (
        (_REMOVED, unicode_table.removed()),
        (_WHITESPACE, unicode_table.whitespace()),
        (_CJK, cjk),
        (_PUNCTUATION, unicode_table.punctuation()),
        (_MARK, unicode_table.nonspacing_marks()),
        (_CASED, unicode_table.cased_letters()),
        (_IGNORABLE, unicode_table.case_ignorable()),
    ):
        numbers[list(points)] |= bit
    numbers[needs_stand_in()] |= _STAND_IN
    classes = unicode_table.combining_classes()
    numbers[list(classes)] |= np.array(list(classes.values())) << _CLASS_SHIFT
    return numbers


@functools.cache
def _folding() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the row number of every code point, the lengths of the rows, and the concatenated rows."""
    folded = unicode_table.folded_points()
    rows = np.zeros(0x110000, np.int32)
    rows[list(folded)] = np.arange(1, len(folded) + 1)
    lengths = np.array([1, *map(len, folded.values())])
    values = np.array([0, *(part for parts in folded.values() for part in parts)])
    return rows, lengths, values


def flagged(flags: tf.Tensor, *values: tf.Tensor) -> list[tf.Tensor]:
    """[True, False, True], [5, 6, 7] -> [[5, 7]]: like `tf.boolean_mask`, with fewer operations."""
    indices = tf.reshape(tf.where(flags), [-1])
    return [tf.gather(tensor, indices) for tensor in values]


def changes(values: tf.Tensor) -> tf.Tensor:
    """[5, 5, 7, 7] -> [True, False, True, False]"""
    return tf.concat([tf.ones_like(values[:1], tf.bool), tf.not_equal(values[1:], values[:-1])], 0)


def _after(flags: tf.Tensor) -> tf.Tensor:
    """[True, False, False] -> [False, True, False]"""
    return tf.concat([tf.zeros_like(flags[:1]), flags[:-1]], 0)


def _stretch_ends(break_starts, break_rows, texts):
    """Returns the end of each stretch: the next break of its row, or the end of the row."""
    row_ends = tf.gather(tf.cast(tf.strings.length(texts), tf.int64), break_rows)
    next_in_row = tf.concat([tf.equal(break_rows[1:], break_rows[:-1]), tf.zeros_like(break_rows[:1], tf.bool)], 0)
    next_starts = tf.concat([break_starts[1:], tf.zeros_like(break_starts[:1])], 0)
    return tf.where(next_in_row, next_starts, row_ends)


def _source_ends(starts, stretches, stretch_ends, sources):
    """Returns the end of each source character: the start of the next kept one, or the end of its stretch."""
    (distinct,) = flagged(changes(sources), sources)
    left_starts, left_stretches = tf.gather(starts, distinct), tf.gather(stretches, distinct)
    joins = tf.concat(
        [tf.equal(left_stretches[1:], left_stretches[:-1]), tf.zeros_like(left_stretches[:1], tf.bool)], 0
    )
    next_starts = tf.concat([left_starts[1:], tf.zeros_like(left_starts[:1])], 0)
    ends = tf.where(joins, next_starts, tf.gather(stretch_ends, left_stretches))
    return tf.scatter_nd(distinct[:, tf.newaxis], ends, tf.shape(starts))


def canonical_order(tokens: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
    """Sorts each run of marks in a token stably by combining class. Returns indices."""
    runs = tf.cumsum(tf.cast(tf.equal(classes, 0) | changes(tokens), tf.int64))
    return tf.argsort(runs * 256 + tf.cast(classes, tf.int64), stable=True)
