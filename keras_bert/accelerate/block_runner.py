"""Runs the blocks of a model: recomputed to save memory, or traced once for all blocks to start sooner.

TensorFlow needs seconds to make the graph of a training step, mostly for the layers of the encoder. These differ only
in their weights.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_bert.accelerate.backend import tensor_of, tensorflow_functions

# With fewer blocks than this, tracing each block is quicker than calling one traced function.
FEWEST_SHARING = 3


def run_blocks(
    blocks: Sequence,
    hidden: Any,
    inputs: Sequence[tuple],
    training: bool,
    recomputes: bool = False,
    return_attention: bool | str = False,
    before_block: Callable | None = None,
) -> tuple[list, list]:
    """Runs blocks one after the other.

    Args:
        blocks: the blocks in the order of computation.
        hidden: float `[B, S, H]`, the input of the first block.
        inputs: for each block, its inputs after `hidden`.
        training: whether a backward pass follows.
        recomputes: as for `block_runner`.
        return_attention: as for `TransformerBlock`.
        before_block: called as `before_block(block, hidden, *inputs)` with each block and its inputs before it runs.

    Returns:
        the input of the first block and the outputs of all, and the attentions of all; none without
        `return_attention`.
    """
    states, attentions = [hidden], []
    run = block_runner(len(blocks), training, recomputes)
    for block, others in zip(blocks, inputs, strict=True):
        if before_block is not None:
            before_block(block, hidden, *others)
        hidden = run(block, hidden, *others, training=training, return_attention=return_attention)
        if return_attention:
            hidden, attention = hidden
            attentions.append(attention)
        states.append(hidden)
    return states, attentions


def block_runner(num_blocks: int, training: bool, recomputes: bool):
    """Returns `run(block, *inputs, **arguments)`, which computes `block(*inputs, **arguments)`.

    Args:
        num_blocks: number of blocks in the encoder.
        training: whether a backward pass follows.
        recomputes: whether the backward pass computes each block again instead of keeping its intermediate results.
            Gradients flow to the tensors of floats and to the weights of the block either way.
    """
    run = call_recomputed if training and recomputes else _call
    return shared_trace(run) if training and num_blocks >= FEWEST_SHARING else run


def _call(block, *inputs, **arguments):
    return block(*inputs, **arguments)


def call_recomputed(layer, *inputs, **arguments):
    """Returns `layer(*inputs, **arguments)` and keeps only `inputs` for the backward pass.

    The backward pass calls the layer again with the same seeds, and so with the same dropout. In eager mode, gradients
    are equal to those without recomputation bit for bit. In a compiled graph they may differ in the last bits, because
    TensorFlow's arithmetic optimizer and XLA rearrange the two graphs differently.

    Args:
        layer: a built layer without losses of its own.
        inputs: tensors, structures of them, or None. Gradients flow to the tensors of floats, not into structures.
        arguments: further keyword arguments of the layer's `call`.

    Reference: Chen et al., 2016, arXiv 1604.06174.
    """
    seeds, weights = seeds_and_weights(layer)
    is_float = [hasattr(value, "dtype") and keras.backend.is_float_dtype(value.dtype) for value in inputs]

    def compute(floats, seed_values, weight_values):
        given = iter(floats)
        values = [next(given) if is_one else value for value, is_one in zip(inputs, is_float, strict=True)]
        return call_with_state(
            functools.partial(layer, *values, **arguments), seeds, seed_values, weights, weight_values
        )

    recomputed = tensorflow_functions.recomputed if tensorflow_functions else keras.remat
    floats = [value for value, is_one in zip(inputs, is_float, strict=True) if is_one]
    return run_with_state(recomputed(compute), floats, seeds, weights)


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
