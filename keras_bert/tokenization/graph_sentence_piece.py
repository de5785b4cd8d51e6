"""SentencePiece in the TensorFlow graph, with byte offsets and the same ids as `SentencePieceTokenizer`."""

import itertools

import numpy as np
import tensorflow as tf

from keras_bert.program.private_interfaces import private
from keras_bert.tokenization.exact_graph import CodePointTable, as_strings, flagged, shifted, without_blanks
from keras_bert.tokenization.graph_added_tokens import GraphAddedTokens
from keras_bert.tokenization.sentence_piece import SPACE_MARK, STRIPPED, SentencePieceTokenizer
from keras_bert.tokenization.tokenizer import GraphForm


class GraphSentencePiece(tf.Module, GraphForm):
    """SentencePiece in the graph: strings -> ids.

    It runs the operation `SentencepieceTokenizeWithOffsets` of TensorFlow Text, which stock TensorFlow Serving
    includes. If two segmentations of a text have the same score, the operation and the Python library may choose
    differently.
    """

    def __init__(self, tokenizer: SentencePieceTokenizer):
        import tensorflow_text

        super().__init__()
        self.tokenizer = self.vocabulary = tokenizer
        self._pieces = tensorflow_text.SentencepieceTokenizer(tokenizer.effective_model, out_type=tf.int32)
        self._pieces._model_resource = self._model = _LoadedModel(tokenizer.effective_model)
        self._has_parts = bool(tokenizer.divided)
        if self._has_parts:
            parts = [tokenizer.divided.get(number, (number,)) for number in range(len(tokenizer))]
            self._parts = tf.ragged.constant(parts, tf.int32, row_splits_dtype=tf.int64)
            lengths = [len(token.removeprefix(SPACE_MARK).encode()) for token in tokenizer.tokens]
            self._lengths = tf.constant(lengths, tf.int32)
        if tokenizer.added_tokens:
            self._added = GraphAddedTokens(tokenizer.added_tokens, tokenizer.ids)
        is_space = np.zeros(0x110000, np.uint8)
        is_space[[ord(character) for character in STRIPPED]] = 1
        self._is_space = CodePointTable(is_space)

    def _plain_ids(self, texts) -> tf.RaggedTensor:
        self._model.load_again()
        ids = self._pieces.tokenize(self._prepared(as_strings(texts)))
        return self._divide(ids)[0] if self._has_parts else ids

    def _plain_ids_with_offsets(self, texts) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        self._model.load_again()
        texts = as_strings(texts)
        ids, starts, ends = self._pieces.tokenize_with_offsets(self._prepared(texts))
        bases = tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64), exclusive=True)
        bases = tf.gather(bases, ids.value_rowids())
        first, last = self._without_white_space(texts, starts.values + bases, ends.values + bases)
        first, last = tf.cast(first - bases, tf.int32), tf.cast(last - bases, tf.int32)
        if not self._has_parts:
            return ids, ids.with_values(first), ids.with_values(last)
        divided, pieces = self._divide(ids)
        lengths = tf.gather(self._lengths, divided.values)
        # A part starts where the part before it ends. If the lengths of the parts do not add up, each covers the whole
        # token.
        filled = tf.math.segment_sum(lengths, pieces)
        is_exact = tf.gather(tf.equal(filled, last - first), pieces)
        begins = tf.cumsum(lengths, exclusive=True)
        begins -= tf.gather(tf.cumsum(filled, exclusive=True), pieces)
        first, last = tf.gather(first, pieces), tf.gather(last, pieces)
        starts = tf.where(is_exact, first + begins, first)
        return divided, divided.with_values(starts), divided.with_values(tf.where(is_exact, starts + lengths, last))

    def _prepared(self, texts):
        """Returns the texts that the model sees."""
        for pattern, replacement in self.tokenizer.space_steps:
            texts = tf.strings.regex_replace(texts, pattern, replacement)
        return texts

    def _without_white_space(self, texts, first, last):
        """Moves the ends of spans inwards past white space. They are int64 bytes in the concatenation of all texts."""
        decoded, offsets = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="replace")
        lengths = tf.cast(tf.strings.length(texts), tf.int64)
        total = tf.reduce_sum(lengths)
        begins = offsets.values + tf.gather(tf.cumsum(lengths, exclusive=True), decoded.value_rowids())
        is_solid = tf.equal(self._is_space(decoded.values), 0)
        begins, ends = flagged(is_solid, begins, shifted(begins, -1, total))
        return without_blanks(first, last, begins, ends, total)

    def _divide(self, ids):
        """Returns the ids with divided tokens, and for each the index of the token that it is a part of."""
        parts = tf.gather(self._parts, ids.values)
        splits = tf.gather(parts.row_splits, ids.row_splits)
        return tf.RaggedTensor.from_row_splits(parts.values, splits, validate=False), parts.value_rowids()


class _LoadedModel(tf.saved_model.experimental.TrackableResource):
    """The content of a SentencePiece model file in the memory of TensorFlow, under a name of its own in this process.

    TensorFlow deletes the model when it clears its cache of operations, as `keras.utils.set_random_seed` makes it do.
    Loading it again under the same name repairs every function that uses it.
    """

    _numbers = itertools.count()

    def __init__(self, model: bytes):
        super().__init__()
        self._model = model
        self._name = f"keras_bert_sentence_piece_{next(self._numbers)}"
        _ = self.resource_handle  # creates it

    def _create_resource(self):
        # The graph of a SavedModel has no shared name: TensorFlow would delete the model with the first of two exports.
        return self._load(self._name if tf.executing_eagerly() else "")

    def load_again(self) -> None:
        """Loads the model if TensorFlow has deleted it; otherwise this takes less than a millisecond."""
        if tf.executing_eagerly():
            self._load(self._name)

    def _load(self, shared_name: str):
        operations = private("tensorflow_text.python.ops.sentencepiece_tokenizer.gen_sentencepiece_tokenizer")
        return operations.sentencepiece_op(model=self._model, shared_name=shared_name)
