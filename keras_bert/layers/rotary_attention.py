"""Multi-head self-attention with rotary positions."""

import keras
import numpy as np
from keras import ops

from keras_bert.layers.attention import SelfAttention
from keras_bert.layers.choosing import formulas_for, layouts_for


def rotary_frequencies(head_size: int, theta: float) -> np.ndarray:
    """Returns the angles of position 1, float32 `[D / 2]`: component i is `1 / theta ** (2 i / D)`.

    They are computed in float32 in models of every dtype, as in transformers: models were trained with these rounded
    angles.

    Args:
        head_size: D, an even number.
        theta: the base of the wavelengths.

    Reference: Su et al., 2021, arXiv 2104.09864, section 3.3.
    """
    exponents = np.arange(0, head_size, 2, dtype="float32") / np.float32(head_size)
    return np.float32(1) / np.power(np.float64(theta), exponents.astype("float64")).astype("float32")


def rotary_angles(positions, frequencies):
    """Returns the cosines and sines of rotary positions, each float32 `[B, 1, S, D / 2]`.

    Args:
        positions: int `[B, S]`.
        frequencies: float32 `[D / 2]`, see `rotary_frequencies`.
    """
    angles = ops.cast(ops.expand_dims(positions, 2), "float32") * frequencies
    return tuple(ops.expand_dims(part, 1) for part in (ops.cos(angles), ops.sin(angles)))


@keras.saving.register_keras_serializable(package="keras_bert")
class RotaryAttention(SelfAttention):
    """Multi-head self-attention whose queries and keys are rotated by angles that grow with the position.

    The score of two tokens then depends on the distance between their positions. One product makes the queries, keys
    and values.

    Args:
        num_heads: number of heads; the width of a head must be even.
        dropout: fraction of the attention probabilities that become 0 in training.
        initializer_range: standard deviation of the initial kernel for queries, keys and values.
        output_range: standard deviation of the initial kernel of the output projection.
        use_bias: whether the two dense layers have a bias.

    Call arguments:
        hidden: float `[B, S, H]`.
        attention_bias: float `[B, 1, F, S]` or `[B, 1, 1, S]`, see `numbered_mask`.
        cosines, sines: float `[B, 1, S, D / 2]`, see `rotary_angles`.
        training: whether to apply dropout.
        return_attention: whether to return the attention probabilities (before dropout) too.
        query_columns: int `[B, F]`, the columns of the tokens that attend; by default all do, and F = S.
        flat_indices: int `[T]`, indices into the B * S tokens. The output projection runs for these tokens only.

    Returns:
        `[B, F, H]`, or `[T, H]` with `flat_indices`. With `return_attention`, a pair of it and the probabilities
        `[B, N, F, S]` of the N heads.

    Reference: Warner et al., 2024, arXiv 2412.13663, section 2.1.
    """

    def __init__(self, num_heads, dropout=0.0, initializer_range=0.02, output_range=0.02, use_bias=False, **kwargs):
        super().__init__(num_heads, dropout, initializer_range, **kwargs)
        self.output_range = output_range
        self.use_bias = use_bias

    def build(self, hidden_shape, *other_shapes):
        self._set_sizes(hidden_shape[-1])

        def dense(units, deviation, name):
            layer = keras.layers.Dense(
                units,
                use_bias=self.use_bias,
                kernel_initializer=keras.initializers.TruncatedNormal(stddev=deviation),
                dtype=self.dtype_policy,
                name=name,
            )
            layer.build((None, self.hidden_size))
            return layer

        self.qkv = dense(3 * self.hidden_size, self.initializer_range, "qkv")
        self.output_dense = dense(self.hidden_size, self.output_range, "output_dense")

    def call(
        self,
        hidden,
        attention_bias,
        cosines,
        sines,
        training=False,
        return_attention=False,
        query_columns=None,
        flat_indices=None,
    ):
        # B = batch, F = query tokens, S = sequence length, H = hidden size, N = number of heads, D = head size
        batch_size, _, _, length = ops.shape(attention_bias)
        dtype = keras.backend.result_type(self.compute_dtype, "float32")
        turn = (ops.cast(cosines, dtype), ops.cast(sines, dtype))
        heads = self.qkv(ops.reshape(hidden, (-1, self.hidden_size)))  # [B * S, 3 H]
        heads = ops.reshape(heads, (-1, length, 3 * self.num_heads, self.head_size))
        heads = layouts_for(training).swap_middle_axes(heads, (batch_size, length, 3 * self.num_heads))
        query, key, value = ops.split(heads, 3, axis=1)  # [B, N, S, D]
        # Scaling the angles of the queries has the effect of scaling the scores.
        query = self._rotated(query, [part * self.head_size**-0.5 for part in turn], training)
        key = self._rotated(key, turn, training)
        num_queries = length
        if query_columns is not None:
            num_queries = ops.shape(query_columns)[1]
            query = ops.take_along_axis(query, ops.expand_dims(query_columns, (1, 3)), axis=2)
        sizes = (batch_size, self.num_heads, num_queries, length)
        gathered, probabilities = self._attend(query, key, value, attention_bias, sizes, training, return_attention)
        shape = (batch_size, num_queries, self.hidden_size)
        output = self._project(gathered, sizes, shape, flat_indices, training)
        return (output, probabilities) if return_attention else output

    def _rotated(self, vectors, turn, training):
        rotated = formulas_for(training).rotate(ops.cast(vectors, turn[0].dtype), *turn)
        return ops.cast(rotated, self.compute_dtype)

    def compute_output_shape(
        self,
        hidden_shape,
        attention_bias_shape=None,
        cosines_shape=None,
        sines_shape=None,
        query_columns_shape=None,
        flat_indices_shape=None,
    ):
        selected = query_columns_shape or flat_indices_shape
        return (*selected, hidden_shape[-1]) if selected else hidden_shape

    def get_config(self):
        return {**super().get_config(), "output_range": self.output_range, "use_bias": self.use_bias}
