"""Packs the rows of a batch into fewer rows without padding, and takes their vectors out again.

A batch of texts of different lengths is mostly padding. When its rows are packed, its cost depends on the tokens only.
The results stay the same: the numbers in `input_mask` say which tokens attend to each other, and positions are kept.

It runs on TensorFlow, but not under XLA: the number of packed rows is known only when they are computed.

Reference: Krell et al., 2021, arXiv 2107.02027, pack the rows of pre-training data; this packs a batch.
"""

from typing import NamedTuple

import tensorflow as tf

# Row lengths are rounded up to a multiple of this number of columns.
_COLUMNS = 8
# The sizes that `few_shapes` rounds up to: numbers of rows, and row lengths in units of `_COLUMNS`.
_NUMBERS_OF_ROWS = [*range(1, 9), *(size * 2**power for power in range(1, 26) for size in (5, 6, 7, 8))]
_LENGTHS = [1, 2, *(size * 2**power for power in range(26) for size in (3, 4))]


class PackedRows(NamedTuple):
    """A batch of B rows and S columns, packed into R rows of W columns with at most K sequences each.

    Attributes:
        input_ids, input_mask, positions, segment_ids: int32 `[R, W]`, the inputs of the encoder. Each sequence of the
            batch has its own number in `input_mask`.
        flat_indices: int32 `[B, S]`, the index of each token of the batch among the R * W packed tokens. Padding has
            the index of the first token of its row.
        first_columns: int32 `[R, K]`, the columns where the rows of the batch begin.
        first_flat_indices: int32 `[B]`, the index of each row of the batch among the R * K entries of `first_columns`.
    """

    input_ids: tf.Tensor
    input_mask: tf.Tensor
    positions: tf.Tensor
    segment_ids: tf.Tensor
    flat_indices: tf.Tensor
    first_columns: tf.Tensor
    first_flat_indices: tf.Tensor


def pack_rows(input_ids, input_mask, positions, segment_ids, hidden_size: int, few_shapes: bool = False) -> PackedRows:
    """Packs the rows of a batch into fewer rows.

    oneDNN compiles and keeps code for every shape, so a server's memory grows with the number of different shapes.
    `few_shapes` rounds sizes up: the number of rows to four sizes for each power of 2 above 8; row lengths to two sizes
    for each power of 2 (in units of 8 columns); sequences per row to 1 or a multiple of 8.

    Args:
        input_ids, input_mask, positions, segment_ids: int32 `[B, S]`. Tokens are where `input_mask` is not 0. A row
            without tokens keeps its first column.
        hidden_size: the width of the encoder. The layout with the lowest cost depends on it.
        few_shapes: whether R, W and K are rounded up, as above.
    """
    num_rows, length = tf.shape(input_mask)[0], tf.shape(input_mask)[1]
    is_empty = tf.reduce_all(tf.equal(input_mask, 0), axis=1, keepdims=True)
    is_token = (input_mask != 0) | (is_empty & (tf.range(length) == 0))
    counts = tf.reduce_sum(tf.cast(is_token, tf.int32), axis=1)
    rows, columns, order, width = lay_out(counts, tf.constant(hidden_size), tf.constant(few_shapes))
    num_packed = _round_up(_largest(rows) + 1, _NUMBERS_OF_ROWS) if few_shapes else _largest(rows) + 1

    starts = (rows * width + columns)[:, None]
    flat_indices = starts + tf.where(is_token, tf.cumsum(tf.cast(is_token, tf.int32), axis=1) - 1, 0)
    numbers = tf.range(num_rows)[:, None] * (tf.reduce_max(input_mask) + 1) + input_mask + 1
    values = tf.boolean_mask(tf.stack([input_ids, numbers, positions, segment_ids], axis=-1), is_token)
    indices = tf.boolean_mask(flat_indices, is_token)[:, None]
    packed = tf.reshape(tf.scatter_nd(indices, values, [num_packed * width, 4]), [num_packed, width, 4])

    max_sequences = tf.maximum(_largest(order) + 1, 1)
    if few_shapes:
        max_sequences = tf.where(max_sequences > 1, _multiple(max_sequences), 1)
    first_flat_indices = rows * max_sequences + order
    first_columns = tf.scatter_nd(first_flat_indices[:, None], columns, [num_packed * max_sequences])
    return PackedRows(
        *tf.unstack(packed, axis=-1),
        flat_indices=flat_indices,
        first_columns=tf.reshape(first_columns, [num_packed, max_sequences]),
        first_flat_indices=first_flat_indices,
    )


