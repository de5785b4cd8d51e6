"""Who attends to whom in block attention: windows and global tokens (Longformer), sparse blocks (BigBird)."""

import functools
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_bert.accelerate.backend import tensorflow_functions
from keras_bert.layers.blocks import in_blocks, with_neighbours
from keras_bert.layers.numbered_mask import bias_of

# Lengths of rows whose random blocks the authors drew from the first 1,024 tokens. For other lengths they draw from as
# many blocks as full attention is used for.
_LENGTHS_OF_THE_PAPER = (1024, 3072, 4096)
_RANGE_OF_THE_PAPER = 1024


class SlidingWindows(NamedTuple):
    """The pattern of a layer with sliding windows and global tokens."""

    bias: Any  # float `[B, C, 1, b, G + 3 b]`, for blocks of b tokens and the keys of `neighbouring_blocks`
    global_columns: Any  # int32 `[B, G]`, the columns of the global tokens; column 0 where a row has fewer
    global_numbers: Any  # int32 `[B, S]`: n if the token is the n-th global one, counted from 0; -1 for others
    key_bias: Any  # float `[B, 1, 1, S]`, for global tokens, which attend to all tokens

    @property
    def block_size(self):
        return ops.shape(self.bias)[3]


class SparseBlocks(NamedTuple):
    """The pattern of a layer with sparse blocks."""

    numbers: Any  # int32 `[B, C, N, M]`, for every block and head the blocks that it attends to; -1 for none
    bias: Any  # float `[B, C, N, 1, M b]`, for the keys of `chosen_blocks`
    last_block: Any  # int32 `[B, 1]`, the number of the last block of each row that has tokens
    key_bias: Any  # float `[B, 1, 1, C b]`, for the first and the last block, which attend to all tokens

    @property
    def block_size(self):
        return ops.shape(self.key_bias)[3] // ops.shape(self.numbers)[1]


