"""Byte-fallback BPE inside the TensorFlow graph, with byte offsets: the ids of byte_fallback.py, by core operations.

A space and ▁ are the same token, so texts stay as they are, and offsets are those of the texts.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.tokenization.byte_fallback import SPACE_MARK, ByteFallbackTokenizer
from keras_bert.tokenization.exact_graph import CodePointTable, as_strings, flagged, shifted, table, without_blanks
from keras_bert.tokenization.graph_byte_pair import GraphBytePair, bytes_of, characters
from keras_bert.tokenization.unicode_table import character_class

_UNKNOWN = -1
_REPLACEMENT = 0xFFFD  # what invalid bytes are decoded as


class GraphByteFallback(GraphBytePair):
    """Byte-fallback BPE in the graph: strings -> ids, equal to `ByteFallbackTokenizer`."""

    def _set_up_units(self, tokenizer: ByteFallbackTokenizer) -> None:
        numbers = np.full(0x110000, _UNKNOWN, np.int32)
        for character, number in tokenizer.character_ids.items():
            numbers[ord(character)] = number
        numbers[ord(" ")] = numbers[ord(SPACE_MARK)]
        self._numbers = CodePointTable(numbers)
        self._byte_ids = tf.constant(tokenizer.byte_ids, tf.int32)
        of_bytes = {*tokenizer.byte_ids}
        lengths = [1 if number in of_bytes else len(token) for number, token in enumerate(tokenizer.tokens)]
        self._lengths = tf.constant(lengths, tf.int32)
        is_crossing = np.zeros(0x110000, np.bool_)
        is_crossing[[ord(character) for character in (SPACE_MARK, " ", *tokenizer.before_space)]] = True
        self._is_crossing = CodePointTable(is_crossing)
        # A space behind one of these may be inside a word, and the first space of a word may be written ▁.
        crossing = frozenset(map(ord, tokenizer.before_space))
        behind = f"|[{character_class(crossing)}] " if crossing else ""
        self._run = f"\\C*(?:  |{SPACE_MARK}{behind})\\C*"
        spanned = sorted({left * self._num_tokens + right for left, right in _spanned_pairs(tokenizer)})
        self._spans = table(tf.constant(spanned, tf.int64), tf.ones([len(spanned)], tf.int32), 0)

    def _plain_ids_with_offsets(self, texts) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        sources = as_strings(texts)
        texts = self._prefixed(sources)
        ids = self._tokenize(texts)
        _, _, unit_starts, unit_ends = self._located_units(texts)
        ends = tf.cumsum(tf.gather(self._lengths, ids.values))
        first_units = ends - tf.gather(self._lengths, ids.values)
        starts, ends = tf.gather(unit_starts, first_units), tf.gather(unit_ends, ends - 1)
        # Spaces at the ends of a token are left out.
        total = tf.reduce_sum(tf.strings.length(texts))
        (solid,) = flagged(tf.not_equal(bytes_of(texts), ord(" ")), tf.range(total))
        first, last = without_blanks(starts, ends, solid, solid + 1, total)
        bases = tf.gather(tf.cumsum(tf.strings.length(texts), exclusive=True), ids.value_rowids())
        return ids, ids.with_values(first - bases), ids.with_values(last - bases)

    def _word_begins(self, points, begins_text):
        is_space = tf.equal(points, ord(" ")) | tf.equal(points, ord(SPACE_MARK))
        return begins_text | (is_space & ~shifted(self._is_crossing(points), 1, False))

    def _units(self, words):
        ids, word_of, _, _ = self._located_units(words)
        keys = tf.cast(ids[:-1], tf.int64) * self._num_tokens + tf.cast(ids[1:], tf.int64)
        return ids, word_of, tf.equal(self._spans.lookup(keys), 1)

    def _located_units(self, texts) -> tuple[Any, Any, Any, Any]:
        """Returns the tokens of texts before any are joined, the text of each, and its bytes in all texts, joined."""
        points, rows, starts = characters(texts)
        raw = bytes_of(texts)
        ends = shifted(starts, -1, tf.size(raw))
        # A U+FFFD that is not written as such stands for invalid bytes.
        is_invalid = tf.equal(points, _REPLACEMENT) & (
            tf.not_equal(ends - starts, 3) | tf.not_equal(tf.gather(raw, starts), 0xEF)
        )
        numbers = tf.where(is_invalid, _UNKNOWN, self._numbers(points))
        is_known = tf.not_equal(numbers, _UNKNOWN)
        counts = tf.where(is_known, 1, ends - starts)
        character_of = tf.repeat(tf.range(tf.size(points)), counts)
        starts_of = tf.gather(starts, character_of)
        places = tf.range(tf.size(character_of)) - tf.gather(tf.cumsum(counts, exclusive=True), character_of)
        byte_places = starts_of + places
        is_known = tf.gather(is_known, character_of)
        bytes_at = tf.gather(self._byte_ids, tf.gather(raw, byte_places))
        ids = tf.where(is_known, tf.gather(numbers, character_of), bytes_at)
        is_invalid = tf.gather(is_invalid, character_of)
        first = tf.where(is_invalid, byte_places, starts_of)
        last = tf.where(is_invalid, byte_places + 1, tf.gather(ends, character_of))
        return ids, tf.cast(tf.gather(rows, character_of), tf.int32), first, last


def _spanned_pairs(tokenizer: ByteFallbackTokenizer) -> set[tuple[int, int]]:
    """Returns the characters that stand side by side in a token that merges create, by their tokens."""
    ids = tokenizer.character_ids
    pairs = ((ids.get(left[-1]), ids.get(right[0])) for left, right in tokenizer.merges)
    return {(left, right) for left, right in pairs if left is not None and right is not None}
