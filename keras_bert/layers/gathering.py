"""Gathers the vectors of selected tokens."""

from keras import ops


def vectors_at(hidden, columns):
    """Returns `hidden[b, columns[b, k]]` for all b and k.

    Args:
        hidden: `[B, S, H]` of any dtype.
        columns: int `[B, K]`, each at least 0 and below S.

    Returns:
        `[B, K, H]`.
    """
    return vectors_at_flat(hidden, flat_indices_of(columns, hidden))


def flat_indices_of(columns, rows):
    """Returns the flat indices of the tokens in these columns: token s of row b has the index `b * S + s`.

    Args:
        columns: int `[B, K]`.
        rows: `[B, S]` or `[B, S, H]`, only its shape is read.

    Returns:
        int32 `[B, K]`.
    """
    batch_size, length = ops.shape(rows)[0], ops.shape(rows)[1]
    starts = ops.expand_dims(ops.arange(batch_size, dtype="int32") * length, 1)
    return ops.cast(columns, "int32") + starts


def vectors_at_flat(hidden, flat_indices):
    """Returns the vectors at flat indices: token s of row b has the index `b * S + s`.

    Args:
        hidden: `[B, S, H]` of any dtype.
        flat_indices: int of any shape, each at least 0 and below B * S.

    Returns:
        the shape of `flat_indices`, followed by H.
    """
    return ops.take(ops.reshape(hidden, (-1, hidden.shape[-1])), ops.cast(flat_indices, "int32"), axis=0)
