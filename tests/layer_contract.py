"""Checks the contract that every layer of keras_bert keeps."""

import json

import keras
import numpy as np
import tensorflow as tf


def check_layer(layer_class, arguments, inputs, expected_shape, tmp_path, output_dtype=None):
    """Checks shape, dtype, config, saving, and that eager, graph and tf.data agree.

    Args:
        layer_class, arguments: the class to check, and its constructor's arguments.
        inputs: list of arrays, the positional arguments of `call`, batch first.
        expected_shape: the shape of the output for these inputs.
        tmp_path: an empty folder.
        output_dtype: the dtype of the output; by default the compute dtype.
    """
    layer = layer_class(**arguments)
    outputs = np.asarray(layer(*inputs))
    assert outputs.shape == expected_shape
    assert np.all(np.isfinite(outputs))
    assert tuple(layer.compute_output_shape(*[array.shape for array in inputs])) == expected_shape
    _check_config(layer, arguments, inputs, outputs)
    _check_graph_and_data(layer, inputs, outputs)
    _check_saving(layer, inputs, outputs, tmp_path)
    for policy, tolerance in (("mixed_bfloat16", 0.1), ("mixed_float16", 0.01)):
        _check_mixed_precision(layer, policy, inputs, outputs, tolerance, output_dtype)


def _check_config(layer, arguments, inputs, outputs):
    config = layer.get_config()
    assert set(arguments) <= set(config), "get_config mirrors __init__"
    for name, value in arguments.items():
        assert config[name] == value, f"get_config: {name} is {config[name]}, was {value}"
    twin = type(layer).from_config(json.loads(json.dumps(config)))
    twin(*inputs)
    twin.set_weights(layer.get_weights())
    np.testing.assert_array_equal(np.asarray(twin(*inputs)), outputs)


def _check_graph_and_data(layer, inputs, outputs):
    unknown_lengths = [tf.TensorSpec([None] * array.ndim, array.dtype) for array in inputs]
    if not any(array.dtype == np.float32 for array in inputs[:1]):
        graph_output = tf.function(layer, input_signature=unknown_lengths)(*inputs)
    else:  # the width of vectors must be known
        specs = [tf.TensorSpec([*[None] * (array.ndim - 1), array.shape[-1]], array.dtype) for array in inputs]
        graph_output = tf.function(layer, input_signature=specs)(*inputs)
    np.testing.assert_allclose(graph_output, outputs, rtol=1e-5, atol=1e-5)
    dataset = tf.data.Dataset.from_tensors(tuple(inputs)).map(lambda *batch: layer(*batch))
    np.testing.assert_allclose(next(iter(dataset)), outputs, rtol=1e-5, atol=1e-5)


def _check_saving(layer, inputs, outputs, tmp_path):
    symbols = [keras.Input(array.shape[1:], dtype=str(array.dtype)) for array in inputs]
    model = keras.Model(symbols, layer(*symbols))
    model.save(tmp_path / "layer.keras")
    reloaded = keras.models.load_model(tmp_path / "layer.keras")
    np.testing.assert_allclose(np.asarray(reloaded(inputs)), outputs, rtol=1e-6, atol=1e-6)


def _check_mixed_precision(layer, policy, inputs, outputs, tolerance, output_dtype):
    twin = type(layer).from_config({**layer.get_config(), "dtype": policy})
    mixed = twin(*inputs)
    assert {weight.dtype for weight in twin.weights} == {"float32"}
    assert keras.backend.standardize_dtype(mixed.dtype) == (output_dtype or policy.removeprefix("mixed_"))
    twin.set_weights(layer.get_weights())
    np.testing.assert_allclose(np.asarray(keras.ops.cast(twin(*inputs), "float32")), outputs, atol=tolerance)
