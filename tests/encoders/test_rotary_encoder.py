"""Columns of the rotary encoder, against their formulas."""

import numpy as np
import pytest
from encoder_contract import inputs_of
from numpy_bert import scatter_weights
from tiny_families import config

from keras_bert.config import BertConfig
from keras_bert.encoders.rotary import neo_bert
from keras_bert.encoders.rotary.attention import RotaryAttention, rotary_angles, rotary_frequencies
from keras_bert.encoders.rotary.euro_bert import FAMILY as EURO_BERT
from keras_bert.layers.activations import hidden_activation
from keras_bert.models.encoder_base import make_encoder
from keras_bert.program.errors import InputError


def test_wavelengths_of_ntk_scaling():
    expected = (2.5 * 100.0) ** (-np.arange(4) / 4) / 2.5 ** (2 / 8)
    np.testing.assert_allclose(rotary_frequencies(8, 100.0, 2.5), expected, rtol=1e-6)
    np.testing.assert_allclose(rotary_frequencies(8, 100.0), 100.0 ** (-np.arange(4) / 4), rtol=1e-6)


def test_the_scale_of_scores_is_a_factor_of_queries():
    hidden, bias = np.random.default_rng(1).normal(size=(2, 5, 8)).astype("float32"), np.zeros((2, 1, 1, 5), "float32")
    angles = rotary_angles(np.tile(np.arange(5), (2, 1)), rotary_frequencies(4, 100.0))
    one, other = (
        RotaryAttention(2, initializer_range=1.0, output_range=1.0, joined=False, scale=scale) for scale in (0.3, 0.1)
    )
    for layer in (one, other):
        layer.build(hidden.shape)
    other.set_weights(one.get_weights())
    assert np.abs(one(hidden, bias, *angles) - other(hidden, bias, *angles)).max() > 1e-2
    other.query.kernel.assign(3 * one.query.kernel)
    np.testing.assert_allclose(other(hidden, bias, *angles), one(hidden, bias, *angles), atol=1e-5)


def test_a_config_says_the_scale():
    encoder = make_encoder(config("gemma3_text", query_pre_attn_scalar=25))
    assert [block.attention.scale for block in encoder.blocks] == [pytest.approx(0.2)] * 2


def test_a_config_with_a_norm_that_its_family_does_not_have_is_refused():
    written_by_hand = BertConfig.from_dict({"vocab_size": 9, "model_type": "neobert"})
    with pytest.raises(InputError, match="A neobert has no norm behind its embeddings, but .*from_size"):
        neo_bert.weights(written_by_hand)


@pytest.mark.parametrize("pooling", ["cls", "mean", "late"])
def test_a_classifier_pools_as_its_config_says(pooling):
    encoder = make_encoder(config("eurobert", classifier_pooling=pooling))
    scatter_weights(encoder)
    features = inputs_of([[1] * 8, [1] * 5 + [0] * 3], encoder.config.vocab_size)
    outputs, dense = encoder(features), encoder.pooler.dense

    def pooled(vectors):
        activated = hidden_activation("gelu_erf")(vectors @ np.asarray(dense.kernel) + np.asarray(dense.bias))
        return np.asarray(activated)

    rows = [vectors[:length] for vectors, length in zip(np.asarray(outputs["sequence_output"]), (8, 5), strict=True)]
    expected = {
        "cls": lambda row: pooled(row[:1])[0],
        "mean": lambda row: pooled(row.mean(axis=0, keepdims=True))[0],
        "late": lambda row: pooled(row).mean(axis=0),
    }[pooling]
    np.testing.assert_allclose(outputs["pooled_output"], [expected(row) for row in rows], atol=1e-5)


def test_a_masked_lm_head_of_eurobert_has_a_bias_as_the_feed_forward_parts_have():
    read = EURO_BERT.hugging_face.read
    assert [read({"mlp_bias": value}, "config.json")["masked_lm_bias"] for value in (True, False)] == [True, False]
    assert read({}, "config.json")["masked_lm_bias"] is False
