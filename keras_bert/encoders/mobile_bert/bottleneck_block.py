"""One layer of MobileBERT, and its norm."""

import keras
from keras import ops

from keras_bert.layers.attention import SelfAttention
from keras_bert.layers.bert_layer import BertLayer
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.gathering import vectors_at, vectors_at_flat
from keras_bert.layers.layer_norm import LayerNorm
from keras_bert.layers.transformer_block import TransformerBlock


@keras.saving.register_keras_serializable(package="keras_bert")
class NoNorm(BertLayer):
    """Scales and shifts every vector: `gamma * x + beta`. It needs no mean and no variance.

    Call arguments:
        inputs: float `[..., H]`. The outputs have this shape.
        training: not used; it is there because `LayerNorm` has it.

    Reference: Sun et al., 2020, arXiv 2004.02984, section 3.3.
    """

    compute_output_shape = LayerNorm.compute_output_shape

    def build(self, input_shape):
        self.gamma = self.add_weight(name="gamma", shape=input_shape[-1:], initializer="ones", autocast=False)
        self.beta = self.add_weight(name="beta", shape=input_shape[-1:], initializer="zeros", autocast=False)

    def call(self, inputs, training=False):
        return inputs * ops.cast(self.gamma, inputs.dtype) + ops.cast(self.beta, inputs.dtype)


@keras.saving.register_keras_serializable(package="keras_bert")
class BottleneckBlock(BertLayer):
    """One layer of MobileBERT: self-attention and feed-forward nets on narrow vectors, between two dense layers.

    The norms are `NoNorm` or LayerNorm.

    Args:
        num_heads: number of attention heads.
        bottleneck_size: width C of the vectors inside.
        intermediate_size: width inside of a feed-forward net.
        num_feed_forward: number of feed-forward nets, at least 1; each adds its input to its output.
        shares_bottleneck: whether queries and keys are made from a bottleneck of their own, and values from the inputs.
            Otherwise all are made from the bottleneck that the attention's output is added to.
        normalizes: whether the norms are LayerNorms.
        activation, attention_dropout, layer_norm_epsilon, initializer_range: as for `TransformerBlock`.
        dropout: fraction of the last dense layer's outputs that become 0 in training.

    Call arguments and returns: those of `TransformerBlock`.

    Reference: Sun et al., 2020, arXiv 2004.02984, section 3; transformers, `MobileBertLayer`.
    """

    compute_output_shape = TransformerBlock.compute_output_shape

    def __init__(
        self,
        num_heads,
        bottleneck_size,
        intermediate_size,
        num_feed_forward=4,
        shares_bottleneck=True,
        normalizes=False,
        activation="relu",
        dropout=0.0,
        attention_dropout=0.1,
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.bottleneck_size = bottleneck_size
        self.intermediate_size = intermediate_size
        self.num_feed_forward = num_feed_forward
        self.shares_bottleneck = shares_bottleneck
        self.normalizes = normalizes
        self.activation = activation
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.attention = SelfAttention(
            num_heads, attention_dropout, initializer_range, dtype=self.dtype_policy, name="attention"
        )
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, hidden_shape, *other_shapes):
        self.hidden_size, width = hidden_shape[-1], self.bottleneck_size
        self.input_bottleneck = self._dense("input_bottleneck", self.hidden_size, width)
        self.input_layer_norm = self._norm("input_layer_norm", width)
        if self.shares_bottleneck:
            self.shared_bottleneck = self._dense("shared_bottleneck", self.hidden_size, width)
            self.shared_layer_norm = self._norm("shared_layer_norm", width)
        values = self.hidden_size if self.shares_bottleneck else width
        self.attention.build((None, None, width), value_tokens_shape=(None, None, values))
        self.attention_layer_norm = self._norm("attention_layer_norm", width)
        self.feed_forward = [
            (
                self._dense(f"intermediate_dense_{number}", width, self.intermediate_size, self.activation),
                self._dense(f"output_dense_{number}", self.intermediate_size, width),
                self._norm(f"output_layer_norm_{number}", width),
            )
            for number in range(self.num_feed_forward)
        ]
        self.output_bottleneck = self._dense("output_bottleneck", width, self.hidden_size)
        self.output_bottleneck_layer_norm = self._norm("output_bottleneck_layer_norm", self.hidden_size)

    def _dense(self, name, inputs, units, activation="linear"):
        return self.new_dense(name, units, inputs, activation_name=activation)

    def _norm(self, name, width):
        epsilon = (self.layer_norm_epsilon,) if self.normalizes else ()
        layer = (LayerNorm if self.normalizes else NoNorm)(*epsilon, dtype=self.dtype_policy, name=name)
        layer.build((None, width))
        return layer

    def dense_layers(self) -> dict[str, tuple[keras.layers.Dense, ...]]:
        """Returns {part of the block: its dense layers in the order of computation}."""
        attention = self.attention
        bottlenecks = [self.input_bottleneck, *([self.shared_bottleneck] if self.shares_bottleneck else [])]
        nets = [layer for net in self.feed_forward for layer in net[:2]]
        return {
            "attention": (*bottlenecks, attention.query, attention.key, attention.value, attention.output_dense),
            "feed_forward": (*nets, self.output_bottleneck),
        }

    def call(
        self, hidden, attention_bias, query_columns=None, flat_indices=None, training=False, return_attention=False
    ):
        # B = batch, F = tokens that attend, S = length, H = hidden size, C = bottleneck size
        narrow = self._narrow(self.input_bottleneck, self.input_layer_norm, hidden, training)  # [B, S, C]
        keys, values = narrow, narrow
        if self.shares_bottleneck:
            keys, values = self._narrow(self.shared_bottleneck, self.shared_layer_norm, hidden, training), hidden
        query_tokens = None
        if query_columns is not None:
            hidden, narrow, query_tokens = (vectors_at(vectors, query_columns) for vectors in (hidden, narrow, keys))
        elif flat_indices is not None:
            hidden, narrow = (vectors_at_flat(vectors, flat_indices) for vectors in (hidden, narrow))
        attended = self.attention(
            keys,
            attention_bias,
            training=training,
            return_attention=return_attention,
            query_tokens=query_tokens,
            flat_indices=flat_indices,
            value_tokens=values,
        )
        attended, probabilities = attended if return_attention else (attended, None)
        vectors = self.attention_layer_norm(attended + narrow, training=training)

        # Two dimensions, as in SelfAttention.
        flat = ops.reshape(vectors, (-1, self.bottleneck_size))
        for intermediate_dense, output_dense, layer_norm in self.feed_forward:
            transformed = output_dense(intermediate_dense(flat, training=training), training=training)
            flat = layer_norm(transformed + flat, training=training)
        wide = self.dropout(self.output_bottleneck(flat, training=training), training=training)
        output = self.output_bottleneck_layer_norm(ops.reshape(wide, ops.shape(hidden)) + hidden, training=training)
        return (output, probabilities) if return_attention else output

    def _narrow(self, bottleneck, layer_norm, hidden, training):
        """Returns the vectors `[B, S, C]` behind a bottleneck and its norm."""
        flat = layer_norm(bottleneck(ops.reshape(hidden, (-1, self.hidden_size)), training=training), training=training)
        return ops.reshape(flat, (*ops.shape(hidden)[:2], self.bottleneck_size))
