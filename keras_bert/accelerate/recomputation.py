"""Gradient checkpointing: the backward pass computes a layer again instead of keeping its intermediate results."""

import functools

import keras

from keras_bert.accelerate.backend import tensorflow_functions
from keras_bert.accelerate.layer_state import call_with_state, run_with_state, seeds_and_weights


def call_recomputed(layer, *inputs, **arguments):
    """Returns `layer(*inputs, **arguments)` and keeps only `inputs` for the backward pass.

    The backward pass calls the layer again with the same seeds, and so with the same dropout. In eager mode, gradients
    are equal to those without recomputation bit for bit. In a compiled graph they may differ in the last bits, because
    TensorFlow's arithmetic optimizer and XLA rearrange the two graphs differently.

    Args:
        layer: a built layer without losses of its own.
        inputs: tensors, or None. Gradients flow to those of floats.
        arguments: further keyword arguments of the layer's `call`.

    Reference: Chen et al., 2016, arXiv 1604.06174.
    """
    seeds, weights = seeds_and_weights(layer)
    is_float = [value is not None and keras.backend.is_float_dtype(value.dtype) for value in inputs]

    def compute(floats, seed_values, weight_values):
        given = iter(floats)
        values = [next(given) if is_one else value for value, is_one in zip(inputs, is_float, strict=True)]
        return call_with_state(
            functools.partial(layer, *values, **arguments), seeds, seed_values, weights, weight_values
        )

    recomputed = tensorflow_functions.recomputed if tensorflow_functions else keras.remat
    floats = [value for value, is_one in zip(inputs, is_float, strict=True) if is_one]
    return run_with_state(recomputed(compute), floats, seeds, weights)
