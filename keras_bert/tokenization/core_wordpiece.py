"""WordPiece inside the TensorFlow graph by core operations alone, with byte offsets.

It needs no tensorflow-text, where it is made and where it is served. The ids and offsets are those of `GraphTokenizer`.
The steps:

1. Texts are cut at single spaces, and each different part is tokenised once.
2. A part that is a token as it stands is looked up in a table.
3. The others take the exact path (exact_graph.py), which cuts words with trie_pieces.py.
"""

import tensorflow as tf

from keras_bert.tokenization.exact_graph import (
    ExactTokenizer,
    as_strings,
    behind_single,
    flagged,
    indices_of_rows,
    starts_in_rows,
)
from keras_bert.tokenization.graph_wordpiece import added_tokens_of
from keras_bert.tokenization.tokenizer import GraphForm
from keras_bert.tokenization.trie_pieces import TriePieces
from keras_bert.tokenization.wordpiece import WordPieceTokenizer


class CoreWordPiece(tf.Module, GraphForm):
    """WordPiece in the graph by core operations: strings -> ids, equal to `WordPieceTokenizer`.

    It works eagerly, in tf.data, in tf.function, and inside a saved tf.Module.

    Args:
        tokenizer: `WordPieceTokenizer`.

    Example:
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "##est"])
        >>> CoreWordPiece(WordPieceTokenizer(vocabulary)).tokenize(["The quickest", ""])
        <tf.RaggedTensor [[5, 6, 7], []]>
    """

    def __init__(self, tokenizer: WordPieceTokenizer):
        super().__init__()
        self.vocabulary = tokenizer.vocabulary
        self.do_lower_case = tokenizer.do_lower_case
        self._pieces = TriePieces(tokenizer)
        exact = ExactTokenizer(self._pieces, tokenizer.rules)
        self._exact = tf.function(exact.__call__, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        self._added = added_tokens_of(tokenizer, exact)

    def _plain_ids(self, texts) -> tf.RaggedTensor:
        return self._plain_ids_with_offsets(texts)[0]

    def _plain_ids_with_offsets(self, texts) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        texts = as_strings(texts)
        parts = tf.strings.split(texts, " ")
        # A part begins behind the space that ends the part before it.
        begins = starts_in_rows(parts, tf.strings.length(parts.values) + 1)
        different, numbers = tf.unique(parts.values)
        pieces, splits, rows = self._tokenize_parts(different)
        indices = indices_of_rows(splits, tf.gather(rows, numbers))
        ids, starts, ends = (tf.gather(values, indices.values) for values in pieces)
        begins = tf.repeat(begins, indices.row_lengths())
        text_splits = tf.gather(indices.row_splits, parts.row_splits)
        return tuple(
            tf.RaggedTensor.from_row_splits(values, text_splits, validate=False)
            for values in (ids, starts + begins, ends + begins)
        )

    def _tokenize_parts(self, parts):
        """Tokenizes different parts of texts, strings `(parts,)`.

        Returns:
            ids, starts and ends of all pieces, their splits, and for each part the number of its row in these.
        """
        is_whole, whole = self._pieces.find_whole(parts)
        ids, splits, starts, ends = self._exact(*flagged(~is_whole, parts))
        (lengths,) = flagged(is_whole, tf.strings.length(parts))
        pieces = (
            tf.concat([whole, ids], 0),
            tf.concat([tf.zeros_like(lengths), tf.cast(starts, tf.int32)], 0),
            tf.concat([lengths, tf.cast(ends, tf.int32)], 0),
        )
        rows, splits = behind_single(is_whole, splits)
        return pieces, splits, rows
