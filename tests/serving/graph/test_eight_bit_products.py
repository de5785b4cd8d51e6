"""Dense layers with 8-bit products equal integer arithmetic, and exports with them give correct answers."""

import json
import math
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny_models
from serving.test_export_in_c_api import serve, text_libraries
from signature_questions import Question
from tiny_models import CONFIG, TEXTS, VOCABULARY

from keras_bert.config import BertConfig
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.program.errors import InputError
from keras_bert.serving.export import export_for_serving
from keras_bert.serving.graph.eight_bit_products import (
    LARGEST_OF_KERNELS,
    EightBitDense,
    balanced_divisors,
    eight_bit_dense_layers,
    quantized,
)
from keras_bert.serving.graph.eight_bit_weights import quantize
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tf_serving.saved_model_check.checking import check
from keras_bert.tf_serving.saved_model_check.reading import read_saved_model

ACTIVATIONS = {
    "linear": lambda x: x,
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu_erf": lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
}


def new_dense(num_inputs=48, num_outputs=33):
    dense = keras.layers.Dense(num_outputs)
    dense.build((None, num_inputs))
    generator = np.random.default_rng(1)
    sizes = generator.uniform(0.1, 3, num_outputs)  # one scale for all columns would be too coarse
    dense.set_weights([generator.normal(size=(num_inputs, num_outputs)) * sizes, generator.normal(size=num_outputs)])
    return dense


def whole_numbers(values):
    """Returns the rounded inputs, and the value of a unit, in float64."""
    values = values.astype(np.float64)
    unit = np.abs(values).max() / 127
    return np.rint(values / unit), unit


def in_graph(layer, values):
    return tf.function(layer, [tf.TensorSpec([None, values.shape[-1]])], autograph=False)(values).numpy()


@pytest.mark.parametrize("rows", [1, 7, 64])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_product_is_the_exact_one_of_whole_numbers(activation, rows):
    dense = new_dense()
    values = np.random.default_rng(rows).normal(size=(rows, 48)).astype(np.float32)
    numbers, unit = whole_numbers(values)
    kernel, scale = quantize(dense.get_weights()[0], 0, LARGEST_OF_KERNELS)
    product = numbers.astype(np.int64) @ kernel.astype(np.int64)
    expected = ACTIVATIONS[activation](product * unit * scale.astype(np.float64) + dense.get_weights()[1])
    found = in_graph(EightBitDense("dense", dense, activation), values)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.slow
