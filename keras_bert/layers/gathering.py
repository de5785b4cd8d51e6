"""Vectors of selected tokens."""

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
    starts = ops.expand_dims(ops.arange(batch_size, dtype="int32") * length, 1)
    return vectors_at_flat(hidden, ops.cast(columns, "int32") + starts)


def vectors_at_flat(hidden, flat_indices):
    """Gathers tokens that are counted through all rows.

    Args:
        hidden: `[B, S, H]`.
        flat_indices: int of any shape, each below B * S.

    Returns:
        `[..., H]`.
    """
    return ops.take(ops.reshape(hidden, (-1, hidden.shape[-1])), ops.cast(flat_indices, "int32"), axis=0)
