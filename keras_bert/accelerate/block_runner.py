"""Runs the blocks of a model: recomputed to save memory, or traced once for all blocks to start sooner.

TensorFlow needs seconds to make the graph of a training step, mostly for the layers of the encoder. These differ only
in their weights.
"""

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
    recomputes: bool,
    return_attention: bool | str = False,
    before_block: Callable | None = None,
) -> tuple[list, list]:
    """Runs blocks one after the other.

    Args:
        hidden: float `[B, S, H]`, the input of the first block.
        inputs: for each block, its inputs after `hidden`.
        training, recomputes: as for `block_runner`.
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
        training: whether a backward pass follows.
        recomputes: whether the backward pass computes each block again instead of keeping its intermediate results.
            Gradients flow to the tensors of floats and to the weights of the block either way.
    """
    run = _call_recomputed if training and recomputes else _call
    is_shared = training and num_blocks >= FEWEST_SHARING and tensorflow_functions
    return _SharedTrace(run) if is_shared and tensorflow_functions.calls_are_fast() else run


def _call(block, *inputs, **arguments):
    return block(*inputs, **arguments)


def _call_recomputed(layer, *inputs, **arguments):
    """Returns `layer(*inputs, **arguments)` and keeps only `inputs` for the backward pass.

    The backward pass calls the layer again with the same seeds, and so with the same dropout. In eager mode, gradients
    are equal to those without recomputation bit for bit. In a compiled graph they may differ in the last bits, because
    TensorFlow's arithmetic optimizer and XLA rearrange the two graphs differently.

    Args:
        layer: a built layer without losses of its own.
        inputs: tensors, structures of them, or None. Gradients flow to the tensors of floats, not into structures.

    Reference: Chen et al., 2016, arXiv 1604.06174.
    """
    is_float = [hasattr(value, "dtype") and keras.backend.is_float_dtype(value.dtype) for value in inputs]

    def call(floats):
        given = iter(floats)
        values = [next(given) if is_one else value for value, is_one in zip(inputs, is_float, strict=True)]
        return layer(*values, **arguments)

    recomputed = tensorflow_functions.recomputed if tensorflow_functions else keras.remat
    floats = [value for value, is_one in zip(inputs, is_float, strict=True) if is_one]
    return _run(recomputed(_without_state(layer, call)), layer, floats)


class _SharedTrace:
    """Calls layers in a graph, and runs the Python code of only one of several equal layers.

    The graph computes the same outputs and gradients as without it.

    Args:
        call: `call(layer, *inputs, **arguments)` calls a layer. Inputs are tensors; arguments are not.
    """

    def __init__(self, call):
        self._call = call
        self._functions = {}

    def __call__(self, layer, *inputs, **arguments):
        key = _structure(layer), *sorted(arguments.items())
        if key not in self._functions:
            function = _without_state(layer, lambda inputs: self._call(layer, *inputs, **arguments))
            self._functions[key] = tensorflow_functions.traced_once(function)
        return _run(self._functions[key], layer, inputs)


def _structure(layer) -> str:
    """Returns a text that is equal for layers that differ only in the values of their weights and in their names."""
    configs = [part.get_config() for part in layer._flatten_layers()]
    del configs[0]["name"]
    return repr(configs)


def _seeds_and_weights(layer) -> tuple[list[keras.Variable], list[keras.Variable]]:
    """Returns the variables of the layer in two lists: the states of its seed generators, and all others."""
    seeds = [variable for variable in layer.variables if variable.path.endswith("seed_generator_state")]
    is_seed = {id(seed) for seed in seeds}
    return seeds, [variable for variable in layer.variables if id(variable) not in is_seed]


def _without_state(layer, call):
    """Returns a function of (inputs, seed values, weight values), lists of tensors, that runs `call(inputs)` with these
    values in place of those of the layer's variables, and returns its outputs and the advanced seed values."""
    seeds, weights = _seeds_and_weights(layer)

    def compute(inputs, seed_values, weight_values):
        values = [*zip(seeds, seed_values, strict=True), *zip(weights, weight_values, strict=True)]
        with keras.StatelessScope(values) as scope:
            outputs = call(inputs)
        return outputs, [scope.get_current_value(seed) for seed in seeds]

    return compute


def _run(function, layer, inputs):
    """Runs what `_without_state` made with the values of the layer's variables, advances its seeds and returns its
    outputs.

    The values are passed as tensors. So gradients reach them when they are variables, as in Keras' own training step,
    and also when they are values of a `StatelessScope`, as in the step of `distributed_model.py` and on JAX.
    """
    seeds, weights = _seeds_and_weights(layer)
    values = ([tensor_of(variable) for variable in group] for group in (seeds, weights))
    outputs, next_seeds = function(inputs, *values)
    for seed, value in zip(seeds, next_seeds, strict=True):
        seed.assign(value)
    return outputs