def windows(is_token, is_global, half_window: int, most_global: int) -> SlidingWindows:
    """Returns the pattern of windows: token i attends to token j if |i - j| <= half_window or j is global.

    Args:
        is_token, is_global: bool `[B, S]`.
        half_window: the largest distance in a window.
        most_global: the largest number of global tokens; further tokens of `is_global` are not global.
    """
    batch_size, length = ops.shape(is_token)
    block_size = _smaller(half_window, length)
    num_blocks = -(-length // block_size)
    is_global = ops.logical_and(is_token, is_global)
    numbers = ops.cumsum(ops.cast(is_global, "int32"), axis=1) - 1
    numbers = ops.where(ops.logical_and(is_global, numbers < most_global), numbers, -1)
    counts = ops.max(numbers, axis=1, keepdims=True) + 1  # [B, 1]
    num_global = _smaller(most_global, length)
    if most_global > 1 and tensorflow_functions and tensorflow_functions.lengths_may_vary():
        num_global = ops.maximum(ops.max(counts), 1)
    columns = ops.argsort(ops.where(numbers >= 0, numbers, length), axis=1)[:, :num_global]
    is_used = ops.arange(num_global, dtype="int32") < counts  # [B, G]
    columns = ops.where(is_used, ops.cast(columns, "int32"), 0)

    keys = with_neighbours(in_blocks(ops.logical_and(is_token, numbers < 0), block_size))  # [B, C, 3 b]
    distances = ops.expand_dims(ops.arange(block_size), 1) + block_size - ops.arange(3 * block_size)
    is_near = ops.abs(distances) <= half_window  # [b, 3 b]
    allowed = ops.logical_and(ops.expand_dims(keys, 2), is_near)  # [B, C, b, 3 b]
    shape = (batch_size, num_blocks, block_size, num_global)
    to_global = ops.broadcast_to(ops.reshape(is_used, (batch_size, 1, 1, num_global)), shape)
    bias = bias_of(ops.concatenate([to_global, allowed], axis=3))
    return SlidingWindows(ops.expand_dims(bias, 2), columns, numbers, bias_of(is_token)[:, None, None])


def sparse_blocks(is_token, layer: int, num_heads: int, block_size: int, num_random: int, most_blocks: int):
    """Returns the pattern of sparse blocks: of the first, previous, own, next, last and random blocks of a row.

    A row of at most `5 + 2 num_random` blocks has full attention. Padding after a row does not change its pattern.

    Args:
        is_token: bool `[B, S]`.
        layer, num_heads: the number of the layer, from 0, and of heads: each head has random blocks of its own.
        block_size: tokens in a block.
        num_random: random blocks of each block.
        most_blocks: the blocks in the longest possible row.
    """
    batch_size, length = ops.shape(is_token)
    num_blocks, most_full = -(-length // block_size), 5 + 2 * num_random
    is_token = ops.pad(is_token, [[0, 0], [0, num_blocks * block_size - length]])
    columns = ops.arange(num_blocks * block_size, dtype="int32")
    last_token = ops.max(ops.where(is_token, columns, 0), axis=1)
    last = ops.reshape(last_token // block_size, (-1, 1, 1, 1))
    is_full = last < most_full

    own = ops.reshape(ops.arange(num_blocks, dtype="int32"), (1, -1, 1, 1))
    sparse = ops.concatenate(
        [
            own * 0 + last * 0,
            ops.where(own > 1, own - 1, -1) + last * 0,
            ops.where(own < last, own, -1),
            ops.where(own + 1 < last, own + 1, -1),
            own * 0 + last,
        ],
        axis=3,
    )  # [B, C, 1, 5]
    sparse = ops.broadcast_to(sparse, (batch_size, num_blocks, num_heads, 5))
    near, far = (
        ops.expand_dims(ops.convert_to_tensor(table)[:num_blocks], 0)
        for table in random_blocks(layer, num_heads, block_size, num_random, most_blocks)
    )  # [1, C, N, R]
    row_length = (last + 1) * block_size
    has_length_of_paper = functools.reduce(
        ops.logical_or, (ops.equal(row_length, length) for length in _LENGTHS_OF_THE_PAPER)
    )
    # Blocks beyond the last one hold padding only; nobody reads what they gather.
    chosen = ops.minimum(ops.where(has_length_of_paper, far, near), last)
    full = ops.arange(most_full, dtype="int32")
    full = ops.where(full <= last, full, -1)  # [B, 1, 1, 5 + 2 R]
    unused = ops.full((batch_size, num_blocks, num_heads, num_random), -1, dtype="int32")
    numbers = ops.where(is_full, full, ops.concatenate([sparse, chosen, unused], axis=3))
    numbers = numbers[..., : _most_chosen(num_blocks, is_full, most_full, most_full - num_random)]

    blocks_of_keys = ops.reshape(is_token, (batch_size, num_blocks, block_size))
    rows = ops.reshape(ops.arange(batch_size, dtype="int32") * num_blocks, (-1, 1, 1, 1))
    is_key = ops.take(ops.reshape(blocks_of_keys, (-1, block_size)), rows + ops.maximum(numbers, 0), axis=0)
    is_key = ops.logical_and(is_key, ops.expand_dims(numbers >= 0, 4))  # [B, C, N, M, b]
    bias = bias_of(ops.reshape(is_key, (batch_size, num_blocks, num_heads, 1, -1)))
    return SparseBlocks(numbers, bias, last[:, 0, 0], bias_of(is_token)[:, None, None])


@functools.lru_cache(maxsize=64)
def random_blocks(layer: int, num_heads: int, block_size: int, num_random: int, most_blocks: int):
    """Draws the random blocks of a layer, as google-research/bigbird does. Every call draws the same.

    The seed is the number of the layer, and NumPy has frozen this generator, so a model always has the same blocks.

    Returns:
        two int32 arrays `[most_blocks, N, R]`: the blocks for most rows, and those for rows of 1,024, 3,072 and 4,096
        tokens. The first and the last block of a row need none; the arrays have 0 for them.

    Reference: google-research/bigbird `core/attention.py`; transformers `models/big_bird/modeling_big_bird.py`, which
    chooses between the two at these three lengths.
    """
    shape = (most_blocks, num_heads, num_random)
    near, far = np.zeros(shape, "int32"), np.zeros(shape, "int32")
    generator, limit = np.random.RandomState(layer), 5 + 2 * num_random
    for block in range(1, most_blocks - 1):
        refused = {0, block - 1, block, block + 1, limit - 1}
        refused |= {limit - 2} if block == 1 else {1} if block == limit - 2 else set()
        for head in range(num_heads):
            drawn = [number for number in generator.permutation(limit) if number not in refused]
            near[block, head] = drawn[:num_random]
    end = _RANGE_OF_THE_PAPER // block_size - 1
    if min(end, most_blocks - 2) - 3 < num_random or most_blocks <= end:
        return near, near
    generator, middle = np.random.RandomState(layer), np.arange(1, most_blocks - 1)
    for head in range(num_heads):
        for block in range(1, most_blocks - 1):
            candidates = _candidates(block, middle, end, most_blocks)
            far[block, head] = generator.permutation(candidates)[:num_random]
    return near, far


def _candidates(block: int, middle: np.ndarray, end: int, most_blocks: int) -> np.ndarray:
    """Returns the blocks among which the authors draw for rows of 1,024, 3,072 and 4,096 tokens."""
    if block <= 2:
        return middle[block + 1 : end]
    if block >= most_blocks - 3 or block - 2 > end:
        return middle[:end]
    if block + 1 == end:
        return middle[: block - 2]
    return np.concatenate([middle[: block - 2], middle[block + 1 : end]])


def _most_chosen(num_blocks, is_full, most_full: int, most_sparse: int):
    """Returns how many blocks a block attends to at most: in rows with full attention and in others."""
    if isinstance(num_blocks, int) and num_blocks <= most_full:
        return num_blocks
    if tensorflow_functions and tensorflow_functions.lengths_may_vary():
        return ops.minimum(num_blocks, ops.where(ops.any(is_full), most_full, most_sparse))
    return most_full


def _smaller(number: int, length):
    return min(number, length) if isinstance(length, int) else ops.minimum(number, length)
