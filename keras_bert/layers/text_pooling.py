"""Pooling: the vectors of a text's tokens -> one vector for the text."""

from collections.abc import Mapping, Sequence

import keras
from keras import ops

from keras_bert.layers.activations import ActivatedDense
from keras_bert.program.errors import InputError

# Limits: a config from a stranger must not make the program allocate any amount of memory.
_MOST_DENSE_LAYERS, _MOST_UNITS = 8, 16_384
_HIDDEN = -1e9  # replaces the vectors of padding before a maximum is taken


def pool_tokens(hidden, mask, poolings: Sequence[str]):
    """Pools the vectors of each row. Several poolings are joined in the given order.

    Args:
        hidden: float `[B, S, H]`, a vector for each token. Padding is on the right.
        mask: int `[B, S]`, above 0 for tokens and 0 for padding.
        poolings: one or more of:

            cls                   the vector of the first token
            max                   the largest value of each component
            mean                  the mean of all tokens, [CLS] and [SEP] included
            mean_sqrt_len_tokens  their sum, divided by the square root of their number
            weightedmean          their mean, weighted with their positions 1, 2, 3, ...
            lasttoken             the vector of the last token

    Returns:
        float `[B, H * number of poolings]`.

    Reference: sentence-transformers, `Pooling`.
    """
    # `expand_dims`, since LiteRT has no slices that add an axis to a tensor of unknown shape.
    mask = ops.expand_dims(ops.cast(mask > 0, hidden.dtype), 2)  # [B, S, 1]
    pooled = [_POOL[name](hidden, mask) for name in poolings]
    return pooled[0] if len(pooled) == 1 else ops.concatenate(pooled, axis=-1)


def _maximum(hidden, mask):
    return ops.max(ops.where(mask > 0, hidden, ops.cast(_HIDDEN, hidden.dtype)), axis=1)


def _last(hidden, mask):
    last = ops.expand_dims(ops.cast(_count(mask), "int32"), 2) - 1
    return ops.take_along_axis(hidden, last, axis=1)[:, 0]


def _position_weighted_mean(hidden, mask):
    weights = mask * ops.expand_dims(ops.cast(ops.arange(1, ops.shape(hidden)[1] + 1), hidden.dtype), 1)
    return ops.sum(hidden * weights, axis=1) / ops.maximum(ops.sum(weights, axis=1), 1)


def _count(mask):
    """Returns the number of tokens of each row, `[B, 1]`; 1 for a row without tokens."""
    return ops.maximum(ops.sum(mask, axis=1), 1)


# The names of `config.POOLINGS`, in that order -> function of hidden and mask, `[B, S, 1]`.
_POOL = {
    "cls": lambda hidden, mask: hidden[:, 0],
    "max": _maximum,
    "mean": lambda hidden, mask: ops.sum(hidden * mask, axis=1) / _count(mask),
    "mean_sqrt_len_tokens": lambda hidden, mask: ops.sum(hidden * mask, axis=1) / ops.sqrt(_count(mask)),
    "weightedmean": _position_weighted_mean,
    "lasttoken": _last,
}


def unit_length(vectors):
    """Divides vectors `[..., D]` by their lengths. A vector of zeros stays one."""
    squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    return vectors * ops.rsqrt(ops.maximum(squares, 1e-24))


@keras.saving.register_keras_serializable(package="keras_bert")
class ResidualDense(ActivatedDense):
    """An `ActivatedDense` that adds its inputs to its outputs, through a matrix `residual` if the widths differ.

    Arguments, call arguments and outputs are those of `ActivatedDense`.

    Reference: sentence-transformers, `Dense` with `use_residual`.
    """

    def build(self, input_shape):
        super().build(input_shape)
        width, self.residual = input_shape[-1], None
        if width != self.units:
            self.residual = self.add_weight(name="residual", shape=(width, self.units), initializer="glorot_uniform")

    def call(self, inputs, training=None):
        shortcut = inputs if self.residual is None else ops.matmul(inputs, self.residual)
        return super().call(inputs, training=training) + shortcut

    def save_own_variables(self, store):
        super().save_own_variables(store)  # Keras writes only what it knows: kernel and bias
        if self.residual is not None:
            store["residual"] = self.residual

    def load_own_variables(self, store):
        super().load_own_variables(store)
        if self.residual is not None:
            self.residual.assign(store["residual"])


