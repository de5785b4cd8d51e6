"""Multi-head self-attention with rotary positions."""

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_bert.layers.attention import SelfAttention
from keras_bert.layers.blocks import block_attention, neighbouring_blocks
from keras_bert.layers.choosing import formulas_for, layouts_for
from keras_bert.layers.layer_norm import RMSNorm
from keras_bert.layers.numbered_mask import SequenceNumbers
from keras_bert.layers.transformer_block import TransformerBlock


def rotary_frequencies(head_size: int, theta: float, factor: float = 1.0) -> np.ndarray:
    """Returns the angles of position 1, float32 `[D / 2]`: component i is `1 / theta ** (2 i / D)`.

    With a factor f, it is `1 / (f theta) ** (2 i / D) / f ** (2 / D)` (NTK scaling, at every length). They are computed
    in float32 in models of every dtype, as in transformers: models were trained with these rounded angles.

    Reference: Su et al., 2021, arXiv 2104.09864, section 3.3; for f, Alibaba-NLP/new-impl, `modeling.py`.
    """
    exponents = np.arange(0, head_size, 2, dtype="float32") / np.float32(head_size)
    angles = np.float32(1) / np.power(np.float64(theta * factor), exponents.astype("float64")).astype("float32")
    return angles if factor == 1 else (angles / np.float32(factor ** (2 / head_size))).astype("float32")


def rotary_angles(positions, frequencies):
    """Returns the cosines and sines of positions, int `[B, S]` and float32 `[D / 2]` -> float32 `[B, 1, S, D / 2]`."""
    angles = ops.cast(ops.expand_dims(positions, 2), "float32") * frequencies
    return tuple(ops.expand_dims(part, 1) for part in (ops.cos(angles), ops.sin(angles)))


class LocalBias(NamedTuple):
    """The bias of local attention in two forms, for rows whose length is known only when the graph runs."""

    rows: Any  # `[B, 1, S, S]`, for attention between all tokens of a row; not used in long rows
    windows: Any  # `[B, C, 1, b, 3 b]`, see `numbered_mask.window_bias`, for long rows
    is_long: Any  # a bool tensor


