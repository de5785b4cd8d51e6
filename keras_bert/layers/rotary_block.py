"""One layer of ModernBERT."""

import keras
from keras import ops

from keras_bert.layers.activations import hidden_activation
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.gathering import vectors_at, vectors_at_flat
from keras_bert.layers.layer_norm import LayerNorm
from keras_bert.layers.rotary_attention import RotaryAttention


@keras.saving.register_keras_serializable(package="keras_bert")
class RotaryBlock(keras.layers.Layer):
    """One layer of ModernBERT: self-attention, then a gated feed-forward part.

    Each part gets normalised vectors, and its output is added to the vectors that were not normalised. The feed-forward
    part is `output_dense(activation(a) * b)`, where a and b are the two halves of one dense layer's output.

    Args:
        num_heads: number of attention heads.
        intermediate_size: width of a and of b.
        activation: name of the function, as in `BertConfig.hidden_act`.
        attention_dropout: fraction of the attention probabilities, and of the attention's outputs, that become 0 in
            training.
        feed_forward_dropout: the same for the inputs of `output_dense`.
        layer_norm_epsilon: added to the variance in LayerNorm.
        initializer_range: standard deviation of the initial kernels.
        output_range: the same for the kernels of the two output projections.
        normalizes_input: whether a LayerNorm precedes the attention. The first block has none: its inputs are
            normalised.
        attention_bias, feed_forward_bias, norm_bias: whether the dense layers of the attention and of the feed-forward
            part, and the LayerNorms, have a bias.

    Call arguments:
        hidden: float `[B, S, H]`.
        attention_bias: float `[B, 1, F, S]` or `[B, 1, 1, S]`, see `numbered_mask`.
        cosines, sines: float `[B, 1, S, D / 2]`, see `rotary_angles`.
        query_columns, flat_indices, training, return_attention: as in `TransformerBlock`.

    Returns:
        as `TransformerBlock`.

    Reference: Warner et al., 2024, arXiv 2412.13663, section 2.1; Shazeer, 2020, arXiv 2002.05202, for the gate.
    """

    def __init__(
        self,
        num_heads,
        intermediate_size,
        activation="gelu_erf",
        attention_dropout=0.0,
        feed_forward_dropout=0.0,
        layer_norm_epsilon=1e-5,
        initializer_range=0.02,
        output_range=0.02,
        normalizes_input=True,
        attention_bias=False,
        feed_forward_bias=False,
        norm_bias=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.intermediate_size = intermediate_size
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.output_range = output_range
        self.normalizes_input = normalizes_input
        self.attention_bias = attention_bias
        self.feed_forward_bias = feed_forward_bias
        self.norm_bias = norm_bias
        if normalizes_input:
            self.attention_layer_norm = self._layer_norm("attention_layer_norm")
        self.attention = RotaryAttention(
            num_heads,
            attention_dropout,
            initializer_range,
            output_range,
            use_bias=attention_bias,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.dropout = Dropout(attention_dropout, dtype=self.dtype_policy, name="dropout")
        self.feed_forward_layer_norm = self._layer_norm("feed_forward_layer_norm")
        self.intermediate_dense = self._dense(2 * intermediate_size, initializer_range, "intermediate_dense")
        self.feed_forward_dropout = Dropout(feed_forward_dropout, dtype=self.dtype_policy, name="feed_forward_dropout")
        self._activate = hidden_activation(activation)

    def _layer_norm(self, name):
        return LayerNorm(self.layer_norm_epsilon, self.norm_bias, dtype=self.dtype_policy, name=name)

    def _dense(self, units, deviation, name):
        return keras.layers.Dense(
            units,
            use_bias=self.feed_forward_bias,
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=deviation),
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, hidden_shape, *other_shapes):
        self.hidden_size = hidden_shape[-1]
        self.output_dense = self._dense(self.hidden_size, self.output_range, "output_dense")
        if self.normalizes_input:
            self.attention_layer_norm.build((None, self.hidden_size))
        self.attention.build(hidden_shape)
        self.feed_forward_layer_norm.build((None, self.hidden_size))
        self.intermediate_dense.build((None, self.hidden_size))
        self.output_dense.build((None, self.intermediate_size))

    def dense_layers(self) -> dict[str, tuple[keras.layers.Dense, ...]]:
        """Returns {part of the block: its dense layers in the order of computation}."""
        return {
            "attention": (self.attention.qkv, self.attention.output_dense),
            "feed_forward": (self.intermediate_dense, self.output_dense),
        }

    def call(
        self,
        hidden,
        attention_bias,
        cosines,
        sines,
        query_columns=None,
        flat_indices=None,
        training=False,
        return_attention=False,
    ):
        attended = self.attention(
            self.attention_layer_norm(hidden, training=training) if self.normalizes_input else hidden,
            attention_bias,
            cosines,
            sines,
            query_columns=query_columns,
            flat_indices=flat_indices,
            training=training,
            return_attention=return_attention,
        )
        attended, probabilities = attended if return_attention else (attended, None)
        vectors = hidden
        if query_columns is not None:
            vectors = vectors_at(hidden, query_columns)
        elif flat_indices is not None:
            vectors = vectors_at_flat(hidden, flat_indices)
        vectors = vectors + self.dropout(attended, training=training)
        output = vectors + self._feed_forward(self.feed_forward_layer_norm(vectors, training=training), training)
        return (output, probabilities) if return_attention else output

    def _feed_forward(self, vectors, training):
        # Two dimensions, as in SelfAttention.
        values, gate = ops.split(self.intermediate_dense(ops.reshape(vectors, (-1, self.hidden_size))), 2, axis=-1)
        gated = self.feed_forward_dropout(self._activate(values, training) * gate, training=training)
        return ops.reshape(self.output_dense(gated), ops.shape(vectors))

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
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "intermediate_size": self.intermediate_size,
            "activation": self.activation,
            "attention_dropout": self.attention.dropout.rate,
            "feed_forward_dropout": self.feed_forward_dropout.rate,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
            "output_range": self.output_range,
            "normalizes_input": self.normalizes_input,
            "attention_bias": self.attention_bias,
            "feed_forward_bias": self.feed_forward_bias,
            "norm_bias": self.norm_bias,
        }
