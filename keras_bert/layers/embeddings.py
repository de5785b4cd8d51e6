"""The sum of token, position and segment embeddings, with its LayerNorm and dropout."""

import keras
from keras import ops

from keras_bert.layers.bert_layer import BertLayer
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.layer_norm import LayerNorm

_TABLES = ("token_embeddings", "position_embeddings", "segment_embeddings")


class EmbeddingTable(BertLayer):
    """A layer that looks tokens up in a table.

    Attributes:
        token_embeddings: the table, `[vocab_size, hidden_size]`. Subclasses add it without autocast.
    """

    def look_up(self, input_ids):
        """Returns the rows of the table: int `[B, S]` -> float `[B, S, hidden_size]`."""
        return ops.take(self.token_embeddings, input_ids, axis=0)

    def vectors_of(self, input_ids, token_vectors=None):
        """Returns `token_vectors` if they are given, else those of the table.

        Keras casts given vectors to 16 bits in mixed precision, as inputs of a layer. They get the dtype of the table.
        """
        if token_vectors is None:
            return self.look_up(input_ids)
        return ops.cast(token_vectors, self.token_embeddings.dtype)

    def segment_vectors(self, segment_ids, tokens):
        """Returns the rows of `segment_embeddings` in the shape of `tokens`; that of segment 0 without ids."""
        if segment_ids is None:
            return self.segment_embeddings[0]
        # A product with a table of two rows is cheaper than a gather, whose gradient adds up thousands of rows in two.
        segments = ops.one_hot(ops.reshape(segment_ids, (-1,)), self.num_segments, dtype=tokens.dtype)
        return ops.reshape(ops.matmul(segments, self.segment_embeddings), ops.shape(tokens))


@keras.saving.register_keras_serializable(package="keras_bert")
class BertEmbeddings(EmbeddingTable):
    """Turns token ids into vectors: dropout(LayerNorm(token + position + segment)), projected if asked for.

    Args:
        vocab_size: number of rows of the token table.
        hidden_size: width of the tables.
        max_positions: number of rows of the position table; 0: there is none.
        num_segments: number of rows of the segment table; 0: there is none.
        dropout: fraction of the outputs that become 0 in training.
        layer_norm_epsilon: added to the variance in LayerNorm.
        initializer_range: standard deviation of the initial tables.
        projected_size: width of the dense layer that follows; None: there is none.
        tables_of: a built `BertEmbeddings` whose tables and LayerNorm to use instead of new ones, as a generator in
            pre-training does. It is not saved in the config.

    Call arguments:
        input_ids, positions, segment_ids: int32 `[B, S]`. Without a segment table `segment_ids` is not used.
        training: whether to apply dropout.
        token_vectors: float `[B, S, hidden_size]`, used instead of the rows of the token table; see `look_up`.

    Returns:
        `[B, S, projected_size or hidden_size]`.

    Example:
        >>> embeddings = BertEmbeddings(vocab_size=100, hidden_size=8, max_positions=16)
        >>> embeddings(np.array([[2, 7, 3]]), np.array([[0, 1, 2]]), np.array([[0, 0, 0]])).shape
        TensorShape([1, 3, 8])

    Reference: Devlin et al., 2018, figure 2; Lan et al., 2019, section 3.1, for the projection.
    """

    # Whether the dense layer stands before the LayerNorm. Then it has no bias.
    projects_first = False
    not_in_config = ("tables_of",)

    def __init__(
        self,
        vocab_size,
        hidden_size,
        max_positions,
        num_segments=2,
        dropout=0.1,
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        projected_size=None,
        tables_of=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.max_positions = max_positions
        self.num_segments = num_segments
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self._shares_tables = tables_of is not None
        if self._shares_tables:
            self.layer_norm = tables_of.layer_norm
            for name in _TABLES[: 3 if num_segments else 2]:
                setattr(self, name, getattr(tables_of, name))
        else:
            self.layer_norm = LayerNorm(layer_norm_epsilon, dtype=self.dtype_policy, name="layer_norm")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.projected_size = projected_size
        if projected_size:
            self.projection = self.new_dense("projection", projected_size, use_bias=not self.projects_first)

    def build(self, input_ids_shape, positions_shape=None, segment_ids_shape=None):
        if not self._shares_tables:
            for name, num_rows in zip(_TABLES, (self.vocab_size, self.max_positions, self.num_segments), strict=True):
                if num_rows:
                    setattr(self, name, self._add_table(name, num_rows))
            width = (self.projects_first and self.projected_size) or self.hidden_size
            self.layer_norm.build((None, None, width))
        if self.projected_size:
            self.projection.build((None, None, self.hidden_size))

    def _add_table(self, name, num_rows, width=None):
        return self.new_weight(name, (num_rows, width or self.hidden_size), autocast=False)

    def call(self, input_ids, positions, segment_ids, training=False, token_vectors=None):
        vectors = self._sum_of_tables(input_ids, positions, segment_ids, token_vectors)
        vectors = self.dropout(self.layer_norm(vectors, training=training), training=training)
        return self.projection(vectors) if self.projected_size else vectors

    def _sum_of_tables(self, input_ids, positions, segment_ids, token_vectors):
        vectors = self.vectors_of(input_ids, token_vectors)
        if self.max_positions:
            vectors = vectors + ops.take(self.position_embeddings, positions, axis=0)
        return vectors + self.segment_vectors(segment_ids, vectors) if self.num_segments else vectors

    def compute_output_shape(self, input_ids_shape, positions_shape=None, segment_ids_shape=None):
        return (*input_ids_shape, self.projected_size or self.hidden_size)
