"""WordPiece inside the TensorFlow graph, with byte offsets: for tf.data and for SavedModels.

For any bytes it returns the ids of wordpiece.py, and the same offsets in bytes. Texts take one of two paths:

* The fast path has two ops of tf.text: FastBertNormalize with our own table (fast_normalizer.py) and
  FastWordpieceTokenizeWithOffsets. A regular expression detects the texts for which it is exact: nearly all.
* The exact path (exact_graph.py) processes the others step by step on code points.

All other ops are core TensorFlow ops. TF Serving includes all of them since 2.12.
"""

import numpy as np
import tensorflow as tf

from keras_bert.program.errors import InputError
from keras_bert.tokenization import fast_normalizer
from keras_bert.tokenization.exact_graph import ExactTokenizer, as_strings, changes, flagged
from keras_bert.tokenization.graph_added_tokens import GraphAddedTokens
from keras_bert.tokenization.text_pieces import StandIns, TextPieces
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
        self.do_lower_case = do_lower_case
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
            lengths = tf.concat([fast[0].row_lengths(), splits[1:] - splits[:-1]], 0)
            begins = tf.concat([fast[0].row_starts(), splits[:-1] + fast[0].row_splits[-1]], 0)
            rows = tf.where(is_exact, tf.cumsum(tf.cast(is_exact, tf.int32)) - 1 + count, tf.range(count))
            begins, lengths = tf.gather(begins, rows), tf.gather(lengths, rows)
            indices = tf.ragged.range(begins, begins + lengths)
            pairs = zip(fast, (ids, starts, ends), strict=False)
            values = [tf.gather(tf.concat([old.values, new], 0), indices.values) for old, new in pairs]
            return [indices.row_splits, *values]

        splits, *values = tf.cond(
            tf.reduce_any(is_exact), replaced, lambda: [fast[0].row_splits, *(row.values for row in fast)]
        )
        return [tf.RaggedTensor.from_row_splits(value, splits, validate=False) for value in values]


def added_tokens_of(tokenizer: WordPieceTokenizer, exact: ExactTokenizer) -> GraphAddedTokens | None:
    """Returns the added tokens of a tokenizer for the graph, or None if there are none."""
    if not tokenizer.added_tokens:
        return None
    return GraphAddedTokens(tokenizer.added_tokens, tokenizer.ids, tokenizer.normalize, exact.normalize)


def _next_source(sources: tf.RaggedTensor, indices: tf.Tensor) -> tf.Tensor:
    """Returns the end of the source character of each normalised byte: the next source position that differs.

    All bytes of a replacement have the position of their source: [0, 0, 0, 3, 4] -> 3 for the indices 0, 1 and 2.
    """
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
