"""Runs the blocks of a model: recomputed to save memory, or traced once for all blocks to start sooner."""

from collections.abc import Callable, Sequence
from typing import Any

from keras_bert.accelerate.recomputation import call_recomputed
from keras_bert.accelerate.shared_trace import shared_trace

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
            Gradients flow to the inputs of floats and to the weights of the block either way.
    """
    run = call_recomputed if training and recomputes else _call
    return shared_trace(run) if training and num_blocks >= FEWEST_SHARING else run


def _call(block, *inputs, **arguments):
    return block(*inputs, **arguments)
