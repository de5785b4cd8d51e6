"""Every encoder keeps the contract of `Encoder`."""

import pytest
from encoder_contract import check_encoder
from numpy_bert import scatter_weights
from test_encoder import small_config

from keras_bert.models.encoder import BertEncoder
from keras_bert.models.encoder_base import Encoder
from keras_bert.program.errors import InputError

ENCODERS = {"BertEncoder": BertEncoder}


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


def test_task_models_know_encoders_through_the_contract_alone():
    public = {name for name in vars(Encoder) if not name.startswith("_")}
    assert {"call", "vectors_at", "vectors_at_flat", "blocks_in_order", "supports", "unpadded"} <= public
