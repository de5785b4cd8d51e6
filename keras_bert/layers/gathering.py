"""Vectors of chosen tokens."""

from keras import ops


def vectors_at(hidden, indices):
    """Gathers `hidden[b, indices[b, k]]`, or the tokens with these indices in the flattened batch.

    Args:
        hidden: `[B, S, H]`.
        indices: int `[B, K]`, each below S; or int `[T]`, each below B * S.

    Returns:
        `[B, K, H]`, or `[T, H]`.
    """
    flat_indices = ops.cast(indices, "int32")
    if len(indices.shape) == 2:
        batch_size, length = ops.shape(hidden)[0], ops.shape(hidden)[1]
        flat_indices += ops.expand_dims(ops.arange(batch_size, dtype="int32") * length, 1)
    return ops.take(ops.reshape(hidden, (-1, hidden.shape[-1])), flat_indices, axis=0)
