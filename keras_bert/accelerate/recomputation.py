"""Gradient checkpointing: the backward pass computes a layer again instead of keeping its intermediate results."""

import functools

import keras

from keras_bert.accelerate.backend import tensorflow_functions
from keras_bert.accelerate.layer_state import call_with_state, run_with_state, seeds_and_weights


def call_recomputed(layer, hidden, *inputs, **arguments):
    """Returns `layer(hidden, *inputs, **arguments)` and keeps only `hidden` for the backward pass.

    The backward pass calls the layer again with the same seeds, and so with the same dropout. In eager mode, gradients
    are equal to those without recomputation bit for bit. In a compiled graph they may differ in the last bits, because
    TensorFlow's arithmetic optimizer and XLA rearrange the two graphs differently.

    Args:
        layer: a built layer without losses of its own.
        hidden: float tensor, the only input through which gradients flow.
        inputs: further tensors, which get no gradient.
        arguments: further keyword arguments of the layer's `call`.

    Reference: Chen et al., 2016, arXiv 1604.06174.
    """
    seeds, weights = seeds_and_weights(layer)

    def compute(hidden, seed_values, weight_values):
        call = functools.partial(layer, hidden, *inputs, **arguments)
        return call_with_state(call, seeds, seed_values, weights, weight_values)

    recomputed = tensorflow_functions.recomputed if tensorflow_functions else keras.remat
    return run_with_state(recomputed(compute), hidden, seeds, weights)
