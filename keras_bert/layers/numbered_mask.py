"""Reads the numbered sequences of `input_mask`: which tokens attend to each other, and their positions.

0 is padding and n >= 1 is the n-th sequence packed in the row. The usual 0/1 mask is the case of one sequence, so the
same code serves padded batches and packed rows.
"""

from typing import Any, NamedTuple

from keras import ops

from keras_bert.accelerate.backend import tensorflow_functions
from keras_bert.layers.blocks import in_blocks, with_neighbours

# A score with this added gets a probability of exactly 0. Minus infinity would give NaN if all scores of a row had it,
# and numbers below -65504 are infinite in float16.
MASKED = -30000.0


class SequenceNumbers(NamedTuple):
    """Who may attend to whom, instead of the bias that `attention_bias` returns: without a number for every pair."""

    queries: Any  # int `[B, F]`, the numbers of the tokens that attend; None: all do
    keys: Any  # int `[B, S]`, the numbers of all tokens


def attention_bias(input_mask, query_mask=None):
    """Returns the bias of the attention scores: 0 where a token may attend, a large negative number elsewhere.

    A token attends to the tokens with its own number. Padding attends to all tokens of its row, as in Google's code.
    Its vectors have no meaning, but equal those of other implementations. If all its scores were masked instead,
    float32 would round them to multiples of 0.002.

    Args:
        input_mask: int `[B, S]`.
        query_mask: int `[B, F]`, the numbers of the tokens that attend; `input_mask` by default.

    Returns:
        `[B, 1, F, S]`: row, (all heads), the token that attends, the token that is attended to. `[B, 1, 1, S]` if no
        row has several sequences and the graph allows variable lengths: then all tokens of a row share one bias.

    Example:
        one row `[1, 1, 2, 0]` -> allowed (x) and masked (.)
            [[x, x, ., .],
             [x, x, ., .],
             [., ., x, .],
             [x, x, x, .]]
    """
    query_numbers = input_mask if query_mask is None else query_mask
    if query_mask is None and tensorflow_functions and tensorflow_functions.lengths_may_vary():
        # Without packed rows, the bias of a row's first token is that of all its tokens.
        query_numbers = query_numbers[:, : ops.where(_is_packed(input_mask), ops.shape(input_mask)[1], 1)]
    return ops.expand_dims(bias_of(_may_attend(query_numbers, input_mask)), 1)


def local_attention_bias(input_mask, positions, reach: int, query_columns=None):
    """As `attention_bias`, but a token attends only to those at most `reach` positions away. Padding attends to all.

    Args:
        input_mask: int `[B, S]`.
        positions: int `[B, S]`, the positions of the tokens in their sequences.
        reach: the largest distance, 1 or more.
        query_columns: int `[B, F]`, the columns of the tokens that attend; by default all do.

    Returns:
        `[B, 1, F, S]`, or `[B, 1, 1, S]` if no row has several sequences, no distance exceeds `reach`, and the graph
        allows variable lengths.

    Example:
        one row `[1, 1, 1, 0]` with a reach of 1 -> allowed (x) and masked (.)
            [[x, x, ., .],
             [x, x, x, .],
             [., x, x, .],
             [x, x, x, .]]
    """
    query_numbers, query_positions = input_mask, positions
    if query_columns is not None:
        query_numbers, query_positions = (ops.take_along_axis(a, query_columns, 1) for a in (input_mask, positions))
    elif tensorflow_functions and tensorflow_functions.lengths_may_vary():
        differs = ops.logical_or(_is_packed(input_mask), ops.max(positions) - ops.min(positions) > reach)
        num_rows = ops.where(differs, ops.shape(input_mask)[1], 1)
        query_numbers, query_positions = query_numbers[:, :num_rows], query_positions[:, :num_rows]
    return ops.expand_dims(bias_of(_may_attend_near(query_numbers, input_mask, query_positions, positions, reach)), 1)


def window_bias(input_mask, positions, reach: int):
    """As `local_attention_bias`, for rows in blocks of `reach` tokens. A block attends to its neighbours only.

    Positions must count the columns of each sequence. Tokens that may attend to each other then are in the same block
    or in neighbouring ones. Padding attends to these.

    Returns:
        `[B, C, 1, b, 3 b]` for C blocks of b = `reach` tokens and the keys of `neighbouring_blocks`.
    """
    numbers, places = in_blocks(input_mask, reach), in_blocks(positions, reach)
    near = [with_neighbours(blocks) for blocks in (numbers, places)]
    _, num_blocks, _ = ops.shape(numbers)
    flat = [ops.reshape(part, (-1, part.shape[-1])) for part in (numbers, near[0], places, near[1])]
    bias = bias_of(_may_attend_near(*flat, reach))
    return ops.reshape(bias, (-1, num_blocks, 1, reach, 3 * reach))


def position_ids(input_mask):
    """Returns the position of every token: its column, counted from 0 again where the next packed sequence starts.

    A new sequence starts where the number differs from the last non-zero number before it. So in rows of 0 and 1 the
    position is the column, also with padding on the left.

    Example, int32 `[B, S]` -> int32 `[B, S]`:
        [[1, 1, 1, 2, 2, 0],      [[0, 1, 2, 0, 1, 2],
         [0, 0, 1, 1, 1, 1]]  ->   [0, 1, 2, 3, 4, 5]]
    """
    columns = ops.arange(ops.shape(input_mask)[1], dtype="int32")
    return ops.cond(
        _is_packed(input_mask),
        lambda: _positions_in_packed_rows(input_mask, columns),
        lambda: ops.zeros_like(input_mask) + columns,
    )


