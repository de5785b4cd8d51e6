"""Layers with local attention compute long rows in windows: the same vectors, without a score for every pair."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from numpy_bert import scatter_weights
from tiny_families import config_of

from keras_bert.encoders.rotary import encoder as rotary
from keras_bert.encoders.rotary.encoder import RotaryEncoder
from keras_bert.models.encoder_base import make_encoder

LENGTH = 45  # no multiple of the blocks of two tokens
SHAPE = {"vocab_size": 60, "hidden_size": 8, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 8}


def encoder_of(family="modernbert", **changes) -> RotaryEncoder:
    encoder = make_encoder(config_of(family, **{**SHAPE, "local_attention": 4, **changes}))
    scatter_weights(encoder)
    return encoder


def batch():
    """Full rows, padding on either side, and three packed sequences."""
    mask = np.ones((4, LENGTH), "int32")
    mask[1, 20:], mask[2, :30], mask[3, 11:] = 0, 0, 2
    mask[3, 27:40], mask[3, 40:] = 3, 0
    return {"input_ids": np.random.default_rng(3).integers(1, 60, mask.shape).astype("int32"), "input_mask": mask}


@pytest.fixture(autouse=True)
def short_rows_are_long(monkeypatch):
    monkeypatch.setattr(rotary, "LONG_ROW", 12)


def in_rows(monkeypatch):
    monkeypatch.setattr(rotary, "LONG_ROW", LENGTH)


def vectors_of(encoder, features):
    return np.asarray(encoder(features)["sequence_output"])[features["input_mask"] > 0]


@pytest.fixture
def double_precision():
    """In float32 these random weights let rounding grow to 1e-4."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_dtype_policy(before)


@pytest.mark.parametrize("family", ["modernbert", "gemma3_text"])
def test_windows_give_the_vectors_of_rows(family, monkeypatch, double_precision):
    encoder, features = encoder_of(family), batch()
    found = vectors_of(encoder, features)
    in_rows(monkeypatch)
    expected = vectors_of(encoder, features)
    assert expected.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


def test_a_graph_for_any_length_chooses_when_it_runs(monkeypatch):
    encoder = encoder_of(num_hidden_layers=2)
    spec = {name: tf.TensorSpec((None, None), tf.int32) for name in batch()}
    forward = tf.function(lambda inputs: encoder(inputs)["sequence_output"], input_signature=[spec])
    rows = [{name: values[:, :length] for name, values in batch().items()} for length in (LENGTH, 7)]
    found = [forward({name: tf.constant(values) for name, values in features.items()}).numpy() for features in rows]
    in_rows(monkeypatch)
    for features, vectors in zip(rows, found, strict=True):
        expected = vectors_of(encoder, features)
        np.testing.assert_allclose(vectors[features["input_mask"] > 0], expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("recomputes", [False, True])
def test_gradients_are_those_of_rows(recomputes, monkeypatch):
    encoder, features = encoder_of(), batch()
    encoder.gradient_checkpointing = recomputes
    weights = [weight.value for weight in encoder.trainable_variables if "pooler" not in weight.path]
    inside = tf.constant((features["input_mask"] > 0)[..., None], tf.float32)

    def gradients():
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(encoder(features, training=True)["sequence_output"] ** 3 * inside)
        return [tf.convert_to_tensor(part).numpy() for part in tape.gradient(total, weights)]

    found = gradients()
    in_rows(monkeypatch)
    for one, other in zip(found, gradients(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_no_tensor_has_a_number_for_every_pair_of_tokens():
    encoder = encoder_of(global_layer="last", global_attn_every_n_layers=9)  # all layers are local
    names = (*batch(), "position_ids")  # packed rows, whose positions are given: to count them takes all pairs
    spec = {name: tf.TensorSpec((2, 345), tf.int32) for name in names} | {
        "cls_positions": tf.TensorSpec((2, 3), tf.int32)
    }
    graph = tf.function(lambda inputs: encoder(inputs)["sequence_output"]).get_concrete_function(spec).graph
    sizes = [output.shape.num_elements() or 0 for op in graph.get_operations() for output in op.outputs]
    assert max(sizes) < 2 * 345 * 345


def test_given_positions_are_compared_in_rows():
    """They need not count columns, so tokens that are near may stand in blocks that are far apart."""
    encoder, features = encoder_of(), batch()
    positions = np.arange(LENGTH)[::-1].reshape(1, -1) // 3 * np.ones((4, 1), "int32")
    tokens = encoder.read(features | {"position_ids": positions})
    assert len(encoder.block_inputs(tokens, "local")[0].shape) == 4
    assert len(encoder.block_inputs(encoder.read(features), "local")[0].shape) == 5


def test_attentions_are_returned_for_long_rows():
    encoder = make_encoder(config_of("modernbert", **SHAPE, local_attention=4), output_attentions=True)
    assert encoder(batch())["attentions"][1].shape == (4, 2, LENGTH, LENGTH)
