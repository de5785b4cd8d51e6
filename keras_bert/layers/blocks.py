"""Rows in blocks: each block attends to few others, so no tensor has a score for every pair of tokens."""

from keras import ops


def block_attention(query, keys, values, bias, attention):
    """Attention of every block to the keys that were gathered for it.

    Args:
        query: float `[B, C, N, b, D]`: row, block, head, token in the block; divided by the square root of D.
        keys, values: float `[B, C, N, K, D]`, from `neighbouring_blocks` or `chosen_blocks`.
        bias: float `[B, C, 1 or N, 1 or b, K]`: 0 where a token may attend, a large negative number elsewhere.
        attention: function of these four as `[B * C, ...]`, such as `formulas.attention`.

    Returns:
        `[B, C, N, b, D]`.

    Reference: Beltagy et al., 2020, arXiv 2004.05150; Zaheer et al., 2020, arXiv 2007.14062, appendix D.
    """
    flat = [ops.reshape(values, (-1, *ops.shape(values)[2:])) for values in (query, keys, values, bias)]
    return ops.reshape(attention(*flat), ops.shape(query))


def neighbouring_blocks(blocks, shared=None):
    """Gathers for every block: the shared vectors, the block before it, itself, and the block after it.

    `[B, C, N, b, D]` and the shared ones of a row, `[B, N, G, D]` -> `[B, C, N, G + 3 b, D]`. Without shared ones, G is
    0. Before the first block and after the last one there are zeros.
    """
    if shared is None:
        return ops.concatenate(_around(blocks), axis=3)
    num_blocks = ops.shape(blocks)[1]
    shape = ops.shape(shared)
    shared = ops.broadcast_to(ops.expand_dims(shared, 1), (shape[0], num_blocks, *shape[1:]))
    return ops.concatenate([shared, *_around(blocks)], axis=3)


def with_neighbours(rows):
    """Joins each block with those beside it: `[B, C, b]` -> `[B, C, 3 b]`. Beside the first and the last are zeros."""
    return ops.concatenate(_around(rows), axis=2)


def _around(blocks):
    """Returns the block before each, the blocks themselves, and the block after each."""
    padded = ops.pad(blocks, [[0, 0], [1, 1], *[[0, 0]] * (len(blocks.shape) - 2)])
    return [padded[:, :-2], blocks, padded[:, 2:]]


def in_blocks(rows, block_size: int):
    """Divides rows into blocks: `[B, S]` -> `[B, C, b]`. The last block is filled up with zeros."""
    length = ops.shape(rows)[1]
    num_blocks = -(-length // block_size)
    rows = ops.pad(rows, [[0, 0], [0, num_blocks * block_size - length]])
    return ops.reshape(rows, (-1, num_blocks, block_size))
