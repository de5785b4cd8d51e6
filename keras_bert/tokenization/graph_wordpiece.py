"""WordPiece inside the TensorFlow graph, with byte offsets: for tf.data and for SavedModels.

For any bytes it returns the ids of wordpiece.py, and the same offsets in bytes. Texts take one of two paths:

* The fast path has two ops of tf.text: FastBertNormalize with our own table (fast_normalizer.py) and
  FastWordpieceTokenizeWithOffsets. A regular expression detects the texts for which it is exact: nearly all.
* The exact path (exact_graph.py) processes the others step by step on code points.

All other ops are core TensorFlow ops. TF Serving includes all of them since 2.12.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from keras_bert.program.errors import InputError
from keras_bert.tokenization import fast_normalizer, unicode_table
from keras_bert.tokenization.exact_graph import (
    CodePointTable,
    ExactTokenizer,
    as_strings,
    changes,
    flagged,
    indices_of_rows,
)
from keras_bert.tokenization.fast_normalizer import STAND_INS, needs_stand_in
from keras_bert.tokenization.graph_added_tokens import GraphAddedTokens
from keras_bert.tokenization.tokenizer import GraphForm
from keras_bert.tokenization.unicode_table import MAX_CHARACTERS_PER_WORD
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

_LONGEST_TOKEN_BYTES = 256
_MOST_BYTES_PER_CHARACTER = 4


class GraphTokenizer(tf.Module, GraphForm):
    """WordPiece in the graph: strings -> ids of the vocabulary, equal to `WordPieceTokenizer`.

    It works eagerly, in tf.data, in tf.function, and inside a saved tf.Module, where several functions share its
    constants.

    Args:
        vocabulary: `Vocabulary`, with its settings.
        do_lower_case: whether to lower-case, for uncased vocabularies.

    Example:
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "##est"])
        >>> GraphTokenizer(vocabulary).tokenize(["The quickest", ""])
        <tf.RaggedTensor [[5, 6, 7], []]>
    """

    def __init__(self, vocabulary: Vocabulary, do_lower_case: bool = True):
        super().__init__()
        tensorflow_text = _tensorflow_text()
        self.vocabulary = vocabulary
        tokenizer = WordPieceTokenizer(vocabulary, do_lower_case)
        rules = tokenizer.rules
        self._table_texts = fast_normalizer.table_text_pattern(rules)
        self._short_words = fast_normalizer.short_words_pattern(rules)
        self._normalizer = tensorflow_text.FastBertNormalizer(
            model_buffer=tf.constant(np.frombuffer(fast_normalizer.normalizer_model(rules), np.uint8))
        )
        stand_ins = StandIns(tokenizer.piece_ids, rules.chinese_chars)
        self._pieces = tensorflow_text.FastWordpieceTokenizer(
            vocab=_checked(stand_ins.translated(vocabulary.tokens)),
            max_bytes_per_word=MAX_CHARACTERS_PER_WORD * _MOST_BYTES_PER_CHARACTER,
            token_out_type=tf.int32,
            unknown_token=vocabulary.special_tokens.unk,
        )
        exact = ExactTokenizer(TextPieces(self._pieces, stand_ins, vocabulary.unk_id, rules.max_characters), rules)
        # A tf.function, so that a graph with both kinds of tokenisation contains its many operations only once.
        self._exact = tf.function(exact.__call__, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        self._added = added_tokens_of(tokenizer, exact)

    def _plain_ids(self, texts) -> tf.RaggedTensor:
        texts, is_exact, normalized = self._normalize(texts)
        return self._with_exact_rows(texts, is_exact, [self._pieces.tokenize(normalized)])[0]

    def _plain_ids_with_offsets(self, texts) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        texts, is_exact, normalized, sources = self._normalize(texts, with_offsets=True)
        ids, starts, ends = self._pieces.tokenize_with_offsets(normalized)
        rows = tf.gather(sources.row_splits, ids.value_rowids())
        starts = ids.with_values(tf.gather(sources.values, rows + starts.values))
        ends = ids.with_values(_next_source(sources, rows + ends.values - 1))
        ids, starts, ends = self._with_exact_rows(texts, is_exact, [ids, starts, ends])
        return ids, tf.cast(starts, tf.int32), tf.cast(ends, tf.int32)

    def _normalize(self, texts, with_offsets: bool = False):
        texts = as_strings(texts)
        is_exact = ~tf.strings.regex_full_match(texts, self._table_texts)
        fast_texts = tf.where(is_exact, "", texts)
        if with_offsets:
            normalized, sources = self._normalizer.normalize_with_offsets(fast_texts)
        else:
            normalized = self._normalizer.normalize(fast_texts)
        is_exact |= ~tf.strings.regex_full_match(normalized, self._short_words)
        return (texts, is_exact, normalized, sources) if with_offsets else (texts, is_exact, normalized)

    def _with_exact_rows(self, texts, is_exact, fast: list[tf.RaggedTensor]) -> list[tf.RaggedTensor]:
        """Replaces the rows that need the exact path. `fast` is ids, or ids, starts, ends."""
        count = tf.size(texts)

        def replaced():
            ids, splits, starts, ends = self._exact(*flagged(is_exact, texts))
            # The exact rows are appended to the fast ones. Row i is fast row i, or the next exact row.
            rows = tf.where(is_exact, tf.cumsum(tf.cast(is_exact, tf.int32)) - 1 + count, tf.range(count))
            splits = tf.concat([fast[0].row_splits, splits[1:] + fast[0].row_splits[-1]], 0)
            indices = indices_of_rows(splits, rows)
            pairs = zip(fast, (ids, starts, ends), strict=False)
            values = [tf.gather(tf.concat([old.values, new], 0), indices.values) for old, new in pairs]
            return [indices.row_splits, *values]

        splits, *values = tf.cond(
            tf.reduce_any(is_exact), replaced, lambda: [fast[0].row_splits, *(row.values for row in fast)]
        )
        return [tf.RaggedTensor.from_row_splits(value, splits, validate=False) for value in values]


class StandIns:
    """Private-use code points that replace others in the input of tf.text's pieces op.

    The op asks the server's ICU where words end. ICUs of other Unicode versions would end words at code points that
    Unicode 14.0 does not know, so the op sees other code points in their places: a code point of the vocabulary has its
    own stand-in, all others have `UNKNOWN`, which is in no token. `ids` are those of tokens that words are cut into.
    """

    UNKNOWN = STAND_INS[0]

    def __init__(self, ids: Mapping[str, int], chinese_chars: bool = True):
        self.replaced = needs_stand_in(chinese_chars)
        used = sorted(character for character in set("".join(ids)) if self.replaced[ord(character)])
        self._ids = ids
        self._next = iter(STAND_INS[1:])
        self._never_in_words = set(map(chr, unicode_table.removed() | unicode_table.whitespace()))
        self.table = {ord(character): next(self._next) for character in used}

    def translated(self, tokens: Sequence[str]) -> list[str]:
        """Returns the tokens with their characters replaced, for the vocabulary of the pieces op."""
        return [
            token.translate(self.table) if self._can_match(number, token) else chr(next(self._next))
            for number, token in enumerate(tokens)
        ]

    def _can_match(self, number: int, token: str) -> bool:
        """Returns whether texts can contain a token. The op would split or refuse others, so they get another name."""
        can_match = token and len(token) <= MAX_CHARACTERS_PER_WORD and self._never_in_words.isdisjoint(token)
        # Of a token that occurs twice the last one counts, and an added token is no piece.
        return bool(can_match) and self._ids.get(token) == number


class TextPieces(tf.Module):
    """Cuts words into pieces with tf.text's FastWordpieceTokenizer, for the exact path.

    Args:
        pieces: tf.text FastWordpieceTokenizer with the vocabulary translated by `stand_ins`.
        max_characters: a word with more characters is [UNK].
    """

    def __init__(self, pieces, stand_ins: StandIns, unk_id: int, max_characters: int = MAX_CHARACTERS_PER_WORD):
        super().__init__()
        self._pieces = pieces
        self._unk_id = unk_id
        self._max_characters = max_characters
        # The stand-in of each code point, or 0 for those that stay.
        numbers = np.where(stand_ins.replaced, StandIns.UNKNOWN, 0).astype(np.int32)
        numbers[list(stand_ins.table)] = list(stand_ins.table.values())
        self._stand_ins = CodePointTable(numbers)

    def __call__(self, points: tf.Tensor, word_starts: tf.Tensor):
        """Cuts words: the code points of all, int32 `(characters,)`, and whether a word starts there, bool.

        Returns for every piece its id, the number of its word, and the indices of its first and last character.
        """
        stand_ins = self._stand_ins(points)
        points = tf.where(tf.equal(stand_ins, 0), points, stand_ins)
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


def added_tokens_of(tokenizer: WordPieceTokenizer, exact: ExactTokenizer) -> GraphAddedTokens | None:
    """Returns the added tokens of a tokenizer for the graph, or None if there are none."""
    if not tokenizer.added_tokens:
        return None
    return GraphAddedTokens(tokenizer.added_tokens, tokenizer.ids, tokenizer.normalize, exact.normalize)


def _next_source(sources: tf.RaggedTensor, indices: tf.Tensor) -> tf.Tensor:
    """Returns the end of each byte's source, the next position that differs: [0, 0, 3, 4] -> 3 for the first two."""
    is_new = changes(sources.values)
    (distinct,) = flagged(is_new, sources.values)
    return tf.gather(distinct, tf.gather(tf.cumsum(tf.cast(is_new, tf.int32)), indices))


def _tensorflow_text():
    try:
        import tensorflow_text
    except ImportError as error:
        raise InputError(
            f"The tokenizer in the graph needs tensorflow-text >= 2.21.1, which cannot be imported here ({error}). "
            "2.21.0 is broken, and there is none for Windows. keras_bert.WordPieceTokenizer computes the same ids in "
            "Python, but models that take texts, in tf.data or in a SavedModel, do not work without tensorflow-text."
        ) from error
    return tensorflow_text


def _checked(tokens: list[str]) -> list[str]:
    for number, token in enumerate(tokens, start=1):
        if len(token.encode()) > _LONGEST_TOKEN_BYTES:
            raise InputError(
                f"The token in line {number} of the vocabulary has {len(token.encode())} bytes: {token[:20]!r}... "
                f"The tokenizer in the graph accepts at most {_LONGEST_TOKEN_BYTES}. Shorten or remove it."
            )
    return tokens