@tf.function(
    input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.bool)],
    autograph=False,
    jit_compile=False,
)
def lay_out(counts, hidden_size, few_shapes):
    """Assigns each sequence to a row: the longest sequence first, each to the first row with room.

    Three row lengths are tried: that of the longest sequence, and a quarter and a half more. They are rounded up to 8
    columns, and further with `few_shapes`. The layout with the lowest cost is returned. A single sequence is always
    rounded up to 8 columns only: there are few such lengths, and nothing would fill a longer row.

    The cost of a column in one encoder layer is 24 H^2 operations in the dense layers and about 12 H W in the attention
    (slow operations count more), with H = hidden size and W = row length. So R rows cost R W (2 H + W), times 12 H.

    Sequences of equal length are assigned in one step, which takes as many steps as there are different lengths. The
    layout is the same as with one step per sequence.

    Args:
        counts: int32 `[B]`, the number of tokens of each sequence, at least 1.
        hidden_size: int32 scalar.
        few_shapes: bool scalar, as in `pack_rows`.

    Returns:
        rows, columns: int32 `[B]`, where each sequence begins.
        order: int32 `[B]`, the number of sequences before it in its row.
        width: int32 scalar, the length of the rows.
    """
    num_rows, longest = tf.size(counts), _multiple(tf.maximum(_largest(counts), 1))
    widths = _multiple(tf.stack([longest, longest + longest // 4, longest + longest // 2]))  # [C]
    widths = tf.where(few_shapes & (num_rows > 1), _round_up(widths // _COLUMNS, _LENGTHS) * _COLUMNS, widths)
    longest_first = tf.argsort(counts, direction="DESCENDING", stable=True)
    lengths, _, numbers = tf.unique_with_counts(tf.gather(counts, longest_first))

    def assign_next_length(step, room, rows):  # C = 3 widths. room: [C, B]; rows: [C, sequences so far]
        length, number = lengths[step], numbers[step]
        fitting = room // length
        taken_by_all = tf.cumsum(fitting, axis=1)
        sequences = tf.tile(tf.range(number)[None], [3, 1])
        rows = tf.concat([rows, tf.searchsorted(taken_by_all, sequences, side="right")], axis=1)
        taken = tf.clip_by_value(number - taken_by_all + fitting, 0, fitting)
        return step + 1, room - length * taken, rows

    shapes = (tf.TensorShape([]), tf.TensorShape([3, None]), tf.TensorShape([3, None]))
    _, _, rows = tf.while_loop(
        lambda step, *_: step < tf.size(lengths),
        assign_next_length,
        (0, tf.repeat(widths[:, None], num_rows, axis=1), tf.zeros([3, 0], tf.int32)),
        shape_invariants=shapes,
        parallel_iterations=1,
    )
    num_packed = tf.maximum(tf.reduce_max(rows, axis=1), -1) + 1  # 0 if there are no sequences
    num_packed = tf.cast(tf.where(few_shapes, _round_up(num_packed, _NUMBERS_OF_ROWS), num_packed), tf.int64)
    # The cost of 3,000 rows of 512 tokens overflows 32 bits.
    hidden_size, widths_64 = tf.cast(hidden_size, tf.int64), tf.cast(widths, tf.int64)
    best = tf.argmin(num_packed * widths_64 * (2 * hidden_size + widths_64))
    return *_positions_in_rows(counts, longest_first, rows[best]), widths[best]


def _positions_in_rows(counts, longest_first, rows):
    """Returns rows, columns and order as `lay_out` does. `rows` has the row of each sequence in order of length."""
    row_by_row = tf.argsort(rows, stable=True)
    rows, sequences = tf.gather(rows, row_by_row), tf.gather(longest_first, row_by_row)
    starts = tf.cumsum(tf.gather(counts, sequences), exclusive=True)
    first_of_row = tf.searchsorted(rows, rows)
    columns = starts - tf.gather(starts, first_of_row)
    order = tf.range(tf.size(rows)) - first_of_row
    positions = tf.stack([rows, columns, order], axis=1)
    return tf.unstack(tf.scatter_nd(sequences[:, None], positions, tf.shape(positions)), axis=1)


def _round_up(numbers, sizes: list[int]):
    """Rounds numbers up to the next of the ascending sizes: [3, 5], sizes [4, 8] -> [4, 8]."""
    numbers = tf.convert_to_tensor(numbers)
    return tf.reshape(tf.gather(sizes, tf.searchsorted(sizes, tf.reshape(numbers, [-1]))), tf.shape(numbers))


def _multiple(numbers):
    """Rounds up to a multiple of `_COLUMNS`: 9 -> 16."""
    return (numbers + _COLUMNS - 1) // _COLUMNS * _COLUMNS


def _largest(values):
    """Returns the largest number, or -1 if there is none."""
    return tf.reduce_max(tf.concat([values, [-1]], 0))


def unpack(vectors, flat_indices):
    """Takes vectors out of packed rows `[R, W, H]`; the indices into the R * W tokens are int32 of any shape."""
    return tf.gather(tf.reshape(vectors, [-1, vectors.shape[-1]]), flat_indices)
