"""Token embeddings without positions, with dropout and, in some families, segments and a LayerNorm."""

import keras
from keras import ops

from keras_bert.layers.dropout import Dropout
from keras_bert.layers.embeddings import EmbeddingTable
from keras_bert.layers.layer_norm import LayerNorm


@keras.saving.register_keras_serializable(package="keras_bert")
class TokenEmbeddings(EmbeddingTable):
    """Turns token ids into vectors: dropout(LayerNorm(scale * token + segment)). Positions enter in the attention only.

    Args:
        vocab_size, hidden_size, dropout, initializer_range: as for `BertEmbeddings`.
        layer_norm_epsilon: added to the variance in LayerNorm; None: there is no LayerNorm.
        norm_bias: whether the LayerNorm has a bias.
        num_segments: number of rows of a table of segments; 0: there is none.
        scale: the factor of the token embeddings.

    Call arguments:
        input_ids: int32 `[B, S]`.
        segment_ids: the same, for a table of segments; None: all tokens are in segment 0.
        training, token_vectors: as for `BertEmbeddings`.

    Returns:
        `[B, S, hidden_size]`.

    Reference: Warner et al., 2024, arXiv 2412.13663, section 2.1.
    """

    def __init__(
        self,
        vocab_size,
        hidden_size,
        dropout=0.0,
        layer_norm_epsilon=1e-5,
        initializer_range=0.02,
        norm_bias=False,
        num_segments=0,
        scale=1.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.initializer_range = initializer_range
        self.layer_norm_epsilon = layer_norm_epsilon
        self.norm_bias = norm_bias
        self.num_segments = num_segments
        self.scale = scale
        if layer_norm_epsilon is not None:
            self.layer_norm = LayerNorm(layer_norm_epsilon, norm_bias, dtype=self.dtype_policy, name="layer_norm")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_ids_shape, segment_ids_shape=None):
        width = self.hidden_size
        self.token_embeddings = self.new_weight("token_embeddings", (self.vocab_size, width), autocast=False)
        if self.num_segments:
            self.segment_embeddings = self.new_weight("segment_embeddings", (self.num_segments, width), autocast=False)
        if self.layer_norm_epsilon is not None:
            self.layer_norm.build((None, None, width))

    def call(self, input_ids, segment_ids=None, training=False, token_vectors=None):
        vectors = self.vectors_of(input_ids, token_vectors)
        if self.scale != 1:
            vectors = vectors * ops.cast(self.scale, vectors.dtype)
        if self.num_segments:
            vectors = vectors + self.segment_vectors(segment_ids, vectors)
        if self.layer_norm_epsilon is not None:
            vectors = self.layer_norm(vectors, training=training)
        return self.dropout(ops.cast(vectors, self.compute_dtype), training=training)

    def compute_output_shape(self, input_ids_shape, segment_ids_shape=None):
        return (*input_ids_shape, self.hidden_size)
