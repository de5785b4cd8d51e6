"""`DistanceEncoder`: the encoder of the family."""

import keras
from keras import ops

from keras_bert.encoders.bert.encoder import BertEncoder
from toys.distance.layer import SharpBlock

PENALTY = 0.1  # for each token of distance


@keras.saving.register_keras_serializable("toys")
class DistanceEncoder(BertEncoder):
    """A `BertEncoder` that subtracts from the scores of two tokens `PENALTY` times their distance."""

    block_class = SharpBlock

    def block_inputs(self, tokens, kind, query_columns=None, training=False):
        (bias,) = super().block_inputs(tokens, kind, query_columns)
        positions = tokens.positions  # [B, S]
        queries = positions if query_columns is None else ops.take_along_axis(positions, query_columns, axis=1)
        distances = ops.abs(ops.expand_dims(queries, 2) - ops.expand_dims(positions, 1))
        distances = ops.cast(ops.minimum(distances, self.config.furthest), bias.dtype)
        return (bias - PENALTY * ops.expand_dims(distances, 1),)  # [B, 1, F, S]
