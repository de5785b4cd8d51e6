"""Vectors of chosen tokens."""

from keras import ops


def vectors_at(hidden, wanted):
    """Gathers `hidden[b, wanted[b, k]]`, or the tokens that are counted through all rows.

    Args:
        hidden: `[B, S, H]`.
        wanted: int `[B, K]`, each below S; or int `[T]`, each below B * S.

    Returns:
        `[B, K, H]`, or `[T, H]`.
    """
    places = ops.cast(wanted, "int32")
    if len(wanted.shape) == 2:
        batch_size, length = ops.shape(hidden)[0], ops.shape(hidden)[1]
        places += ops.expand_dims(ops.arange(batch_size, dtype="int32") * length, 1)
    return ops.take(ops.reshape(hidden, (-1, hidden.shape[-1])), places, axis=0)
