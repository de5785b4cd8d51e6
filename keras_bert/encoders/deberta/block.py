"""A layer of DeBERTa, which may have a convolution beside it."""

from typing import Any

import keras
from keras import ops

from keras_bert.encoders.deberta.attention import DisentangledAttention
from keras_bert.layers.activations import hidden_activation
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.gathering import vectors_at_flat
from keras_bert.layers.transformer_block import TransformerBlock


@keras.saving.register_keras_serializable(package="keras_bert")
class DisentangledBlock(TransformerBlock):
    """A `TransformerBlock` with `DisentangledAttention`, and with a `kernel_size` the sum with a convolution:
    `LayerNorm(block(x) + activation(convolution(x)))`.

    Args:
        score_types, shares_projections: as for `DisentangledAttention`.
        kernel_size: number of columns that the convolution reads, odd; 0: there is none.
        convolution_activation: the activation after it, as in `BertConfig.hidden_act`.
        others: as for `TransformerBlock`. `dropout` is that of the vectors of distances and of the convolution too.

    Call arguments:
        hidden, attention_bias, distance_vectors, distance_rows: as for `DisentangledAttention`.
        sequences: int32 `[B, S]`, the number of each token's sequence. For the convolution, a neighbour of another
            sequence counts as zeros. Its sums are 0 where the number is 0: for padding.
        query_columns: None: the attention runs for all tokens.
        flat_indices, training, return_attention: as for `TransformerBlock`.

    Returns:
        as `TransformerBlock`.

    Reference: He et al., 2020, arXiv 2006.03654; transformers, `models/deberta_v2/modeling_deberta_v2.py`, `ConvLayer`.
    """

    attention_class = DisentangledAttention

    def __init__(
        self, *sizes, score_types=(), shares_projections=False, kernel_size=0, convolution_activation="tanh", **kwargs
    ):
        super().__init__(*sizes, **kwargs)
        self.score_types = self.attention.score_types = tuple(score_types)
        self.shares_projections = self.attention.shares_projections = shares_projections
        self.attention.distance_dropout.rate = self.dropout.rate
        self.kernel_size, self.convolution_activation = kernel_size, convolution_activation
        if kernel_size:
            self.convolution_layer_norm = self._layer_norm("convolution_layer_norm")
            self.convolution_dropout = Dropout(self.dropout.rate, dtype=self.dtype_policy, name="convolution_dropout")
            self._activate = hidden_activation(convolution_activation)

    def build(self, hidden_shape, *other_shapes):
        super().build(hidden_shape)
        if self.kernel_size:
            width = self.hidden_size
            initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
            self.convolution_kernel = self.add_weight(
                name="convolution_kernel", shape=(self.kernel_size, width, width), initializer=initializer
            )
            self.convolution_bias = self.add_weight(name="convolution_bias", shape=(width,), initializer="zeros")
            self.convolution_layer_norm.build((None, width))

    def dense_layers(self) -> dict[str, tuple[keras.layers.Dense, ...]]:
        layers = super().dense_layers()
        query, key, value, output = layers["attention"]
        return {**layers, "attention": (query, key, value, *self.attention.distance_layers(), output)}

    def call(
        self,
        hidden,
        attention_bias,
        distance_vectors,
        distance_rows,
        sequences,
        query_columns=None,
        flat_indices=None,
        training=False,
        return_attention=False,
    ):
        attended = self.attention(
            *(hidden, attention_bias, distance_vectors, distance_rows, sequences),
            flat_indices=flat_indices,
            training=training,
            return_attention=return_attention,
        )
        vectors = hidden if flat_indices is None else vectors_at_flat(hidden, flat_indices)
        output = self._output(vectors, attended, training, return_attention)
        if not self.kernel_size:
            return output
        output, *probabilities = output if return_attention else (output,)
        is_token = ops.expand_dims(ops.cast(sequences > 0, hidden.dtype), 2)  # [B, S, 1]
        convolved = self.convolution_dropout(self._convolved(hidden, sequences) * is_token, training=training)
        convolved = self._activate(convolved, training)
        if flat_indices is not None:
            convolved, is_token = (vectors_at_flat(values, flat_indices) for values in (convolved, is_token))
        output = self.convolution_layer_norm(output + convolved, training=training) * is_token
        return (output, *probabilities) if return_attention else output

    def _convolved(self, hidden: Any, sequences: Any) -> Any:
        """Returns the sum over the columns of the kernel, `[B, S, H]`."""
        length, reach = ops.shape(hidden)[1], self.kernel_size // 2
        padded = ops.pad(hidden, ((0, 0), (reach, reach), (0, 0)))
        numbers = ops.pad(sequences, ((0, 0), (reach, reach)))
        parts = []
        for first in range(self.kernel_size):
            is_same = ops.equal(numbers[:, first : first + length], sequences)
            parts.append(padded[:, first : first + length] * ops.expand_dims(ops.cast(is_same, hidden.dtype), 2))
        joined = ops.reshape(ops.concatenate(parts, axis=2), (-1, self.kernel_size * self.hidden_size))
        kernel = ops.reshape(ops.convert_to_tensor(self.convolution_kernel), (-1, self.hidden_size))
        convolved = ops.matmul(joined, kernel) + ops.convert_to_tensor(self.convolution_bias)
        return ops.reshape(convolved, ops.shape(hidden))
