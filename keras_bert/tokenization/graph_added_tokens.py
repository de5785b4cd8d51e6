"""Cuts added tokens, such as entity markers or runs of spaces, out of texts inside the TensorFlow graph.

The results equal those of added_tokens.py. All operations are core TensorFlow operations.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from keras_bert.program.errors import InputError
from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.added_tokens import AddedToken, by_stage, in_normal_form
from keras_bert.tokenization.exact_graph import as_strings, flagged, is_one_of, shifted, starts_in_rows, table
from keras_bert.tokenization.unicode_table import WHITE_SPACE, character_class

# A text is split at U+0000, which is written differently before: U+0001 begins the form of U+0000 and of itself.
_ESCAPES = (("\x01", "\x01\x02"), ("\x00", "\x01\x03"))
# They enclose a match until it is certain that it counts.
_OPEN, _CLOSE = "\x01\x04", "\x01\x05"


class GraphAddedTokens(tf.Module):
    """Tokenizes texts with added tokens: those match first, and a tokenizer gets the texts between them.

    Args:
        tokens, ids, normalize: as for `AddedTokenCutter`. `normalize` is for the tokens.
        graph_normalize: texts `(texts,)` -> the normalised texts and their `Sources`.
    """

    def __init__(
        self,
        tokens: Sequence[AddedToken],
        ids: Mapping[str, int],
        normalize: Callable | None = None,
        graph_normalize: Callable | None = None,
    ):
        super().__init__()
        literal, normalized = by_stage(tokens)
        self._literal = _Cutter({token.content: token for token in literal}, ids) if literal else None
        self._normalized = _Cutter(in_normal_form(normalized, normalize), ids) if normalized else None
        self._normalize = graph_normalize if normalized else None

    def __call__(self, texts, tokenize: Callable) -> tuple[tf.RaggedTensor, ...]:
        """Returns of strings `(texts,)` what `tokenize` returns of plain ones: ids alone, or with starts and ends."""

        def normalized(texts):
            if not self._normalized:
                return tokenize(texts)
            if not self._normalize:
                return self._normalized(texts, tokenize)
            normal, sources = self._normalize(texts)
            ids, *offsets = self._normalized(normal, tokenize)
            if not offsets:
                return (ids,)
            bases = tf.gather(_bases(normal), ids.value_rowids())
            first, last = sources.of_spans(*(places.values + bases for places in offsets))
            bases = tf.gather(_bases(texts), ids.value_rowids())
            return ids, ids.with_values(first - bases), ids.with_values(last - bases)

        texts = as_strings(texts)
        return self._literal(texts, normalized) if self._literal else normalized(texts)


class _Pieces(NamedTuple):
    """The pieces of texts."""

    texts: tf.Tensor  # strings `(pieces,)`, empty for an added token
    added: tf.RaggedTensor  # int32 `(pieces, None)`: one id for an added token and none for other pieces
    starts: tf.Tensor  # int32 `(pieces,)`, in bytes of the text; a token does not cover the spaces at its ends
    ends: tf.Tensor
    splits: tf.Tensor  # int64 `(texts + 1,)`, the pieces of each text


class _Cutter(tf.Module):
    """Cuts texts at tokens, content -> token: at the leftmost match, and there the longest.

    Tokens "  " and "   ", the text "a   b" -> pieces "a", "", "b"; ids [[], [the id of "   "], []].
    """

    def __init__(self, tokens: Mapping[str, AddedToken], ids: Mapping[str, int]):
        super().__init__()
        self._pattern = _compiled(_any_of(tokens), len(tokens))
        self._single = _any_of(content for content, token in tokens.items() if token.single_word)
        self._word = f"[{character_class(unicode_table.word_characters())}]"
        self._space = f"[{character_class(WHITE_SPACE)}]+"
        numbers = tf.constant([ids[token.content] for token in tokens.values()], tf.int32)
        self._ids = table(tf.constant([content.encode() for content in tokens]), numbers, -1)
        self._takes_before, self._takes_after = (
            tf.constant([ids[token.content] for token in tokens.values() if getattr(token, name)], tf.int32)
            for name in ("lstrip", "rstrip")
        )

    def __call__(self, texts, tokenize: Callable) -> tuple[tf.RaggedTensor, ...]:
        pieces = self._cut(texts)
        ids, *offsets = tokenize(pieces.texts)
        joined = [_joined(ids, pieces.added, pieces.splits)]
        for found, of_pieces in zip(offsets, (pieces.starts, pieces.ends), strict=False):  # ids may come alone
            added = pieces.added.with_values(tf.gather(of_pieces, pieces.added.value_rowids()))
            shifts = tf.gather(pieces.starts, ids.value_rowids())
            joined.append(_joined(ids.with_values(found.values + shifts), added, pieces.splits))
        return tuple(joined)

    def _cut(self, texts) -> _Pieces:
        for character, escaped in _ESCAPES:
            texts = tf.strings.regex_replace(texts, _quoted(character), escaped)
        texts = tf.strings.regex_replace(texts, self._pattern, f"{_OPEN}\\0{_CLOSE}")
        if self._single:
            texts = self._without_parts_of_words(texts)
        pieces = tf.strings.split(tf.strings.regex_replace(texts, "\x01[\x04\x05]", "\x00"), "\x00")
        values, splits = pieces.values, pieces.row_splits
        for character, escaped in reversed(_ESCAPES):
            values = tf.strings.regex_replace(values, _quoted(escaped), character)
        # Every match stands between two pieces of text, so it has an odd number in its text.
        number = tf.range(tf.size(values, tf.int64)) - tf.gather(splits, pieces.value_rowids())
        is_added = tf.equal(number % 2, 1)
        numbers = tf.where(is_added, self._ids.lookup(values), -1)
        lengths = tf.strings.length(values)
        starts = starts_in_rows(pieces, lengths)
        ends = starts + lengths
        leading = lengths - tf.strings.length(tf.strings.regex_replace(values, "^ +", ""))
        trailing = lengths - tf.strings.length(tf.strings.regex_replace(values, " +$", ""))
        starts, inner = tf.where(is_added, starts + leading, starts), ends - trailing
        ends = tf.where(is_added, tf.maximum(starts, inner), ends)
        added = tf.RaggedTensor.from_row_lengths(
            *flagged(is_added, numbers), tf.cast(is_added, tf.int64), validate=False
        )
        values, skipped = self._without_taken_space(tf.where(is_added, "", values), numbers)
        return _Pieces(values, added, starts + skipped, ends, splits)

    def _without_parts_of_words(self, texts):
        """Opens the enclosures of single words that touch another word character."""
        behind_word = f"({self._word}(?:{_CLOSE})?){_OPEN}({self._single}){_CLOSE}"
        before_word = f"{_OPEN}({self._single}){_CLOSE}((?:{_OPEN})?{self._word})"
        # A match includes its neighbour, so of several in a row every second one is left to the next pass.
        for pattern in (behind_word, behind_word, before_word, before_word):
            texts = tf.strings.regex_replace(texts, pattern, "\\1\\2")
        return texts

    def _without_taken_space(self, values, numbers):
        """Removes the white space that tokens take. Returns the pieces, and the bytes taken from the start of each."""
        skipped = tf.zeros_like(numbers)
        if self._takes_before.shape[0]:
            takes = is_one_of(shifted(numbers, -1, -1), self._takes_before)
            values = tf.where(takes, tf.strings.regex_replace(values, f"{self._space}$", ""), values)
        if self._takes_after.shape[0]:
            takes = is_one_of(shifted(numbers, 1, -1), self._takes_after)
            left = tf.where(takes, tf.strings.regex_replace(values, f"^{self._space}", ""), values)
            skipped, values = tf.strings.length(values) - tf.strings.length(left), left
        return values, skipped


def _joined(found: tf.RaggedTensor, added: tf.RaggedTensor, splits) -> tf.RaggedTensor:
    """Returns the values of pieces by text: those found in pieces of text, and those of added tokens."""
    values = tf.concat([found, added], axis=1)
    return tf.RaggedTensor.from_row_splits(values.values, tf.gather(values.row_splits, splits), validate=False)


def _bases(texts):
    """Returns where each text begins in the concatenation of all texts, in bytes."""
    return tf.cumsum(tf.strings.length(texts), exclusive=True)


def _any_of(contents: Iterable[str]) -> str:
    """Returns a pattern for any of the texts that prefers the longest. In this order, beginnings come last."""
    return "|".join(map(_quoted, sorted(contents, reverse=True)))


def _compiled(pattern: str, number: int) -> str:
    """Returns the pattern of a number of tokens if the regular expressions of TensorFlow take it."""
    with tf.init_scope():
        try:
            tf.strings.regex_replace("", pattern, "")
        except tf.errors.InvalidArgumentError:
            raise InputError(
                f"{number:,} added tokens make a regular expression of {len(pattern):,} characters, which is more than "
                "TensorFlow can compile. Put ordinary words into the vocabulary instead."
            ) from None
    return pattern


def _quoted(text: str) -> str:
    """Returns a regular expression of RE2 for a text: "a b" -> "a\\x20b"."""
    return "".join(
        character if re.fullmatch("[A-Za-z0-9]", character) else f"\\x{{{ord(character):X}}}" for character in text
    )
