"""Traces layers of the same structure only once.

TensorFlow needs seconds to make the graph of a training step, mostly for the layers of the encoder. These differ only
in their weights.
"""

import functools

from keras_bert.accelerate.backend import tensorflow_functions
from keras_bert.accelerate.layer_state import call_with_state, run_with_state, seeds_and_weights


def shared_trace(call):
    """Returns a function like `call` that runs the Python code of only one of several equal layers in a graph.

    The graph computes the same outputs and gradients as without it. Outside a graph, `call` itself is returned.

    Args:
        call: `call(layer, *inputs, **arguments)` calls a layer. Inputs are tensors; arguments are not.
    """
    return _SharedTrace(call) if tensorflow_functions and tensorflow_functions.calls_are_fast() else call


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
    """Returns a text that is equal for layers that differ only in the values of their weights and in their names."""
    configs = [part.get_config() for part in layer._flatten_layers()]
    del configs[0]["name"]
    return repr(configs)
