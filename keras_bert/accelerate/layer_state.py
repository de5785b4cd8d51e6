"""Runs a layer as a function of its weights and dropout seeds."""

import keras

from keras_bert.accelerate.backend import tensor_of


def seeds_and_weights(layer) -> tuple[list[keras.Variable], list[keras.Variable]]:
    """Returns the variables of the layer in two lists: the states of its seed generators, and all others."""
    seeds = [variable for variable in layer.variables if variable.path.endswith("seed_generator_state")]
    is_seed = {id(seed) for seed in seeds}
    return seeds, [variable for variable in layer.variables if id(variable) not in is_seed]


def call_with_state(call, seeds, seed_values, weights, weight_values):
    """Runs `call` with these values in place of the variables' own, which stay unchanged.

    Args:
        call: function without arguments. The layers that it calls have no losses of their own.
        seeds, weights: variables of the layers.
        seed_values, weight_values: lists with one tensor for each variable.

    Returns:
        the outputs of `call`, and the list of the advanced seed values.
    """
    values = [*zip(seeds, seed_values, strict=True), *zip(weights, weight_values, strict=True)]
    with keras.StatelessScope(values) as scope:
        outputs = call()
    return outputs, [scope.get_current_value(seed) for seed in seeds]


def run_with_state(function, inputs, seeds, weights):
    """Runs `function` with the values of the variables, advances the seeds and returns its outputs.

    The values are passed as tensors. So gradients reach them when they are variables, as in Keras' own training step,
    and also when they are values of a `StatelessScope`, as in the step of `DistributedModel` and on JAX.

    Args:
        function: takes `(inputs, seed_values, weight_values)` and returns (outputs, advanced seed values), as
            `call_with_state` does.
        inputs: the first argument of `function`.
        seeds, weights: variables of a layer.
    """
    values = ([tensor_of(variable) for variable in group] for group in (seeds, weights))
    outputs, next_seeds = function(inputs, *values)
    for seed, value in zip(seeds, next_seeds, strict=True):
        seed.assign(value)
    return outputs
