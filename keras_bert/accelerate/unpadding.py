"""Rows of tokens without their padding: several are laid into one, as numbered sequences, and taken out again.

A batch of texts of mixed lengths is mostly padding. Its rows, packed into fewer rows, cost what their tokens cost, and
nothing else changes: who attends to whom is said by the numbers of `input_mask`, where a token stands by its position.

It is done in TensorFlow, and not where XLA compiles: how many rows there will be is known only when they are there.

Reference: Krell et al., 2021, arXiv 2107.02027, pack the rows of pre-training data; this packs a batch.
"""

from typing import NamedTuple

import tensorflow as tf

# Rows are a multiple of so many columns long.
_COLUMNS = 8
# Where there are to be few shapes: numbers of rows, and their lengths in `_COLUMNS`.
_NUMBERS = [*range(1, 9), *(size * 2**power for power in range(1, 26) for size in (5, 6, 7, 8))]
_LENGTHS = [1, 2, *(size * 2**power for power in range(26) for size in (3, 4))]


class PackedRows(NamedTuple):
    """A batch `[B, S]` in R rows of W columns, of which K or fewer sequences begin in each.

    Attributes:
        input_ids, input_mask, positions, segment_ids: int32 `[R, W]`, what the encoder reads. Numbers of the mask are
            different for all rows and sequences of the batch.
        flat_indices: int32 `[B, S]`: the tokens, counted through all rows. Padding stands for the first token of
            its own row.
        first_columns: int32 `[R, K]`, where the rows of the batch begin.
        first_flat_indices: int32 `[B]`: the first token of each row of the batch, counted through all rows.
    """

    input_ids: tf.Tensor
    input_mask: tf.Tensor
    positions: tf.Tensor
    segment_ids: tf.Tensor
    flat_indices: tf.Tensor
    first_columns: tf.Tensor
    first_flat_indices: tf.Tensor


def pack_rows(input_ids, input_mask, positions, segment_ids, hidden_size: int, few_shapes: bool = False) -> PackedRows:
    """Lays the rows of a batch into as few rows as it finds.

    oneDNN makes and keeps code for every shape, so a server's memory grows with the shapes that come. With
    `few_shapes` numbers of rows are rounded up to 1 to 8, and to four sizes for each power of 2 beyond, lengths to 1, 2
    and two sizes for each power of 2 (times 8 columns), and sequences in a row to 1 or a multiple of 8.

    Args:
        input_ids, input_mask, positions, segment_ids: int32 `[B, S]`. Tokens are where `input_mask` is not 0; a row
            without any keeps its first column.
        hidden_size: the width of the encoder, which decides how much longer rows may cost.
        few_shapes: whether R, W and K are rounded up, as above.
    """
    num_rows, length = tf.shape(input_mask)[0], tf.shape(input_mask)[1]
    is_empty = tf.reduce_all(tf.equal(input_mask, 0), axis=1, keepdims=True)
    is_token = (input_mask != 0) | (is_empty & (tf.range(length) == 0))
    counts = tf.reduce_sum(tf.cast(is_token, tf.int32), axis=1)
    rows, columns, order, width = lay_out(counts, tf.constant(hidden_size), tf.constant(few_shapes))
    num_packed = _round_up(_largest(rows) + 1, _NUMBERS) if few_shapes else _largest(rows) + 1

    starts = (rows * width + columns)[:, None]
    flat_indices = starts + tf.where(is_token, tf.cumsum(tf.cast(is_token, tf.int32), axis=1) - 1, 0)
    numbers = tf.range(num_rows)[:, None] * (tf.reduce_max(input_mask) + 1) + input_mask + 1
    values = tf.boolean_mask(tf.stack([input_ids, numbers, positions, segment_ids], axis=-1), is_token)
    indices = tf.boolean_mask(flat_indices, is_token)[:, None]
    packed = tf.reshape(tf.scatter_nd(indices, values, [num_packed * width, 4]), [num_packed, width, 4])

    most = tf.maximum(_largest(order) + 1, 1)
    if few_shapes:
        most = tf.where(most > 1, _multiple(most), 1)
    first_flat_indices = rows * most + order
    first_columns = tf.scatter_nd(first_flat_indices[:, None], columns, [num_packed * most])
    return PackedRows(
        *tf.unstack(packed, axis=-1),
        flat_indices=flat_indices,
        first_columns=tf.reshape(first_columns, [num_packed, most]),
        first_flat_indices=first_flat_indices,
    )


