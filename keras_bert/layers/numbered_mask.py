"""What an `input_mask` of numbered sequences means: who attends to whom, and where each token stands.

0 is padding and n >= 1 is the n-th sequence packed in the row. The usual 0/1 mask is the case of one sequence, so one
rule covers padded batches and packed rows, and there is no second attention path.
"""

from keras import ops

from keras_bert.accelerate.backend import tensorflow_functions

# Added to a score, it leaves a probability of exactly 0. Minus infinity would make the softmax of a padding token NaN,
# and a larger number would become infinite in float16.
_MASKED = -30000.0


def attention_bias(input_mask, dtype="float32", query_mask=None):
    """Returns what is added to the attention scores: 0 where a token may look, a large negative number elsewhere.

    A token looks at the tokens with its own non-zero number. Padding looks at all tokens of its row, as in Google's
    code, where the mask is one of what is looked at: its vector means nothing, but is exact. (With all scores lowered
    alike, they would be rounded to multiples of 0.002 in float32.)

    Args:
        input_mask: int `[B, S]`.
        query_mask: int `[B, F]`, the numbers of the tokens that attend; `input_mask` by default.

    Returns:
        `dtype`, `[B, 1, F, S]`: row, (any head), the token that looks, the token looked at. Or `[B, 1, 1, S]`: the
        same for all tokens of a row, where no row has several sequences and lengths may vary.

    Example:
        one row `[1, 1, 2, 0]` lets tokens look as
            [[x, x, ., .],
             [x, x, ., .],
             [., ., x, .],
             [x, x, x, .]]
    """
    query_numbers = input_mask if query_mask is None else query_mask
    if query_mask is None and tensorflow_functions and tensorflow_functions.lengths_may_vary():
        # The first token stands for all of its row where none has several sequences.
        query_numbers = query_numbers[:, : ops.where(_is_packed(input_mask), ops.shape(input_mask)[1], 1)]
    query_numbers = ops.expand_dims(query_numbers, 2)
    key_numbers = ops.expand_dims(input_mask, 1)
    allowed = ops.logical_or(ops.equal(query_numbers, key_numbers), ops.equal(query_numbers, 0))
    allowed = ops.logical_and(allowed, ops.not_equal(key_numbers, 0))
    return ops.expand_dims((1.0 - ops.cast(allowed, dtype)) * _MASKED, 1)


def position_ids(input_mask):
    """Returns the position of every token: its column, counted anew where another packed sequence starts.

    A sequence starts anew only where the number differs from the last non-zero one before it. So rows of 0 and 1 have
    their column index, left-padded ones too, as everywhere else.

    Args:
        input_mask: int32 `[B, S]`.

    Returns:
        int32 `[B, S]`.

    Example:
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
    """Returns the positions with those of each row's first sequence counted from its first token.

    Args:
        positions: int32 `[B, S]`, as `position_ids` returns them.
        input_mask: int32 `[B, S]`.

    Example:
        mask [[0, 0, 1, 1], [1, 2, 2, 0]], positions [[0, 1, 2, 3], [0, 0, 1, 2]]  ->  [[0, 0, 0, 1], [0, 0, 1, 2]]
    """
    columns = ops.arange(ops.shape(input_mask)[1], dtype="int32")
    seen = ops.cumsum(ops.cast(ops.not_equal(input_mask, 0), "int32"), axis=1)
    num_left = ops.sum(ops.cast(ops.equal(seen, 0), "int32"), axis=1, keepdims=True)
    # The sequences that start later stand at other positions than their columns.
    return ops.maximum(positions - ops.where(ops.equal(positions, columns), num_left, 0), 0)


def _is_packed(input_mask):
    """Returns bool `[]`: whether a row may have several sequences."""
    return ops.any(ops.greater(input_mask, 1))


def _positions_in_packed_rows(input_mask, columns):
    is_token = ops.not_equal(input_mask, 0)
    # Running maxima, written as a comparison of all pairs of columns: Keras has none that takes an unknown length, and
    # the attention scores hold as many numbers for every head of every layer.
    earlier = ops.less(ops.expand_dims(columns, 0), ops.expand_dims(columns, 1))
    last_token = _largest_column(ops.logical_and(earlier, ops.expand_dims(is_token, 1)), columns)
    last_number = ops.take_along_axis(input_mask, ops.maximum(last_token, 0), axis=1)
    starts_anew = is_token & (last_token >= 0) & ops.not_equal(last_number, input_mask)
    not_later = ops.less_equal(ops.expand_dims(columns, 0), ops.expand_dims(columns, 1))
    start = _largest_column(ops.logical_and(not_later, ops.expand_dims(starts_anew, 1)), columns)
    return columns - ops.maximum(start, 0)


def _largest_column(among, columns):
    """Returns, for bool `[B, S, S]`, the largest column that is true in each row, -1 where there is none: `[B, S]`."""
    return ops.max(ops.where(among, columns, -1), axis=2)