@keras.saving.register_keras_serializable(package="keras_bert")
class TextPooling(keras.layers.Layer):
    """Pools the vectors of tokens, applies dense layers, and divides the result by its length.

    Args:
        pooling: one or more of `config.POOLINGS`, see `pool_tokens`.
        dense: the dense layers: mappings with `units`, and if required `activation` (a hidden activation, by default
            `tanh`), `use_bias` (by default true) and `use_residual` (by default false, see `ResidualDense`).
        normalize: whether vectors get length 1.

    Call arguments:
        hidden: float `[B, S, H]`.
        mask: int `[B, S]`, above 0 for tokens.

    Returns:
        `[B, D]` in the layer's dtype.

    Raises:
        InputError: a pooling or an activation is unknown, or a number is out of range.
    """

    def __init__(
        self, pooling: Sequence[str] | str = ("mean",), dense: Sequence[Mapping] = (), normalize: bool = True, **kwargs
    ):
        super().__init__(**kwargs)
        self.pooling = (pooling,) if isinstance(pooling, str) else tuple(pooling)
        self.dense = tuple({"activation": "tanh", "use_bias": True, **settings} for settings in dense)
        self.normalize = bool(normalize)
        self._check_arguments()
        self.dense_layers = [
            (ResidualDense if settings.get("use_residual") else ActivatedDense)(
                settings["units"],
                settings["activation"],
                use_bias=settings["use_bias"],
                dtype=self.dtype_policy,
                name=f"dense_{number}",
            )
            for number, settings in enumerate(self.dense)
        ]

    def build(self, hidden_shape, mask_shape=None):
        width = hidden_shape[-1] * len(self.pooling)
        for layer in self.dense_layers:
            layer.build((None, width))
            width = layer.units
        self.built = True

    def output_size(self, hidden_size: int) -> int:
        """Returns the length D of the vectors of an encoder of this width."""
        return self.dense_layers[-1].units if self.dense_layers else hidden_size * len(self.pooling)

    def call(self, hidden, mask, training=None):
        return self.finish(pool_tokens(hidden, mask, self.pooling), training=training)

    def finish(self, vectors, training=False):
        """Applies the dense layers to pooled vectors `[B, H * number of poolings]`, and divides by the length."""
        for layer in self.dense_layers:
            vectors = layer(vectors, training=training)
        return unit_length(vectors) if self.normalize else vectors

    def text_vectors(self, encoder, inputs, training=False):
        """Returns the vectors `[B, D]` of rows of tokens, whose features, int `[B, S]`, the encoder reads."""
        mask = inputs["input_mask"]
        if self.pooling != ("cls",):
            hidden = encoder(inputs, training=training)["sequence_output"]
            return self(hidden, encoder.pooled_tokens(mask), training=training)
        first = ops.zeros_like(mask[:, :1])  # the last block runs for this column only
        hidden = encoder.vectors_at(inputs, first, training=training)["sequence_output"]
        return self(hidden, ops.ones_like(first), training=training)

    def _check_arguments(self) -> None:
        if not self.pooling or len(set(self.pooling)) < len(self.pooling) or set(self.pooling) - set(_POOL):
            raise InputError(f"pooling must be one or more of {', '.join(_POOL)}. Received: {list(self.pooling)}")
        if len(self.dense) > _MOST_DENSE_LAYERS:
            raise InputError(f"At most {_MOST_DENSE_LAYERS} dense layers are possible. Received: {len(self.dense)}")
        for settings in self.dense:
            units, unknown = settings.get("units"), set(settings) - {"units", "activation", "use_bias", "use_residual"}
            if not isinstance(units, int) or isinstance(units, bool) or not 1 <= units <= _MOST_UNITS or unknown:
                raise InputError(
                    f"A dense layer has units (1 to {_MOST_UNITS:,}), and if required activation, use_bias and "
                    f"use_residual. Received: {settings}"
                )

    def get_config(self):
        dense = [dict(settings) for settings in self.dense]
        return {**super().get_config(), "pooling": list(self.pooling), "dense": dense, "normalize": self.normalize}
