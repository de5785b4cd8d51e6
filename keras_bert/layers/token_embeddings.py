"""Token embeddings without positions, with dropout and, in some families, a LayerNorm."""

import keras
from keras import ops

from keras_bert.layers.dropout import Dropout
from keras_bert.layers.layer_norm import LayerNorm


@keras.saving.register_keras_serializable(package="keras_bert")
class TokenEmbeddings(keras.layers.Layer):
    """Turns token ids into vectors: dropout(LayerNorm(token)). Positions enter in the attention only.

    Args:
        vocab_size: number of rows of the table.
        hidden_size: its width.
        dropout: fraction of the outputs that become 0 in training.
        layer_norm_epsilon: added to the variance in LayerNorm; None: there is no LayerNorm, as in XLNet.
        initializer_range: standard deviation of the initial table.
        norm_bias: whether the LayerNorm has a bias.

    Call arguments:
        input_ids: int32 `[B, S]`.
        training: whether to apply dropout.
        token_vectors: float `[B, S, hidden_size]`, used instead of the rows of the table; see `look_up`.

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
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.initializer_range = initializer_range
        self.layer_norm_epsilon = layer_norm_epsilon
        self.norm_bias = norm_bias
        if layer_norm_epsilon is not None:
            self.layer_norm = LayerNorm(layer_norm_epsilon, norm_bias, dtype=self.dtype_policy, name="layer_norm")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_ids_shape):
        self.token_embeddings = self.add_weight(
            name="token_embeddings",
            shape=(self.vocab_size, self.hidden_size),
            initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_range),
            # In mixed precision only the gathered rows are cast, not the whole table.
            autocast=False,
        )
        if self.layer_norm_epsilon is not None:
            self.layer_norm.build((None, None, self.hidden_size))

    def look_up(self, input_ids):
        """Returns the rows of the table: int `[B, S]` -> float `[B, S, hidden_size]`."""
        return ops.take(self.token_embeddings, input_ids, axis=0)

    def call(self, input_ids, training=False, token_vectors=None):
        vectors = self.look_up(input_ids) if token_vectors is None else token_vectors
        if self.layer_norm_epsilon is not None:
            vectors = self.layer_norm(vectors, training=training)
        return self.dropout(ops.cast(vectors, self.compute_dtype), training=training)

    def compute_output_shape(self, input_ids_shape):
        return (*input_ids_shape, self.hidden_size)

    def get_config(self):
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "dropout": self.dropout.rate,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
            "norm_bias": self.norm_bias,
        }
