"""One layer of an encoder with rotary positions."""

import keras
from keras import ops

from keras_bert.encoders.rotary.attention import RotaryAttention
from keras_bert.encoders.rotary.config import AFTER, AROUND, BEFORE, LAYER_NORM, RMS_NORM_PLUS_1
from keras_bert.layers.activations import hidden_activation
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.gathering import vectors_at, vectors_at_flat
from keras_bert.layers.layer_norm import LayerNorm, RMSNorm
from keras_bert.layers.transformer_block import TransformerBlock


@keras.saving.register_keras_serializable(package="keras_bert")
class RotaryBlock(keras.layers.Layer):
    """One layer of an encoder with rotary positions: self-attention, then a feed-forward part.

    The output of each part is added to its input. A norm precedes each part, or follows each sum, or precedes each part
    and follows it before the sum. The feed-forward part is `output_dense(activation(a) * b)` if it is gated, otherwise
    `output_dense(activation(a))`.

    Args:
        num_heads: number of attention heads.
        intermediate_size: width of a and of b.
        activation: name of the function, as in `BertConfig.hidden_act`.
        attention_dropout: fraction of the attention probabilities, and of the attention's outputs, that become 0 in
            training.
        feed_forward_dropout: the same for the inputs of `output_dense`.
        layer_norm_epsilon: added to the variance in LayerNorm, and to the mean square in RMSNorm.
        initializer_range: standard deviation of the initial kernels.
        output_range: the same for the kernels of the two output projections.
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
        query_columns, flat_indices, training, return_attention: as in `TransformerBlock`.

    Returns:
        as `TransformerBlock`.

    Reference: Warner et al., 2024, arXiv 2412.13663, section 2.1; Shazeer, 2020, arXiv 2002.05202, for the gate.
    """

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
        self.activation, self.intermediate_size = activation, intermediate_size
        self.normalizes_input, self.norm_place, self.gated, self.joined = normalizes_input, norm_place, gated, joined
        self._config = {
            "num_heads": num_heads,
            "intermediate_size": intermediate_size,
            "activation": activation,
            "attention_dropout": attention_dropout,
            "feed_forward_dropout": feed_forward_dropout,
            "layer_norm_epsilon": layer_norm_epsilon,
            "initializer_range": initializer_range,
            "output_range": output_range,
            "normalizes_input": normalizes_input,
            "attention_bias": attention_bias,
            "feed_forward_bias": feed_forward_bias,
            "norm_bias": norm_bias,
            "output_bias": output_bias,
            "norm": norm,
            "norm_place": norm_place,
            "gated": gated,
            "joined": joined,
            "output_dropout": output_dropout,
            "attention": attention,
        }
        self._make_layers(self._config)

    def _make_layers(self, config):
        if self.normalizes_input:
            self.attention_layer_norm = self._new_norm("attention_layer_norm")
        self.attention = RotaryAttention(
            config["num_heads"],
            config["attention_dropout"],
            config["initializer_range"],
            config["output_range"],
            use_bias=config["attention_bias"],
            **config["attention"] or {},
            dtype=self.dtype_policy,
            name="attention",
        )
        output_rate = config["output_dropout"]
        self.dropout = self._dropout(config["attention_dropout"] if output_rate is None else output_rate, "dropout")
        self.feed_forward_layer_norm = self._new_norm("feed_forward_layer_norm")
        if self.norm_place == AROUND:
            self.attention_output_norm = self._new_norm("attention_output_norm")
            self.feed_forward_output_norm = self._new_norm("feed_forward_output_norm")
        width, has_bias = config["intermediate_size"], config["feed_forward_bias"]
        width = 2 * width if self.gated and self.joined else width
        self.intermediate_dense = self._dense(width, config["initializer_range"], "intermediate_dense", has_bias)
        if self.gated and not self.joined:
            self.factor_dense = self._dense(width, config["initializer_range"], "factor_dense", has_bias)
        self.feed_forward_dropout = self._dropout(config["feed_forward_dropout"], "feed_forward_dropout")
        self.output_dropout = self._dropout(output_rate or 0.0, "output_dropout")
        self._activate = hidden_activation(self.activation)

    def _dropout(self, rate, name):
        return Dropout(rate, dtype=self.dtype_policy, name=name)

    def _new_norm(self, name):
        kind, epsilon = self._config["norm"], self._config["layer_norm_epsilon"]
        if kind == LAYER_NORM:
            return LayerNorm(epsilon, self._config["norm_bias"], dtype=self.dtype_policy, name=name)
        return RMSNorm(epsilon, kind == RMS_NORM_PLUS_1, dtype=self.dtype_policy, name=name)

    def _dense(self, units, deviation, name, use_bias):
        initializer = keras.initializers.TruncatedNormal(stddev=deviation)
        return keras.layers.Dense(
            units, use_bias=use_bias, kernel_initializer=initializer, dtype=self.dtype_policy, name=name
        )

    def build(self, hidden_shape, *other_shapes):
        self.hidden_size = hidden_shape[-1]
        use_bias = self._config["output_bias"]
        use_bias = self._config["feed_forward_bias"] if use_bias is None else use_bias
        self.output_dense = self._dense(self.hidden_size, self._config["output_range"], "output_dense", use_bias)
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
        return {**super().get_config(), **self._config}
