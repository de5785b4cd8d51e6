"""Every encoder keeps the contract of `Encoder`."""

import pytest
from encoder_contract import check_encoder
from encoders.test_encoder import small_config
from keras import ops
from numpy_bert import scatter_weights

from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.program.errors import InputError


class DistanceEncoder(BertEncoder):
    """A BERT whose tokens attend less to distant ones: a family with a formula of its own."""

    def block_inputs(self, tokens, kind, query_columns=None, training=False):
        (bias,) = super().block_inputs(tokens, kind, query_columns)
        columns = ops.arange(ops.shape(tokens.ids)[1], dtype="int32")
        queries = ops.expand_dims(columns, 0) if query_columns is None else query_columns
        distances = ops.abs(ops.expand_dims(queries, 2) - columns)
        return (bias - 0.5 * ops.cast(ops.expand_dims(distances, 1), "float32"),)


ENCODERS = {"BertEncoder": BertEncoder, "a family that only has other inputs of blocks": DistanceEncoder}


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_keeps_the_contract(name):
    encoder = ENCODERS[name](small_config())
    scatter_weights(encoder)
    check_encoder(encoder)


def test_an_encoder_that_cannot_take_padding_out_says_so():
    class PaddedEncoder(BertEncoder):
        supports = ()

    encoder = PaddedEncoder(small_config())
    with pytest.raises(InputError, match="PaddedEncoder cannot compute without padding. Set unpadded=False"):
        encoder.unpadded = True