@tf.function(
    input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.bool)],
    autograph=False,
    jit_compile=False,
)
def lay_out(counts, hidden_size, few_shapes):
    """Decides which row each sequence goes to: the longest first, into the first row that has room.

    It is tried with rows as long as the longest sequence, a quarter longer, and half longer, all rounded up to 8
    columns or, with `few_shapes`, further; what costs least is taken. A batch of one row is rounded up to 8 columns in
    any case: there are few such lengths, and nothing would fill it.
    A column costs the dense layers 24 H^2 operations in a layer, and attention about 12 H W, as many of its operations
    being slow ones; H is the hidden size and W the length of the rows.

    Sequences of one length go together, each row taking as many as it has room for: the same layout as one after the
    other, in as many steps as there are lengths.

    Args:
        counts: int32 `[B]`, numbers of tokens, each at least 1.
        hidden_size: int32 scalar.
        few_shapes: bool scalar, as in `pack_rows`.

    Returns:
        rows, columns: int32 `[B]`, where each sequence begins; order: int32 `[B]`, how many sequences lie before it in
        its row; width: an int32 scalar.
    """
    num_rows, longest = tf.size(counts), _multiple(tf.maximum(_largest(counts), 1))
    widths = _multiple(tf.stack([longest, longest + longest // 4, longest + longest // 2]))  # [C]
    widths = tf.where(few_shapes & (num_rows > 1), _round_up(widths // _COLUMNS, _LENGTHS) * _COLUMNS, widths)
    longest_first = tf.argsort(counts, direction="DESCENDING", stable=True)
    lengths, _, numbers = tf.unique_with_counts(tf.gather(counts, longest_first))

    def lay(step, room, rows):  # C = 3 widths. room: [C, B]; rows: [C, sequences so far]
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
        lay,
        (0, tf.repeat(widths[:, None], num_rows, axis=1), tf.zeros([3, 0], tf.int32)),
        shape_invariants=shapes,
        parallel_iterations=1,
    )
    num_packed = tf.maximum(tf.reduce_max(rows, axis=1), -1) + 1  # 0 of no sequences
    num_packed = tf.cast(tf.where(few_shapes, _round_up(num_packed, _NUMBERS), num_packed), tf.int64)
    # In 64 bits: 3,000 rows of 512 tokens cost more than 32 hold.
    hidden_size, widths_64 = tf.cast(hidden_size, tf.int64), tf.cast(widths, tf.int64)
    best = tf.argmin(num_packed * widths_64 * (2 * hidden_size + widths_64))
    return *_positions_in_rows(counts, longest_first, rows[best]), widths[best]


def _positions_in_rows(counts, longest_first, rows):
    """Returns rows, columns and order as `lay_out` does, from the row of each sequence, the longest sequence first."""
    row_by_row = tf.argsort(rows, stable=True)
    rows, sequences = tf.gather(rows, row_by_row), tf.gather(longest_first, row_by_row)
    starts = tf.cumsum(tf.gather(counts, sequences), exclusive=True)
    first_of_row = tf.searchsorted(rows, rows)
    columns = starts - tf.gather(starts, first_of_row)
    order = tf.range(tf.size(rows)) - first_of_row
    positions = tf.stack([rows, columns, order], axis=1)
    return tf.unstack(tf.scatter_nd(sequences[:, None], positions, tf.shape(positions)), axis=1)


def _round_up(numbers, sizes: list[int]):
    """Returns the next of the sizes, which are in ascending order, for int32 of any shape."""
    numbers = tf.convert_to_tensor(numbers)
    return tf.reshape(tf.gather(sizes, tf.searchsorted(sizes, tf.reshape(numbers, [-1]))), tf.shape(numbers))


def _multiple(numbers):
    return (numbers + _COLUMNS - 1) // _COLUMNS * _COLUMNS


def _largest(values):
    """Returns the largest number, -1 of none."""
    return tf.reduce_max(tf.concat([values, [-1]], 0))


def unpack(vectors, flat_indices):
    """Takes vectors out of packed rows.

    Args:
        vectors: `[R, W, H]`.
        flat_indices: int32 of any shape, counted through all rows.

    Returns:
        that shape, and H.
    """
    return tf.gather(tf.reshape(vectors, [-1, vectors.shape[-1]]), flat_indices)
