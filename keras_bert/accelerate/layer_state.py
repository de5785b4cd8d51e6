"""A layer as a function of its weights and of the seeds of its dropout."""

import keras
from keras import ops


def seeds_and_weights(layer) -> tuple[list[keras.Variable], list[keras.Variable]]:
    """Returns the variables that dropout draws its seeds from, and the others."""
    seeds = [variable for variable in layer.variables if variable.path.endswith("seed_generator_state")]
    is_seed = {id(seed) for seed in seeds}
    return seeds, [variable for variable in layer.variables if id(variable) not in is_seed]


def call_with_state(call, seeds, seed_values, weights, weight_values):
    """Returns `call()`, during which these variables have these values, and the seeds that follow.

    Args:
        call: calls layers without losses of their own.
        seeds, weights: variables of the layers.
        seed_values, weight_values: a tensor for each.

    Returns:
        (what `call` returns, list of the values that it gave to the seeds). The variables keep theirs.
    """
    given = [*zip(seeds, seed_values, strict=True), *zip(weights, weight_values, strict=True)]
    with keras.StatelessScope(given) as scope:
        outputs = call()
    return outputs, [scope.get_current_value(seed) for seed in seeds]


def run_with_state(function, inputs, seeds, weights):
    """Returns what a function of inputs, seed values and weight values returns first, and moves the seeds on.

    Args:
        function: takes `(inputs, seed_values, weight_values)` and returns (outputs, the seeds that follow), as
            `call_with_state` does.
        inputs: what it is given.
        seeds, weights: variables of a layer, handed over as tensors: gradients reach these whether they are variables,
            as in Keras' own step, or values of a `StatelessScope`, as in that of `DistributedModel` and on JAX.
    """
    values = ([ops.convert_to_tensor(variable.value) for variable in group] for group in (seeds, weights))
    outputs, next_seeds = function(inputs, *values)
    for seed, value in zip(seeds, next_seeds, strict=True):
        seed.assign(value)
    return outputs
