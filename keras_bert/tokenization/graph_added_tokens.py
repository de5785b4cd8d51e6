"""Finds added tokens, such as runs of spaces, in texts inside the TensorFlow graph."""

import re
from collections.abc import Mapping, Sequence

import tensorflow as tf

from keras_bert.tokenization.exact_graph import table

# A text is split at U+0000, which is written differently before: U+0001 begins the form of U+0000 and of itself.
_ESCAPES = (("\x01", "\x01\x02"), ("\x00", "\x01\x03"))


class AddedTokens(tf.Module):
    """Splits texts into added tokens and the pieces between them: the leftmost match, and there the longest.

    Args:
        tokens: the added tokens, without control characters.
        ids: token -> id.

    Call arguments:
        texts: strings `(texts,)`.

    Returns:
        the pieces, strings `(pieces,)`, empty for an added token; the ids of the added tokens, ragged int32 `(pieces,
        None)`, one for an added token and none for other pieces; and the row splits of the pieces by text, int64.

    Example:
        tokens "  " and "   ", the text "a   b" -> pieces "a", "", "b"; ids [[], [the id of "   "], []]
    """

    def __init__(self, tokens: Sequence[str], ids: Mapping[str, int]):
        super().__init__()
        longest_first = sorted(tokens, key=lambda token: len(token.encode()), reverse=True)
        self._pattern = "|".join(_quoted(token) for token in longest_first)
        keys = tf.constant([token.encode() for token in tokens])
        self._ids = table(keys, tf.constant([ids[token] for token in tokens], tf.int32), -1)

    def __call__(self, texts):
        for character, escaped in _ESCAPES:
            texts = tf.strings.regex_replace(texts, _quoted(character), escaped)
        pieces = tf.strings.split(tf.strings.regex_replace(texts, self._pattern, "\x00\\0\x00"), "\x00")
        values, splits = pieces.values, pieces.row_splits
        # Every match stands between two pieces of text, so it has an odd number in its text.
        number = tf.range(tf.size(values, tf.int64)) - tf.gather(splits, pieces.value_rowids())
        is_added = tf.equal(number % 2, 1)
        ids = tf.RaggedTensor.from_row_lengths(
            self._ids.lookup(tf.boolean_mask(values, is_added)), tf.cast(is_added, tf.int64), validate=False
        )
        values = tf.where(is_added, "", values)
        for character, escaped in reversed(_ESCAPES):
            values = tf.strings.regex_replace(values, _quoted(escaped), character)
        return values, ids, splits


def _quoted(text: str) -> str:
    """Returns a regular expression of RE2 for a text: "a b" -> "a\\x20b"."""
    return "".join(
        character if re.fullmatch("[A-Za-z0-9]", character) else f"\\x{{{ord(character):X}}}" for character in text
    )
