"""`MPNetEncoder`: MPNet, whose layers share a bias for the distance of two tokens."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.encoders.mpnet.entry import NUM_BUCKETS
from keras_bert.layers.bert_layer import BertLayer
from keras_bert.layers.relative_attention import shift_to_keys
from keras_bert.layers.transformer_block import TransformerBlock
from keras_bert.models.encoder_base import PACKING, POOLED_OUTPUT, UNPADDING, Tokens

# Half of the buckets are for keys after the query. Of each half, the first ones have a single distance, and the others
# get wider in equal steps of the logarithm, up to the distance 128.
_EACH_WAY = NUM_BUCKETS // 2
_SINGLE = _EACH_WAY // 2
_WIDER = _EACH_WAY - _SINGLE
# The smallest distances of the wider buckets after the first one: 12, 16, 23, 32, 46, 64, 91.
FIRST_DISTANCES = tuple(int(np.ceil(_SINGLE * 16 ** (number / _WIDER) - 1e-9)) for number in range(1, _WIDER))


@keras.saving.register_keras_serializable(package="keras_bert")
class DistanceBias(BertLayer):
    """What the distance of two tokens adds to their attention scores, for each head: a table of buckets of distances.

    Ids, int `[B, S]` -> float `[1, N, S, S]`: heads, query, key. Only the length S matters.

    Reference: Raffel et al., 2019, arXiv 1910.10683, section 2.1; microsoft/MPNet `rel_multihead_attention.py`.
    """

    def __init__(self, num_heads: int, initializer_range: float = 0.02, **kwargs: Any):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.initializer_range = initializer_range

    def build(self, input_shape: Any = None) -> None:
        self.table = self.new_weight("table", (NUM_BUCKETS, self.num_heads))

    def call(self, ids: Any) -> Any:
        length = ops.shape(ids)[1]
        # All distances first: only these 2 S rows are looked up, and the scores of a query are a part of them.
        distances = ops.arange(2 * length, dtype="int32") - length
        of_distances = ops.take(ops.convert_to_tensor(self.table), buckets_of(distances), axis=0)  # [2 S, N]
        rows = ops.expand_dims(ops.transpose(of_distances), (0, 2))  # [1, N, 1, 2 S]
        return shift_to_keys(ops.broadcast_to(rows, (1, self.num_heads, length, 2 * length)), length)


def buckets_of(distances: Any) -> Any:
    """Returns the buckets of distances, the column of the key minus that of the query: int32 `[...]` -> int32 `[...]`.

    Example:
        [-100, -12, -8, -1, 0, 1, 7, 8, 12, 100] -> [15, 9, 8, 1, 0, 17, 23, 24, 25, 31]
    """
    sizes = ops.abs(distances)
    wider = ops.expand_dims(sizes, -1) >= ops.convert_to_tensor(np.array(FIRST_DISTANCES, "int32"))
    buckets = ops.minimum(sizes, _SINGLE) + ops.sum(ops.cast(wider, "int32"), axis=-1)
    return buckets + _EACH_WAY * ops.cast(distances > 0, "int32")


@keras.saving.register_keras_serializable(package="keras_bert")
class MPNetBlock(TransformerBlock):
    """A `TransformerBlock` that adds a bias to the attention scores.

    Call arguments:
        distance_bias: float `[1, N, F, S]` or `[B, N, F, S]`. It gets a gradient.
        others: as for `TransformerBlock`.
    """

    def __init__(self, *sizes, **kwargs):
        super().__init__(*sizes, **kwargs)
        self.attention.learns_bias = True

    def call(
        self,
        hidden,
        attention_bias,
        distance_bias,
        query_columns=None,
        flat_indices=None,
        training=False,
        return_attention=False,
    ):
        bias = ops.stop_gradient(attention_bias) + distance_bias
        return super().call(hidden, bias, query_columns, flat_indices, training, return_attention)


@keras.saving.register_keras_serializable(package="keras_bert")
class MPNetEncoder(BertEncoder):
    """The encoder of MPNet: a `BertEncoder` that adds a bias for the distance of two tokens to all scores.

    Its arguments, inputs and outputs are those of `BertEncoder`. Distances are counted in columns, so padding on either
    side does not change answers.

    Reference: Song et al., 2020, arXiv 2004.09297.
    """

    # The scores of the layers are without their bias, so a `Distiller` cannot compare them.
    supports = (PACKING, UNPADDING, POOLED_OUTPUT)
    block_class = MPNetBlock

    def build(self, input_shape: Any = None) -> None:
        sizes = self.config.num_attention_heads, self.config.initializer_range
        self.distance_bias = DistanceBias(*sizes, dtype=self.dtype_policy, name="distance_bias")
        self.distance_bias.build()
        super().build(input_shape)

    def block_inputs(self, tokens: Tokens, kind: Any, query_columns: Any = None, training: bool = False) -> tuple:
        (bias,) = super().block_inputs(tokens, kind, query_columns)
        distances = self.distance_bias(tokens.ids)
        if query_columns is not None:
            distances = ops.transpose(ops.take(distances[0], query_columns, axis=1), (1, 0, 2, 3))  # [B, N, F, S]
        return bias, distances
