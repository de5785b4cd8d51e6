"""Writes a model as a LiteRT (TensorFlow Lite) file, by TensorFlow's converter, with built-in operations only."""

import os
import re
from collections.abc import Mapping

import tensorflow as tf

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError

# The name of the output of models that return one array.
OUTPUT = "output"


def write_litert(model, file_path: str | os.PathLike, weights: str | None = None) -> None:
    """Writes a model as one signature of any batch size and any length.

    The shapes stay variable: on a CPU that costs a few percent against a signature of a fixed length, and several such
    signatures would each pack the weights for the processor again. The exact GELU and the tanh form are one operation
    each.

    Args:
        model: a Keras model that takes the int32 features `model.feature_names`, each with the axes
            `model.feature_axes`, computes all columns (see `portable_models.padded`) and returns an array or a
            dictionary of arrays.
        file_path: the `.tflite` file.
        weights: None for float32; `float16`; or `int8`: matrices with 8 bits and one scale for each output channel;
            dense layers round their inputs to 8 bits, with a scale for each token, and multiply integers.

    Raises:
        InputError: the converter cannot express an operation of the model; the message names it.
    """
    axes = [None] * len(model.feature_axes)
    specs = {name: tf.TensorSpec(axes, tf.int32, name=name) for name in model.feature_names}

    @tf.function(autograph=False)
    def forward(**features):
        outputs = model(features, training=False)
        return dict(outputs) if isinstance(outputs, Mapping) else {OUTPUT: outputs}

    owner = tf.Module()
    owner.variables_of_model = [weight.value for weight in model.weights]
    converter = tf.lite.TFLiteConverter.from_concrete_functions([forward.get_concrete_function(**specs)], owner)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if weights is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if weights == "float16":
        converter.target_spec.supported_types = [tf.float16]
    with atomic_file(file_path) as file:
        file.write(_converted(converter, model))


def _converted(converter, model) -> bytes:
    try:
        return converter.convert()
    except Exception as error:
        operations = sorted(set(re.findall(r"'(?:tf|tfl)\.\w+'", str(error))))
        reason = f"it has no operation {', '.join(operations)}" if operations else f"{error!s:.300}"
        raise InputError(
            f"LiteRT cannot hold this {type(model).__name__}: {reason}. Export it in another format."
        ) from error
