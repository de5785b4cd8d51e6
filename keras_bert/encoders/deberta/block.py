"""The layers of DeBERTa. The first one may have a convolution beside it."""

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
    """A `TransformerBlock` with `DisentangledAttention`.

    Args:
        score_types, shares_projections: as for `DisentangledAttention`.
        others: as for `TransformerBlock`. `dropout` is that of the vectors of distances too.

    Call arguments:
        hidden, attention_bias, distance_vectors, distance_rows: as for `DisentangledAttention`.
        query_columns: None: the attention runs for all tokens.
        flat_indices, training, return_attention: as for `TransformerBlock`.

    Returns:
        as `TransformerBlock`.

    Reference: He et al., 2020, arXiv 2006.03654.
    """

    attention_class = DisentangledAttention

    def __init__(self, *sizes, score_types=(), shares_projections=False, **kwargs):
        super().__init__(*sizes, **kwargs)
        self.attention.score_types = tuple(score_types)
        self.attention.shares_projections = shares_projections
        self.attention.distance_dropout.rate = self.dropout.rate

    def dense_layers(self) -> dict[str, tuple[keras.layers.Dense, ...]]:
        names = ("distance_key", "distance_query")
        own = tuple(getattr(self.attention, name) for name in names if hasattr(self.attention, name))
        layers = super().dense_layers()
        return {**layers, "attention": (*layers["attention"][:3], *own, *layers["attention"][3:])}

    def call(
        self,
        hidden,
        attention_bias,
        distance_vectors,
        distance_rows,
        query_columns=None,
        flat_indices=None,
        training=False,
        return_attention=False,
    ):
        attended = self.attention(
            *(hidden, attention_bias, distance_vectors, distance_rows),
            flat_indices=flat_indices,
            training=training,
            return_attention=return_attention,
        )
        attended, probabilities = attended if return_attention else (attended, None)
        vectors = hidden if flat_indices is None else vectors_at_flat(hidden, flat_indices)
        vectors = self.after_attention(vectors, attended, training=training)
        output = self.feed_forward(vectors, training=training)
        return (output, probabilities) if return_attention else output

    def compute_output_shape(self, hidden_shape, *other_shapes, flat_indices_shape=None, **shapes):
        return (*flat_indices_shape, hidden_shape[-1]) if flat_indices_shape else hidden_shape

    def get_config(self):
        return {
            **super().get_config(),
            "score_types": self.attention.score_types,
            "shares_projections": self.attention.shares_projections,
        }


@keras.saving.register_keras_serializable(package="keras_bert")
class ConvolvedBlock(DisentangledBlock):
    """The first layer with a convolution beside it: `LayerNorm(layer(x) + activation(convolution(x)))`.

    Args:
        kernel_size: number of columns that the convolution reads, odd.
        convolution_activation: the activation after it, as in `BertConfig.hidden_act`.
        others: as for `DisentangledBlock`.

    Call arguments:
        sequences: int32 `[B, S]`, the number of each token's sequence; 0 for padding, whose outputs are 0. A neighbour
            of another sequence counts as zeros.
        others: as for `DisentangledBlock`.

    Returns:
        as `DisentangledBlock`.

    Reference: transformers, `models/deberta_v2/modeling_deberta_v2.py`, `ConvLayer`.
    """

    def __init__(self, *sizes, kernel_size=3, convolution_activation="tanh", **kwargs):
        super().__init__(*sizes, **kwargs)
        self.kernel_size = kernel_size
        self.convolution_activation = convolution_activation
        self.convolution_layer_norm = self._layer_norm("convolution_layer_norm")
        self.convolution_dropout = Dropout(self.dropout.rate, dtype=self.dtype_policy, name="convolution_dropout")
        self._activate = hidden_activation(convolution_activation)

    def build(self, hidden_shape, *other_shapes):
        super().build(hidden_shape)
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
        shape = (self.kernel_size, self.hidden_size, self.hidden_size)
        self.convolution_kernel = self.add_weight(name="convolution_kernel", shape=shape, initializer=initializer)
        self.convolution_bias = self.add_weight(name="convolution_bias", shape=(self.hidden_size,), initializer="zeros")
        self.convolution_layer_norm.build((None, self.hidden_size))

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
        output = super().call(
            *(hidden, attention_bias, distance_vectors, distance_rows),
            flat_indices=flat_indices,
            training=training,
            return_attention=return_attention,
        )
        output, probabilities = output if return_attention else (output, None)
        is_token = ops.expand_dims(ops.cast(sequences > 0, hidden.dtype), 2)  # [B, S, 1]
        convolved = self.convolution_dropout(self._convolved(hidden, sequences) * is_token, training=training)
        convolved = self._activate(convolved, training)
        if flat_indices is not None:
            convolved, is_token = (vectors_at_flat(values, flat_indices) for values in (convolved, is_token))
        output = self.convolution_layer_norm(output + convolved, training=training) * is_token
        return (output, probabilities) if return_attention else output

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

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_size": self.kernel_size,
            "convolution_activation": self.convolution_activation,
        }
