"""Runs many token rows through a model in groups, so that requests of any size need little memory."""

import tensorflow as tf

# The largest number of tokens in a group, including padding; a single row may have more.
TOKENS_AT_ONCE = 8192


def compute_in_groups(compute, inputs: list, row_tokens, outputs: list[tf.TensorSpec]) -> list:
    """Returns the outputs of `compute` for all rows, computed in groups of at most `TOKENS_AT_ONCE` tokens.

    Args:
        compute: function from r rows of each of `inputs` to a list of tensors.
        inputs: tensors or RaggedTensors with B rows each.
        row_tokens: int32 scalar, the number of tokens that a row counts as.
        outputs: dtypes and shapes of the results of `compute`; the first axis may have any size.

    Returns:
        tensors as specified by `outputs`, the concatenation of all groups.
    """
    first = inputs[0]
    num_rows = first.nrows(tf.int32) if isinstance(first, tf.RaggedTensor) else tf.shape(first)[0]
    rows_at_once = tf.maximum(TOKENS_AT_ONCE // tf.maximum(row_tokens, 1), 1)
    # Zero rows form a group too, which gives their outputs the right shape.
    num_groups = tf.maximum(-(-num_rows // rows_at_once), 1)
    found = [
        tf.TensorArray(output.dtype, num_groups, infer_shape=False, element_shape=output.shape) for output in outputs
    ]

    def run(number, found):
        group = slice(number * rows_at_once, (number + 1) * rows_at_once)
        results = compute(*(rows[group] for rows in inputs))
        return number + 1, [array.write(number, result) for array, result in zip(found, results, strict=True)]

    # One group at a time: in parallel, they would need memory for all of them.
    _, found = tf.while_loop(lambda number, _: number < num_groups, run, (0, found), parallel_iterations=1)
    return [tf.ensure_shape(array.concat(), output.shape) for array, output in zip(found, outputs, strict=True)]


def run_rows(forward, rows: list, *last_axes: int | None):
    """Returns a model's outputs for rows of equal length, computed in groups.

    Args:
        forward: function from ids, mask and segment numbers, int32 `[r, S]`, to floats `[r, *last_axes]`.
        rows: ids, mask and segment numbers, int32 `[B, S]`.
        last_axes: the last axes of the output; None for S.

    Returns:
        float32 `[B, *last_axes]`.
    """
    outputs = [tf.TensorSpec([None, *last_axes], tf.float32)]

    def run(*group):
        return [tf.cast(forward(*group), tf.float32)]

    return compute_in_groups(run, rows, tf.shape(rows[0])[1], outputs)[0]


def run_ragged_rows(forward, rows: tf.RaggedTensor, second_columns, pad_id: int, num_outputs: int):
    """Returns a model's outputs for every token of rows. Each group is padded to its longest row.

    Args:
        forward: function from ids, mask and segment numbers, int32 `[r, S]`, to `[r, S, num_outputs]`.
        rows: int32 RaggedTensor `[R, None]`, ids with [CLS] and [SEP].
        second_columns: int `[R]`, the column where the second segment of each row begins; None for a single segment.
        pad_id: the id of padding.
        num_outputs: numbers per token.

    Returns:
        float32 `[T, num_outputs]`, for the tokens of all rows, concatenated.
    """

    def run(rows, second_columns=None):
        padded = padded_rows(rows, pad_id, second_columns)
        result = tf.cast(forward(*padded), tf.float32)
        return [tf.boolean_mask(result, padded[1] > 0)]

    inputs = [rows] if second_columns is None else [rows, second_columns]
    row_tokens = _longest(tf.cast(rows.row_lengths(), tf.int32))
    return compute_in_groups(run, inputs, row_tokens, [tf.TensorSpec([None, num_outputs], tf.float32)])[0]


def padded_rows(rows: tf.RaggedTensor, pad_id: int, second_columns=None) -> list:
    """Returns ids, mask and segment numbers, int32 `[R, S]`, of rows; the arguments are those of `run_ragged_rows`."""
    lengths = tf.cast(rows.row_lengths(), tf.int32)
    columns = tf.range(_longest(lengths))
    input_ids = rows.to_tensor(pad_id, shape=tf.stack([-1, tf.size(columns)]))
    input_mask = tf.cast(columns < lengths[:, tf.newaxis], tf.int32)
    segment_ids = tf.zeros_like(input_ids)
    if second_columns is not None:
        segment_ids = input_mask * tf.cast(columns >= tf.cast(second_columns, tf.int32)[:, tf.newaxis], tf.int32)
    return [input_ids, input_mask, segment_ids]


def _longest(lengths):
    # The model cannot run on rows without columns.
    return tf.reduce_max(tf.concat([lengths, [1]], 0))