@keras.saving.register_keras_serializable(package="keras_bert")
class RotaryAttention(SelfAttention):
    """Multi-head self-attention whose queries and keys are rotated by angles that grow with the position.

    The score of two tokens then depends on the distance between their positions.

    Args:
        num_heads, dropout, initializer_range: as for `SelfAttention`. The heads are those of queries.
        output_range: standard deviation of the initial kernel of the output projection.
        use_bias: whether the dense layers have a bias.
        head_size: D, the width of a head, an even number; None: the width of the inputs divided by `num_heads`.
        key_value_heads: heads of keys and values, each shared by as many heads of queries; None: `num_heads`.
        joined: whether one product makes queries, keys and values.
        scale: the factor of the scores; None: `D ** -0.5`.
        norm_epsilon: for an `RMSNorm` of each head's queries and keys before they are rotated; None: there is none.

    Call arguments:
        hidden: float `[B, S, H]`.
        attention_bias: float `[B, 1, F, S]` or `[B, 1, 1, S]`, see `numbered_mask`; `[B, C, 1, b, 3 b]` for blocks of b
            tokens that attend to their neighbours, see `numbered_mask.window_bias`; a `LocalBias`; `SequenceNumbers`.
        cosines, sines: float `[B, 1, S, D / 2]`, see `rotary_angles`.
        query_columns: int `[B, F]`, the columns of the tokens that attend; by default all do, and F = S.
        flat_indices, training, return_attention, and what is returned: as for `SelfAttention`.

    Reference: Warner et al., 2024, arXiv 2412.13663, section 2.1; Ainslie et al., 2023, arXiv 2305.13245, for shared
    keys and values.
    """

    compute_output_shape = TransformerBlock.compute_output_shape

    def __init__(
        self,
        num_heads,
        dropout=0.0,
        initializer_range=0.02,
        output_range=0.02,
        use_bias=False,
        head_size=None,
        key_value_heads=None,
        joined=True,
        scale=None,
        norm_epsilon=None,
        **kwargs,
    ):
        super().__init__(num_heads, dropout, initializer_range, **kwargs)
        self.output_range = output_range
        self.use_bias = use_bias
        self.key_value_heads = key_value_heads or num_heads
        self.joined = joined
        self.norm_epsilon = norm_epsilon
        self.head_size, self.scale = head_size, scale
        self._arguments = {"head_size": head_size, "key_value_heads": key_value_heads, "scale": scale}
        if norm_epsilon is not None:
            names = ("query_norm", "key_norm")
            self.query_norm, self.key_norm = (
                RMSNorm(norm_epsilon, plus_1=True, dtype=self.dtype_policy, name=name) for name in names
            )

    def build(self, hidden_shape, *other_shapes):
        width = hidden_shape[-1]
        if self._arguments["head_size"] is None:
            self._set_sizes(width)
        else:
            self.hidden_size, self.head_size = width, self._arguments["head_size"]
        self.scale = self._arguments["scale"] or self.head_size**-0.5
        queries, keys = self.num_heads * self.head_size, self.key_value_heads * self.head_size
        if self.joined:
            self.qkv = self.new_dense("qkv", queries + 2 * keys, width, use_bias=self.use_bias)
        else:
            for name, units in (("query", queries), ("key", keys), ("value", keys)):
                setattr(self, name, self.new_dense(name, units, width, use_bias=self.use_bias))
        self.output_dense = self.new_dense("output_dense", width, queries, self.output_range, use_bias=self.use_bias)
        if self.norm_epsilon is not None:
            self.query_norm.build((None, self.head_size))
            self.key_norm.build((None, self.head_size))

    def projections(self) -> tuple[keras.layers.Dense, ...]:
        """Returns the layers that make queries, keys and values: one or three."""
        return (self.qkv,) if self.joined else (self.query, self.key, self.value)

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
        batch_size, _, length, _ = ops.shape(cosines)
        dtype = keras.backend.result_type(self.compute_dtype, "float32")
        turn = (ops.cast(cosines, dtype), ops.cast(sines, dtype))
        query, key, value = self._heads_of(ops.reshape(hidden, (-1, self.hidden_size)), batch_size, length, training)
        if self.norm_epsilon is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        # Scaling the angles of the queries has the effect of scaling the scores.
        query = self._rotated(query, [part * self.scale for part in turn], training)
        key = self._rotated(key, turn, training)
        if self.key_value_heads != self.num_heads:
            key, value = (ops.repeat(part, self.num_heads // self.key_value_heads, axis=1) for part in (key, value))
        num_queries = length
        if query_columns is not None:
            num_queries = ops.shape(query_columns)[1]
            query = ops.take_along_axis(query, ops.expand_dims(query_columns, (1, 3)), axis=2)
        sizes = (batch_size, self.num_heads, num_queries, length)
        gathered, probabilities = self._attend_in(query, key, value, attention_bias, sizes, training, return_attention)
        shape = (batch_size, num_queries, self.hidden_size)
        output = self._project(gathered, sizes, shape, flat_indices, training)
        return (output, probabilities) if return_attention else output

    def _attend_in(self, query, key, value, bias, sizes, training, return_attention):
        """As `_attend`, with each form of the bias."""

        def in_windows(windows):
            return self._attend_windows(query, key, value, windows, sizes, training)

        def in_rows(rows):
            return self._attend(query, key, value, rows, sizes, training, return_attention)

        if isinstance(bias, LocalBias):
            found = ops.cond(bias.is_long, lambda: in_windows(bias.windows), lambda: in_rows(bias.rows)[0])
            return found, None
        is_windows = not isinstance(bias, SequenceNumbers) and len(bias.shape) == 5
        return (in_windows(bias), None) if is_windows else in_rows(bias)

    def _attend_windows(self, query, key, value, bias, sizes, training):
        batch_size, num_heads, length, _ = sizes
        _, num_blocks, _, block_size, _ = ops.shape(bias)
        swap = layouts_for(training).swap_middle_axes

        def split(vectors):
            """`[B, N, S, D]` -> `[B, C, N, b, D]`"""
            padded = ops.pad(vectors, [[0, 0], [0, 0], [0, num_blocks * block_size - length], [0, 0]])
            flat = ops.reshape(padded, (batch_size, num_heads, num_blocks, block_size * self.head_size))
            flat = swap(flat, (batch_size, num_heads, num_blocks))
            return ops.reshape(flat, (batch_size, num_blocks, num_heads, block_size, self.head_size))

        def attention(*flat):
            sizes = (batch_size * num_blocks, num_heads, block_size, 3 * block_size)
            return self._attend(*flat, sizes, training, False)[0]

        query, key, value = map(split, (query, key, value))
        found = block_attention(query, neighbouring_blocks(key), neighbouring_blocks(value), bias, attention)
        found = ops.reshape(found, (batch_size, num_blocks, num_heads, block_size * self.head_size))
        found = swap(found, (batch_size, num_blocks, num_heads))
        return ops.reshape(found, (batch_size, num_heads, num_blocks * block_size, self.head_size))[:, :, :length]

    def _heads_of(self, flat, batch_size, length, training):
        """Returns queries `[B, N, S, D]`, keys and values: `[B * S, H]` -> three tensors."""
        numbers, sizes = (self.num_heads, self.key_value_heads, self.key_value_heads), (batch_size, length, training)
        if not self.joined:
            layers = zip(self.projections(), numbers, strict=True)
            return [self._split(dense(flat), *sizes, number) for dense, number in layers]
        heads = self._split(self.qkv(flat), *sizes, sum(numbers))
        return ops.split(heads, [self.num_heads, self.num_heads + self.key_value_heads], axis=1)

    def _rotated(self, vectors, turn, training):
        rotated = formulas_for(training).rotate(ops.cast(vectors, turn[0].dtype), *turn)
        return ops.cast(rotated, self.compute_dtype)

    def get_config(self):
        # Their attributes have the numbers that None stands for.
        return {**super().get_config(), **self._arguments}
