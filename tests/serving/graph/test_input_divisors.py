"""The inputs of dense layers are divided so that 8 bits keep the precision of all of them."""

import keras
import numpy as np
from tiny_models import CONFIG

from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.serving.graph.input_divisors import balanced_divisors, input_divisors


def test_inputs_that_are_always_large_leave_the_others_their_precision():
    kernel = np.array([[1.0, -2], [2, 0], [0.5, 2], [2, 1]])
    np.testing.assert_allclose(balanced_divisors(np.array([1, 1, 1, 32.0]), kernel), [1, 1, 1, 8], rtol=1e-6)
    np.testing.assert_allclose(balanced_divisors(np.ones(3), np.array([[1.0], [1], [32]])), [1, 1, 0.25], rtol=1e-6)
    # An input that random tokens never need may be large in a text.
    np.testing.assert_allclose(balanced_divisors(np.array([0.0, 1, 1]), np.ones((3, 1))), [0.1**0.6, 1, 1], rtol=1e-6)
    assert np.isfinite(balanced_divisors(np.array([0.0, 0, 8]), np.zeros((3, 2)))).all()


def test_the_large_inputs_of_a_model_are_found_with_random_tokens():
    keras.utils.set_random_seed(1)
    encoder = BertEncoder(CONFIG)
    gamma = np.ones(CONFIG.hidden_size, np.float32)
    gamma[3] = 50
    encoder.blocks[1].attention_layer_norm.gamma.assign(gamma)
    layers = {layer.path: divisors for layer, divisors in input_divisors(encoder)}
    divisors = layers[encoder.blocks[1].intermediate_dense.path]
    assert np.argmax(divisors) == 3
    assert divisors[3] > 10
    assert layers[encoder.blocks[1].output_dense.path] is None, "each row behind an activation has its own range"
    assert "call" not in vars(encoder.blocks[1].intermediate_dense), "layers are as they were"