def without_left_padding(positions, input_mask):
    """Returns the result of `position_ids`, with each row's first sequence counted from its first token.

    Example, each int32 `[B, S]`:
        mask [[0, 0, 1, 1], [1, 2, 2, 0]], positions [[0, 1, 2, 3], [0, 0, 1, 2]]  ->  [[0, 0, 0, 1], [0, 0, 1, 2]]
    """
    columns = ops.arange(ops.shape(input_mask)[1], dtype="int32")
    seen = ops.cumsum(ops.cast(ops.not_equal(input_mask, 0), "int32"), axis=1)
    num_left = ops.sum(ops.cast(ops.equal(seen, 0), "int32"), axis=1, keepdims=True)
    # The sequences that start later stand at other positions than their columns.
    return ops.maximum(positions - ops.where(ops.equal(positions, columns), num_left, 0), 0)


def columns_with_first_last(input_mask):
    """Moves the first token of every sequence behind its last token: [CLS] a [SEP] -> a [SEP] [CLS].

    Returns:
        two int32 `[B, S]`: the new column of each token, and the old column of the token in each new column; and bool
        `[B, S]`, true for the first tokens, in the old columns.

    Example:
        [[1, 1, 1, 2, 2, 0],      [[2, 0, 1, 4, 3, 5],       [[1, 2, 0, 4, 3, 5],
         [0, 0, 1, 1, 1, 1]]  ->   [0, 1, 5, 2, 3, 4]]  and   [0, 1, 3, 4, 5, 2]]
    """
    columns = ops.arange(ops.shape(input_mask)[1], dtype="int32")
    starts = columns - without_left_padding(position_ids(input_mask), input_mask)
    is_token = ops.not_equal(input_mask, 0)
    ends = ops.cond(
        _is_packed(input_mask),
        lambda: _largest_column(
            ops.equal(ops.expand_dims(starts, 1), ops.expand_dims(starts, 2)) & ops.expand_dims(is_token, 1), columns
        ),
        lambda: ops.max(ops.where(is_token, columns, -1), axis=1, keepdims=True) + ops.zeros_like(starts),
    )
    first_token = ops.where(is_token, starts, -1)
    is_first = ops.equal(first_token, columns)
    is_inside = (columns >= starts) & (columns <= ends) & (is_token | (columns > starts))
    moved = ops.where(is_inside, ops.where(is_first, ends, columns - 1), columns)
    origins = ops.where(is_inside, ops.where(ops.equal(columns, ends), starts, columns + 1), columns)
    return moved, origins, is_first


def _may_attend(query_numbers, key_numbers):
    """Returns whether token f may attend to token s: int `[B, F]`, int `[B, S]` -> bool `[B, F, S]`."""
    query_numbers, key_numbers = ops.expand_dims(query_numbers, 2), ops.expand_dims(key_numbers, 1)
    allowed = ops.logical_or(ops.equal(query_numbers, key_numbers), ops.equal(query_numbers, 0))
    return ops.logical_and(allowed, ops.not_equal(key_numbers, 0))


def _may_attend_near(query_numbers, key_numbers, query_positions, key_positions, reach):
    """As `_may_attend`, and at most `reach` positions away; padding attends to all: bool `[B, F, S]`."""
    distances = ops.abs(ops.expand_dims(query_positions, 2) - ops.expand_dims(key_positions, 1))
    is_near = ops.logical_or(distances <= reach, ops.equal(ops.expand_dims(query_numbers, 2), 0))
    return ops.logical_and(_may_attend(query_numbers, key_numbers), is_near)


def bias_of(allowed):
    """Returns 0 where it is allowed and a large negative number elsewhere: bool `[...]` -> float32 `[...]`."""
    return (1.0 - ops.cast(allowed, "float32")) * MASKED


def _is_packed(input_mask):
    """Returns a bool scalar: whether any row may have several sequences."""
    return ops.any(ops.greater(input_mask, 1))


def _positions_in_packed_rows(input_mask, columns):
    is_token = ops.not_equal(input_mask, 0)
    last_token = _latest(is_token, columns, ops.less)
    last_number = ops.take_along_axis(input_mask, ops.maximum(last_token, 0), axis=1)
    starts_sequence = is_token & (last_token >= 0) & ops.not_equal(last_number, input_mask)
    return columns - ops.maximum(_latest(starts_sequence, columns, ops.less_equal), 0)


def _latest(is_marked, columns, comes_first):
    """Returns the last marked column before each, -1 if there is none: bool `[B, S]` -> int32 `[B, S]`.

    A column itself counts if `comes_first` is `ops.less_equal` instead of `ops.less`.
    """
    if tensorflow_functions:
        # It has no running maximum for unknown lengths. Each attention head has as many scores as there are pairs.
        earlier = comes_first(ops.expand_dims(columns, 0), ops.expand_dims(columns, 1))
        return _largest_column(ops.logical_and(earlier, ops.expand_dims(is_marked, 1)), columns)
    latest = ops.associative_scan(ops.maximum, ops.where(is_marked, columns, -1), axis=1)
    return latest if comes_first is ops.less_equal else ops.pad(latest[:, :-1], [[0, 0], [1, 0]], constant_values=-1)


def _largest_column(is_candidate, columns):
    """Returns the largest true column, or -1 if all are false: bool `[B, S, S]` -> int32 `[B, S]`."""
    return ops.max(ops.where(is_candidate, columns, -1), axis=2)
