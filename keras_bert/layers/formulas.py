"""The formulas of the papers in Keras' operations, for every backend: tensors in, tensors out.

`accelerate/kernels.py` has functions with the same names and arguments. `choosing.py` decides which of both compute.
"""

import math

import keras
from keras import ops


def attention(query, key, value, bias, is_kept=None, scale=1.0, return_probabilities=False):
    """Scaled dot-product attention: `dropout(softmax(Q K' + bias)) V`.

    Args:
        query: `[B, N, F, D]`, divided by the root of D.
        key, value: `[B, N, S, D]`.
        bias: `[B, 1, F, S]` or `[B, 1, 1, S]`; it gets no gradient.
        is_kept, scale: what `draw_kept` returned for the probabilities, `[B, N, F, S]`; without dropout, None and 1.
        return_probabilities: whether to return the probabilities before dropout, too.

    Returns:
        `[B, N, F, D]`, or a pair of it and `[B, N, F, S]`. Probabilities are computed in at least float32.

    Reference: Vaswani et al., 2017, section 3.2.1.
    """
    # With 8 bits the probabilities of a long row would not add up to 1.
    dtype = keras.backend.result_type(keras.backend.standardize_dtype(query.dtype), "float32")
    scores = ops.cast(ops.matmul(query, ops.swapaxes(key, 2, 3)), dtype) + ops.cast(bias, dtype)  # [B, N, F, S]
    probabilities = ops.cast(ops.softmax(scores), query.dtype)
    kept = probabilities if is_kept is None else dropout(probabilities, is_kept, scale)
    gathered = ops.matmul(kept, value)  # [B, N, F, D]
    return (gathered, probabilities) if return_probabilities else gathered


def swap_middle_axes(values, sizes):
    """`[B, X, Y, D]` -> `[B, Y, X, D]`.

    Args:
        values: any dtype.
        sizes: B, X and Y, whole numbers or int32 scalars. D is known when the graph is made.
    """
    return ops.transpose(values, (0, 2, 1, 3))


def gelu(values, approximate: bool):
    """GELU: `x * P(X <= x)` for a standard normal X.

    Args:
        values: float tensor of any shape.
        approximate: whether to compute the tanh form, which google-research/bert has.

    Reference: Hendrycks and Gimpel, 2016, arXiv 1606.08415, section 2.
    """
    if not approximate or keras.backend.standardize_dtype(values.dtype) != "float16":
        return ops.gelu(values, approximate=approximate)
    # The cubes of float16 are infinite from 41 on, and tanh has no slope there: 0 times infinity is NaN.
    near = ops.clip(values, -16.0, 16.0)  # beyond, tanh is 1 or -1 in all types
    cubes = ops.power(near, 3)
    return 0.5 * values * (1.0 + ops.tanh(math.sqrt(2 / math.pi) * (near + 0.044715 * cubes)))


def layer_norm(values, gamma, beta, epsilon: float):
    """`gamma * (x - mean) / sqrt(variance + epsilon) + beta`, with mean and variance over the last axis.

    Args:
        values: float `[..., H]`.
        gamma, beta: `[H]` of that dtype.
        epsilon: what is added to the variance.

    Reference: Ba et al., 2016, arXiv 1607.06450.
    """
    centred = values - ops.mean(values, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
    return centred * ops.rsqrt(variance + epsilon) * gamma + beta


def draw_kept(shape, rate: float, seed_generator):
    """Draws which numbers dropout keeps.

    Args:
        shape: whole numbers and int32 scalars.
        rate: the share of numbers that become 0, at least 0 and below 1.
        seed_generator: a `keras.random.SeedGenerator`.

    Returns:
        bool of that shape, and the factor of the kept numbers, `1 / (1 - rate)`.
    """
    return keras.random.uniform(shape, seed=seed_generator) >= rate, 1 / (1 - rate)


def dropout(values, is_kept, scale):
    """The values times `scale` where they are kept, and 0 elsewhere.

    Args:
        values: float tensor of any shape.
        is_kept, scale: what `draw_kept` returned for that shape.

    Reference: Srivastava et al., 2014.
    """
    return values * (ops.cast(is_kept, values.dtype) * scale)


def cross_entropy(logits, labels):
    """`log(sum(exp(x))) - x[label]` for every row of logits.

    Args:
        logits: float `[..., C]`.
        labels: int `[...]`, each below C.
    """
    return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


def argmax(values):
    """The index of the largest number along the last axis, the first of several, int32 `[...]`."""
    return ops.argmax(values, axis=-1)


def product_with_rows(vectors, table):
    """The product of every vector with every row of a table: `[T, H]` and `[V, H]` -> `[T, V]`."""
    return ops.matmul(vectors, ops.transpose(table))
