"""Gathers the vectors of selected tokens."""

from keras import ops


def vectors_at(hidden, columns):
    """Returns `hidden[b, columns[b, k]]` for all b and k: `[B, S, H]` and int `[B, K]` -> `[B, K, H]`."""
    return vectors_at_flat(hidden, flat_indices_of(columns, hidden))


def flat_indices_of(columns, rows):
    """Returns the flat indices of the tokens in these columns, int `[B, K]` -> int32 `[B, K]`.

    Token s of row b has the index `b * S + s`. Of `rows`, `[B, S]` or `[B, S, H]`, only the shape is read.
    """
    batch_size, length = ops.shape(rows)[0], ops.shape(rows)[1]
    starts = ops.expand_dims(ops.arange(batch_size, dtype="int32") * length, 1)
    return ops.cast(columns, "int32") + starts


def vectors_at_flat(hidden, flat_indices):
    """Returns the vectors at the indices of `flat_indices_of`: `[B, S, H]` and int `[...]` -> `[..., H]`."""
    return ops.take(ops.reshape(hidden, (-1, hidden.shape[-1])), ops.cast(flat_indices, "int32"), axis=0)
