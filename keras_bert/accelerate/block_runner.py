"""Runs the blocks of an encoder: recomputed to save memory, or traced once for all blocks to start sooner."""

from keras_bert.accelerate.recomputation import call_recomputed
from keras_bert.accelerate.shared_trace import shared_trace

# With fewer blocks than this, tracing each block is quicker than calling one traced function.
FEWEST_SHARING = 3


def block_runner(num_blocks: int, training: bool, recomputes: bool):
    """Returns `run(block, *inputs, **arguments)`, which computes `block(*inputs, **arguments)`.

    Args:
        num_blocks: number of blocks in the encoder.
        training: whether a backward pass follows.
        recomputes: whether the backward pass computes each block again instead of keeping its intermediate results.
    """
    run = call_recomputed if training and recomputes else _call
    return shared_trace(run) if training and num_blocks >= FEWEST_SHARING else run


def _call(block, *inputs, **arguments):
    return block(*inputs, **arguments)
