"""Many rows of tokens through a model, a few at a time, so that a text of any length needs little memory."""

import tensorflow as tf

# The most tokens that the model sees at once, padding included; a single row may have more.
TOKENS_AT_ONCE = 8192


def run_in_groups(forward, rows: tf.RaggedTensor, second_columns, pad_id: int, num_outputs: int):
    """Returns what a model says about every token of rows.

    As many rows as `TOKENS_AT_ONCE` allows go through the model together, padded to the longest of them.

    Args:
        forward: a tf.function from ids, mask and segment numbers, int32 `[r, S]`, to `[r, S, num_outputs]`.
        rows: int32 RaggedTensor `[R, None]`, ids with [CLS] and [SEP].
        second_columns: int `[R]`, where the second segment of each row begins; None where there is none.
        pad_id: the id of padding.
        num_outputs: numbers for each token.

    Returns:
        float32 `[T, num_outputs]`, the tokens of all rows, one row behind the other.
    """
    num_rows = rows.nrows(out_type=tf.int32)
    longest = tf.cast(tf.reduce_max(tf.concat([rows.row_lengths(), [1]], 0)), tf.int32)
    rows_at_once = tf.maximum(TOKENS_AT_ONCE // longest, 1)
    num_groups = -(-num_rows // rows_at_once)
    outputs = tf.TensorArray(tf.float32, num_groups, infer_shape=False, element_shape=[None, num_outputs])

    def run(number, outputs):
        group = slice(number * rows_at_once, (number + 1) * rows_at_once)
        input_ids = rows[group].to_tensor(pad_id)
        columns = tf.range(tf.shape(input_ids)[1])
        is_real = columns < tf.cast(rows[group].row_lengths(), tf.int32)[:, tf.newaxis]
        input_mask = tf.cast(is_real, tf.int32)
        segment_ids = tf.zeros_like(input_ids)
        if second_columns is not None:
            segment_ids = input_mask * tf.cast(
                columns >= tf.cast(second_columns[group], tf.int32)[:, tf.newaxis], tf.int32
            )
        result = tf.cast(forward(input_ids, input_mask, segment_ids), tf.float32)
        return number + 1, outputs.write(number, tf.boolean_mask(result, is_real))

    # One group after the other: in parallel they would need the memory of all.
    _, outputs = tf.while_loop(lambda number, _: number < num_groups, run, (0, outputs), parallel_iterations=1)
    return tf.ensure_shape(outputs.concat(), [None, num_outputs])
