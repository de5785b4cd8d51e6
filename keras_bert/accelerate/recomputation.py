"""Gradient checkpointing: the backward pass of a layer computes again what the forward pass did not keep."""

import functools

import keras

from keras_bert.accelerate.backend import tensorflow_functions
from keras_bert.accelerate.layer_state import call_with_state, run_with_state, seeds_and_weights


def call_recomputed(layer, hidden, *inputs, **arguments):
    """Returns `layer(hidden, *inputs, **arguments)`, of which only `hidden` is kept for the backward pass.

    That pass calls the layer a second time, with the seeds of the first, and so with the same dropout. It runs the same
    operations as without this: eagerly, gradients are the same bit for bit. Where a graph is compiled, TensorFlow's
    arithmetic optimizer and XLA rearrange the two graphs differently, and gradients differ in their last bits.

    The seeds are those from before the call, and are moved on outside of what is computed twice.

    Args:
        layer: a built layer without losses of its own.
        hidden: float tensor, the input through which gradients flow.
        inputs: further tensors, which get no gradient.
        arguments: what else the layer's `call` takes.

    Reference: Chen et al., 2016, arXiv 1604.06174.
    """
    seeds, weights = seeds_and_weights(layer)

    def compute(hidden, seed_values, weight_values):
        call = functools.partial(layer, hidden, *inputs, **arguments)
        return call_with_state(call, seeds, seed_values, weights, weight_values)

    recomputed = tensorflow_functions.recomputed if tensorflow_functions else keras.remat
    return run_with_state(recomputed(compute), hidden, seeds, weights)