def test_ranges_that_change_from_call_to_call_are_those_of_the_call():
    dense = new_dense()
    call = tf.function(EightBitDense("dense", dense), [tf.TensorSpec([None, 48])], autograph=False)
    kernel, scale = quantize(dense.get_weights()[0], 0, LARGEST_OF_KERNELS)
    values = np.random.default_rng(0).normal(size=(5, 48)).astype(np.float32)
    for size in (1, 3, 1e-6, 1e6, 1):
        numbers, unit = whole_numbers(values * np.float32(size))
        expected = numbers @ kernel * unit * scale + dense.get_weights()[1]
        np.testing.assert_allclose(call(values * np.float32(size)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_sums_do_not_overflow_on_processors_without_8_bit_products():
    # In a separate process, since oneDNN reads the variable only once.
    program = """
import keras, numpy as np, tensorflow as tf
from keras_bert.serving.graph.eight_bit_products import EightBitDense
dense = keras.layers.Dense(16)
dense.build((None, 384))
dense.set_weights([np.ones((384, 16)), np.zeros(16)])
call = tf.function(EightBitDense("dense", dense), [tf.TensorSpec([None, 384])], autograph=False)
for sign in (1, -1):
    np.testing.assert_allclose(call(sign * np.ones((64, 384), np.float32)), sign * 384 * np.ones((64, 16)), rtol=1e-6)
"""
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr


def test_rounding_costs_no_more_than_half_a_unit_of_each_factor():
    dense = new_dense()
    kernel, bias = (weight.astype(np.float64) for weight in dense.get_weights())
    values = np.random.default_rng(0).normal(size=(20, 48))
    half, half_kernel = np.abs(values).max() / 254, np.abs(kernel).max(axis=0) / (2 * LARGEST_OF_KERNELS)
    bound = half * np.abs(kernel).sum(axis=0) + half_kernel * np.abs(values).sum(axis=1, keepdims=True)
    bound += 48 * half * half_kernel
    difference = np.abs(in_graph(EightBitDense("dense", dense), values.astype(np.float32)) - (values @ kernel + bias))
    assert (difference <= bound + 1e-5).all()
    assert difference.max() > 0.02 * bound.max(), "nothing was rounded"


def test_zeros_and_no_rows_have_a_product_too():
    dense = new_dense()
    layer = EightBitDense("dense", dense)
    assert in_graph(layer, np.zeros((0, 48), np.float32)).shape == (0, 33)
    np.testing.assert_array_equal(
        in_graph(layer, np.zeros((2, 48), np.float32)), np.tile(dense.get_weights()[1], (2, 1))
    )


def test_inputs_are_rounded_to_the_nearest_number_and_halves_to_even():
    numbers, smallest, largest = quantized(tf.constant([-254.0, -3.0, -1.0, 0.0, 1.0, 3.0, 5.0, 100.9]), -254.0, 100.9)
    assert tf.bitcast(numbers, tf.int8).numpy().tolist() == [-127, -2, 0, 0, 0, 2, 2, 50]
    assert (float(smallest), float(largest)) == (-254, 254)


def test_inputs_that_are_always_large_leave_the_others_their_precision():
    kernel = np.array([[1.0, -2], [2, 0], [0.5, 2], [2, 1]])
    np.testing.assert_allclose(balanced_divisors(np.array([1, 1, 1, 32.0]), kernel), [1, 1, 1, 8], rtol=1e-6)
    np.testing.assert_allclose(balanced_divisors(np.ones(3), np.array([[1.0], [1], [32]])), [1, 1, 0.25], rtol=1e-6)
    # An input that random tokens never need may be large in a text.
    np.testing.assert_allclose(balanced_divisors(np.array([0.0, 1, 1]), np.ones((3, 1))), [0.1**0.6, 1, 1], rtol=1e-6)
    assert np.isfinite(balanced_divisors(np.array([0.0, 0, 8]), np.zeros((3, 2)))).all()
    dense = new_dense()
    values = np.random.default_rng(0).normal(size=(20, 48)).astype(np.float32)
    values[:, 5] *= 40
    exact = values.astype(np.float64) @ dense.get_weights()[0] + dense.get_weights()[1]
    divisors = balanced_divisors(np.abs(values).max(axis=0), dense.get_weights()[0])
    plain, balanced = (
        np.abs(in_graph(EightBitDense("dense", dense, "linear", sizes), values) - exact).mean()
        for sizes in (None, divisors)
    )
    assert balanced < plain / 3


def test_a_row_of_large_inputs_leaves_the_others_their_precision():
    dense = new_dense()
    values = np.random.default_rng(0).normal(size=(20, 48)).astype(np.float32)
    values[4] *= 1000
    values[5] = 0
    kernel, scale = quantize(dense.get_weights()[0], 0, LARGEST_OF_KERNELS)
    numbers, units = zip(*[whole_numbers(row) if row.any() else (row, 0.0) for row in values], strict=True)
    expected = np.array(numbers) @ kernel * np.array(units)[:, None] * scale + dense.get_weights()[1]
    layer = EightBitDense("dense", dense, range_per_row=True)
    np.testing.assert_allclose(in_graph(layer, values), expected, rtol=1e-5, atol=1e-5)
    for row in (0, 5):
        np.testing.assert_allclose(
            in_graph(layer, values[row : row + 1]), expected[row : row + 1], rtol=1e-5, atol=1e-5
        )
    assert in_graph(layer, np.zeros((0, 48), np.float32)).shape == (0, 33)


def test_the_outliers_of_a_model_are_found_with_random_tokens():
    keras.utils.set_random_seed(1)
    encoder = BertEncoder(CONFIG)
    gamma = np.ones(CONFIG.hidden_size, np.float32)
    gamma[3] = 50
    encoder.blocks[1].attention_layer_norm.gamma.assign(gamma)
    layers = dict(eight_bit_dense_layers(encoder))
    factors = layers[encoder.blocks[1].intermediate_dense].stored[0].numpy()
    assert np.argmin(factors) == 3
    assert factors[3] < 0.1
    # Behind an activation, a large row leaves the others their precision.
    second = encoder.blocks[1].output_dense
    values = np.random.default_rng(0).normal(size=(4, second.kernel.shape[0])).astype(np.float32)
    values[0] *= 1000
    difference = np.abs(in_graph(layers[second], values) - second(values))
    assert difference[1:].max() < 0.02 * np.abs(second(values)[1:]).max()
    assert "call" not in vars(encoder.blocks[1].intermediate_dense), "layers are as they were"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model, and name -> folder of its exports in float32 and with 8-bit products."""
    keras.utils.set_random_seed(1)
    model = SequenceClassifier(CONFIG.replace(initializer_range=0.1), labels=["a", "b", "c"])
    model.vocabulary = VOCABULARY
    models = {"float32": (model, {}), "int8": (model, {"compute": "int8"})}
    exports = tiny_models.Exports(models, tmp_path_factory.mktemp("eight_bit"))
    return model, {name: exports[name] for name in models}


@pytest.mark.slow
def test_an_export_with_8_bit_products_answers_nearly_the_same_in_the_c_api(exported):
    model, folders = exported
    questions = [Question(name, "serving_default", {"text": TEXTS}) for name in folders]
    questions += [Question("int8", "serving_default", {"text": []})]
    result = serve(questions, folders, text_libraries("_fast_bert_normalizer", "_fast_wordpiece_tokenizer"))
    assert result.returncode == 0, result.stderr
    exact, found, nothing = (
        np.array(answer["probabilities"][1]).reshape(answer["probabilities"][0])
        for answer in json.loads(result.stdout)["answers"]
    )
    assert 1e-6 < np.abs(found - exact).max() < 0.01
    assert nothing.shape == (0, 3)
    loaded = tf.saved_model.load(folders["int8"])
    python = loaded.signatures["serving_default"](text=tf.constant(TEXTS))["probabilities"].numpy()
    np.testing.assert_allclose(found, python, atol=1e-5)


def test_every_dense_layer_of_the_blocks_is_an_8_bit_product_and_no_kernel_is_stored_twice(exported):
    model, folders = exported
    graph = read_saved_model(folders["int8"])
    for name in ("serving_default", "tokens"):
        nodes = graph.served_nodes()
        operations = [node.op for function, node in nodes if name in graph.users_of(function, node.name)]
        assert operations.count("_QuantizedMatMul") == 6 * CONFIG.num_hidden_layers
    sizes = {name: served_size(folder) for name, folder in folders.items()}
    assert sizes["int8"] < 0.65 * sizes["float32"]
    assert not any("call" in vars(layer) for layer in model._flatten_layers()), "the model is as it was"


def served_size(folder):
    return tf.io.gfile.stat(f"{folder}/variables/variables.data-00000-of-00001").length


def test_the_check_says_which_servers_lack_the_operation(exported):
    _, folders = exported
    assert check(folders["int8"], ["2.20", "2.21"]).is_clean()
    [finding] = check(folders["int8"], ["2.12"]).errors
    assert (finding.trap, "_QuantizedMatMul" in finding.where) == ("missing-operation", True)
    [finding] = check(folders["int8"], ["2.19"]).warnings
    assert finding.trap == "newer-operation"


@pytest.mark.parametrize("activation", ["relu", "tanh", "linear", "gelu"])
def test_all_activations_can_be_exported(activation):
    encoder = BertEncoder(BertConfig.from_size("tiny", vocab_size=30, num_hidden_layers=1, hidden_act=activation))
    pairs = eight_bit_dense_layers(encoder)
    dense, eight_bit = pairs[4]
    assert dense is encoder.blocks[0].intermediate_dense
    values = np.random.default_rng(0).normal(size=(9, 128)).astype(np.float32)
    np.testing.assert_allclose(in_graph(eight_bit, values), dense(values).numpy(), atol=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compute": "int4"}, "compute must be int8 or None. Received: 'int4'"),
        ({"compute": "int8", "dtype": "bfloat16"}, "Leave out dtype=bfloat16 or compute=int8"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path, exported, options, message):
    with pytest.raises(InputError, match=message):
        export_for_serving(exported[0], tmp_path, **options)
