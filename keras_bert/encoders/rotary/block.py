"""One layer of an encoder with rotary positions."""

import keras
from keras import ops

from keras_bert.encoders.rotary.attention import RotaryAttention
from keras_bert.encoders.rotary.config import AFTER, AROUND, BEFORE, LAYER_NORM, RMS_NORM_PLUS_1
from keras_bert.layers.activations import hidden_activation
from keras_bert.layers.bert_layer import BertLayer
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.gathering import vectors_at, vectors_at_flat
from keras_bert.layers.layer_norm import LayerNorm, RMSNorm
from keras_bert.layers.transformer_block import TransformerBlock


@keras.saving.register_keras_serializable(package="keras_bert")
class RotaryBlock(BertLayer):
    """One layer of an encoder with rotary positions: self-attention, then a feed-forward part.

    The output of each part is added to its input. A norm precedes each part, or follows each sum, or precedes each part
    and follows it before the sum. The feed-forward part is `output_dense(activation(a) * b)` if it is gated, otherwise
    `output_dense(activation(a))`.

    Args:
        num_heads, activation, initializer_range: as for `TransformerBlock`.
        intermediate_size: width of a and of b.
        attention_dropout: fraction of the attention probabilities, and of the attention's outputs, that become 0 in
            training.
        feed_forward_dropout: the same for the inputs of `output_dense`.
        layer_norm_epsilon: added to the variance in LayerNorm, and to the mean square in RMSNorm.
        output_range: as `initializer_range`, for the kernels of the two output projections.
        normalizes_input: whether a norm precedes the attention. With norms before the parts, the first block may have
            none.
        attention_bias, feed_forward_bias, norm_bias: whether the dense layers of the attention and of the feed-forward
            part, and the LayerNorms, have a bias.
        output_bias: whether `output_dense` has a bias; None: as `feed_forward_bias`.
        norm, norm_place, gated: see `RotaryConfig`.
        joined: whether one product makes a and b.
        output_dropout: fraction of the outputs of both parts that become 0 in training; None: `attention_dropout` for
            the attention, and 0 for the feed-forward part.
        attention: further arguments of `RotaryAttention`.

    Call arguments:
        hidden: float `[B, S, H]`.
        attention_bias: float `[B, 1, F, S]` or `[B, 1, 1, S]`, see `numbered_mask`.
        cosines, sines: float `[B, 1, S, D / 2]`, see `rotary_angles`.
        query_columns, flat_indices, training, return_attention, and what is returned: as for `TransformerBlock`.

    Reference: Warner et al., 2024, arXiv 2412.13663, section 2.1; Shazeer, 2020, arXiv 2002.05202, for the gate.
    """

    not_in_config = ("attention", "output_dropout")  # the layers have these names
    compute_output_shape = TransformerBlock.compute_output_shape

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
        output_bias=None,
        norm=LAYER_NORM,
        norm_place=BEFORE,
        gated=True,
        joined=True,
        output_dropout=None,
        attention=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads, self.intermediate_size, self.activation = num_heads, intermediate_size, activation
        self.attention_dropout, self.layer_norm_epsilon = attention_dropout, layer_norm_epsilon
        self.initializer_range, self.output_range = initializer_range, output_range
        self.attention_bias, self.feed_forward_bias, self.norm_bias = attention_bias, feed_forward_bias, norm_bias
        self.output_bias, self.norm = output_bias, norm
        self.normalizes_input, self.norm_place, self.gated, self.joined = normalizes_input, norm_place, gated, joined
        self._in_config = {"attention": attention, "output_dropout": output_dropout}
        if normalizes_input:
            self.attention_layer_norm = self._new_norm("attention_layer_norm")
        self.attention = RotaryAttention(
            num_heads,
            attention_dropout,
            initializer_range,
            output_range,
            use_bias=attention_bias,
            **attention or {},
            dtype=self.dtype_policy,
            name="attention",
        )
        self.dropout = self._dropout(attention_dropout if output_dropout is None else output_dropout, "dropout")
        self.feed_forward_layer_norm = self._new_norm("feed_forward_layer_norm")
        if norm_place == AROUND:
            self.attention_output_norm = self._new_norm("attention_output_norm")
            self.feed_forward_output_norm = self._new_norm("feed_forward_output_norm")
        width = 2 * intermediate_size if gated and joined else intermediate_size
        self.intermediate_dense = self.new_dense("intermediate_dense", width, use_bias=feed_forward_bias)
        if gated and not joined:
            self.factor_dense = self.new_dense("factor_dense", width, use_bias=feed_forward_bias)
        self.feed_forward_dropout = self._dropout(feed_forward_dropout, "feed_forward_dropout")
        self.output_dropout = self._dropout(output_dropout or 0.0, "output_dropout")
        self._activate = hidden_activation(activation)

    def _dropout(self, rate, name):
        return Dropout(rate, dtype=self.dtype_policy, name=name)

    def _new_norm(self, name):
        return new_norm(self.norm, self.layer_norm_epsilon, self.norm_bias, dtype=self.dtype_policy, name=name)

    def build(self, hidden_shape, *other_shapes):
        self.hidden_size = hidden_shape[-1]
        use_bias = self.feed_forward_bias if self.output_bias is None else self.output_bias
        self.output_dense = self.new_dense(
            "output_dense", self.hidden_size, initializer_range=self.output_range, use_bias=use_bias
        )
        self.attention.build(hidden_shape)
        for layer in (*self.norms(), *self.dense_layers()["feed_forward"][:-1]):
            layer.build((None, self.hidden_size))
        self.output_dense.build((None, self.intermediate_size))

    def norms(self) -> list:
        """Returns the norms in the order of computation."""
        names = ("attention_layer_norm", "attention_output_norm", "feed_forward_layer_norm", "feed_forward_output_norm")
        return [getattr(self, name) for name in names if hasattr(self, name)]

    def dense_layers(self) -> dict[str, tuple[keras.layers.Dense, ...]]:
        """Returns {part of the block: its dense layers in the order of computation}."""
        factor = (self.factor_dense,) if self.gated and not self.joined else ()
        return {
            "attention": (*self.attention.projections(), self.attention.output_dense),
            "feed_forward": (self.intermediate_dense, *factor, self.output_dense),
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
        has_norm = self.normalizes_input and self.norm_place != AFTER
        attended = self.attention(
            self.attention_layer_norm(hidden, training=training) if has_norm else hidden,
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
        if self.norm_place == AROUND:
            attended = self.attention_output_norm(attended, training=training)
        vectors = vectors + self.dropout(attended, training=training)
        if self.norm_place == AFTER:
            vectors = self.attention_layer_norm(vectors, training=training)
        output = self.feed_forward(vectors, training)
        return (output, probabilities) if return_attention else output

    def feed_forward(self, vectors, training=False):
        """Returns the output of the block for the vectors after the attention: `[..., H]` -> `[..., H]`."""
        norm = self.feed_forward_layer_norm
        normal = vectors if self.norm_place == AFTER else norm(vectors, training=training)
        # Two dimensions, as in SelfAttention.
        inner = self._inner(ops.reshape(normal, (-1, self.hidden_size)), training)
        output = self.output_dense(self.feed_forward_dropout(inner, training=training))
        output = ops.reshape(output, ops.shape(vectors))
        if self.norm_place == AROUND:
            output = self.feed_forward_output_norm(output, training=training)
        total = vectors + self.output_dropout(output, training=training)
        return norm(total, training=training) if self.norm_place == AFTER else total

    def _inner(self, flat, training):
        """Returns the inputs of `output_dense`: `[T, H]` -> `[T, intermediate_size]`."""
        values = self.intermediate_dense(flat)
        if not self.gated:
            return self._activate(values, training)
        values, factor = ops.split(values, 2, axis=-1) if self.joined else (values, self.factor_dense(flat))
        return self._activate(values, training) * factor

    def get_config(self):
        return {**super().get_config(), **self._in_config}


def new_norm(kind, epsilon, use_bias, **arguments):
    """Returns the norm of a kind of `RotaryConfig.norm`. Only a LayerNorm may have a bias."""
    if kind == LAYER_NORM:
        return LayerNorm(epsilon, use_bias, **arguments)
    return RMSNorm(epsilon, kind == RMS_NORM_PLUS_1, **arguments)
