"""Layers of one structure, traced once for all of them.

TensorFlow needs seconds to make the graph of a training step. Most of it are the layers of the encoder, which differ in
their weights alone.
"""

import functools

from keras_bert.accelerate.backend import tensorflow_functions
from keras_bert.accelerate.layer_state import call_with_state, run_with_state, seeds_and_weights


def shared_trace(call):
    """Returns `call`, which while TensorFlow makes a graph runs once for all layers that are alike.

    The graph computes what it would compute without this, gradients included.

    Args:
        call: `call(layer, *inputs, **arguments)`, how a layer is called. Inputs are tensors, arguments are none.
    """
    return _SharedTrace(call) if tensorflow_functions and tensorflow_functions.saves_time_by_calls() else call


class _SharedTrace:
    def __init__(self, call):
        self._call = call
        self._functions = {}

    def __call__(self, layer, *inputs, **arguments):
        seeds, weights = seeds_and_weights(layer)
        key = _structure(layer), *sorted(arguments.items())
        if key not in self._functions:
            self._functions[key] = self._function(layer, seeds, weights, arguments)
        return run_with_state(self._functions[key], inputs, seeds, weights)

    def _function(self, layer, seeds, weights, arguments):
        def compute(inputs, seed_values, weight_values):
            call = functools.partial(self._call, layer, *inputs, **arguments)
            return call_with_state(call, seeds, seed_values, weights, weight_values)

        return tensorflow_functions.traced_once(compute)


def _structure(layer) -> str:
    """Returns what layers have in common that differ in the values of their weights and their names alone."""
    configs = [part.get_config() for part in layer._flatten_layers()]
    del configs[0]["name"]
    return repr(configs)
