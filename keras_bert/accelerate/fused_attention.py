"""Attention without scores in memory, for inference on backends with such a kernel: JAX on a GPU, in 16 bits."""

from keras import ops


def attention(query, key, value, bias):
    """As `formulas.attention` without dropout. Where there is no kernel, Keras computes the plain formula."""
    query, key, value = (ops.transpose(heads, (0, 2, 1, 3)) for heads in (query, key, value))  # [B, S, N, D]
    # The kernel wants a row of the bias for every query.
    bias = ops.broadcast_to(bias, (*ops.shape(bias)[:2], ops.shape(query)[1], ops.shape(bias)[3]))
    # It has no gradient for odd lengths. A length is None only in graphs of TensorFlow, which has no such kernel.
    use_kernel = False if any(length and length % 2 for length in (query.shape[1], key.shape[1])) else None
    gathered = ops.dot_product_attention(query, key, value, bias=bias, scale=1.0, flash_attention=use_kernel)
    return ops.transpose(gathered, (0, 2, 1, 3))
