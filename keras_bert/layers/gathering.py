"""Vectors at chosen columns of every row."""

from keras import ops


def vectors_at(hidden, columns):
    """Gathers `hidden[b, columns[b, k]]`.

    Args:
        hidden: `[B, S, H]`.
        columns: int `[B, K]`, each below S.

    Returns:
        `[B, K, H]`.
    """
    batch_size, length = ops.shape(hidden)[0], ops.shape(hidden)[1]
    first_rows = ops.expand_dims(ops.arange(batch_size, dtype="int32") * length, 1)  # [B, 1]
    return ops.take(ops.reshape(hidden, (-1, hidden.shape[-1])), ops.cast(columns, "int32") + first_rows, axis=0)
