"""Cuts words into pieces with tf.text's FastWordpieceTokenizer, for the exact path.

The op asks the server's ICU where words end. ICUs of other Unicode versions would end words at code points that Unicode
14.0 does not know, so the op sees other code points in their places.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.fast_normalizer import STAND_INS, needs_stand_in
from keras_bert.tokenization.unicode_table import MAX_CHARACTERS_PER_WORD


class StandIns:
    """Private-use code points that replace others in the input of tf.text's pieces op.

    A code point that occurs in the vocabulary is replaced by its own stand-in, all others by `UNKNOWN`, which is in no
    token.

    Args:
        ids: token -> id, of the tokens that words are cut into.
        chinese_chars: whether every CJK ideograph is a word.
    """

    UNKNOWN = STAND_INS[0]

    def __init__(self, ids: Mapping[str, int], chinese_chars: bool = True):
        replaced = needs_stand_in(chinese_chars)
        used = sorted(character for character in set("".join(ids)) if replaced[ord(character)])
        self._ids = ids
        self._next = iter(STAND_INS[1:])
        self._never_in_words = set(map(chr, unicode_table.removed() | unicode_table.whitespace()))
        self.table = {ord(character): next(self._next) for character in used}

    def translated(self, tokens: Sequence[str]) -> list[str]:
        """Returns the tokens with their characters replaced, for the vocabulary of the pieces op."""
        return [self._translated(number, token) for number, token in enumerate(tokens)]

    def _translated(self, number: int, token: str) -> str:
        can_match = token and len(token) <= MAX_CHARACTERS_PER_WORD and self._never_in_words.isdisjoint(token)
        # Of a token that occurs twice the last one counts, and an added token is no piece.
        if not can_match or self._ids.get(token) != number:
            # Such a token matches no text, but the op would split or refuse it. It keeps its id under another name.
            return chr(next(self._next))
        return token.translate(self.table)


class TextPieces(tf.Module):
    """Cuts words into pieces.

    Args:
        pieces: tf.text FastWordpieceTokenizer with the vocabulary translated by `stand_ins`.
        stand_ins: `StandIns` of the vocabulary.
        unk_id: id of [UNK].
        max_characters: a word with more characters is [UNK].
    """

    def __init__(self, pieces, stand_ins: StandIns, unk_id: int, max_characters: int = MAX_CHARACTERS_PER_WORD):
        super().__init__()
        self._pieces = pieces
        self._unk_id = unk_id
        self._max_characters = max_characters
        # The 0 keeps `searchsorted` defined if no character of the vocabulary has a stand-in.
        replaced = {0: 0, **stand_ins.table}
        self._replaced = tf.constant(sorted(replaced), tf.int32)
        self._replacements = tf.constant([replaced[point] for point in sorted(replaced)], tf.int32)

    def __call__(self, points: tf.Tensor, needs_stand_in: tf.Tensor, word_starts: tf.Tensor):
        """Cuts words, given as code points int32 `(characters,)`.

        Args:
            points: the characters of all words.
            needs_stand_in: bool `(characters,)`, as `fast_normalizer.needs_stand_in` says.
            word_starts: bool `(characters,)`, whether a word starts here.

        Returns:
            For every piece its id, the number of its word, and the indices of its first and last character.
        """
        points = self._with_stand_ins(points, needs_stand_in)
        word_firsts = tf.where(word_starts)[:, 0]
        word_splits = tf.concat([word_firsts, [tf.size(points, tf.int64)]], 0)
        words = tf.strings.unicode_encode(tf.RaggedTensor.from_row_splits(points, word_splits, validate=False), "UTF-8")
        too_long = word_splits[1:] - word_firsts > self._max_characters
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

    def _with_stand_ins(self, points, needs_stand_in):
        found = tf.minimum(tf.searchsorted(self._replaced, points), tf.size(self._replaced) - 1)
        is_known = tf.equal(tf.gather(self._replaced, found), points)
        stand_ins = tf.where(is_known, tf.gather(self._replacements, found), StandIns.UNKNOWN)
        return tf.where(needs_stand_in, stand_ins, points)
