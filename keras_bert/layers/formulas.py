"""The formulas of the papers as functions of tensors, in Keras' operations for every backend.

`accelerate/kernels.py` has faster functions with the same names and arguments; `choosing.py` chooses between the two.
"""

import math

import keras
from keras import ops


def attention(query, key, value, bias, is_kept=None, scale=1.0, return_probabilities=False):
    """Scaled dot-product attention: `dropout(softmax(Q K' + bias)) V`.

    Args:
        query: float `[B, N, F, D]`, divided by the square root of D.
        key, value: `[B, N, S, D]` of that dtype.
        bias: float `[B, N, F, S]`; or `[B, 1, F, S]` or `[B, 1, 1, S]`, which gets no gradient in the kernels.
        is_kept, scale: the results of `draw_kept` for the probabilities `[B, N, F, S]`; None and 1 without dropout.
        return_probabilities: whether to return the probabilities (before dropout) too.

    Returns:
        `[B, N, F, D]`. With `return_probabilities`, a pair of it and the probabilities `[B, N, F, S]`.

    Reference: Vaswani et al., 2017, section 3.2.1.
    """
    # At least float32: in bfloat16 (8 significant bits) the probabilities of a long row would not sum to 1.
    dtype = keras.backend.result_type(keras.backend.standardize_dtype(query.dtype), "float32")
    scores = ops.cast(ops.matmul(query, ops.swapaxes(key, 2, 3)), dtype) + ops.cast(bias, dtype)  # [B, N, F, S]
    probabilities = ops.cast(ops.softmax(scores), query.dtype)
    kept = probabilities if is_kept is None else dropout(probabilities, is_kept, scale)
    gathered = ops.matmul(kept, value)  # [B, N, F, D]
    return (gathered, probabilities) if return_probabilities else gathered


def swap_middle_axes(values, sizes):
    """Swaps the middle axes: `[B, X, Y, D]` -> `[B, Y, X, D]`. `sizes` are B, X and Y as ints or int32 scalars.

    D must be known when the graph is made.
    """
    return ops.transpose(values, (0, 2, 1, 3))


def gelu(values, approximate: bool):
    """GELU of floats `[...]`: `x * P(X <= x)` for a standard normal X, or its tanh approximation, as in Google's BERT.

    Reference: Hendrycks and Gimpel, 2016, arXiv 1606.08415, section 2.
    """
    if not approximate or keras.backend.standardize_dtype(values.dtype) != "float16":
        return ops.gelu(values, approximate=approximate)
    # In float16, cubes overflow from 41 on. There the slope of tanh is 0, and 0 times infinity would be NaN.
    near = ops.clip(values, -16.0, 16.0)  # beyond these, tanh is 1 or -1 in every dtype
    cubes = ops.power(near, 3)
    return 0.5 * values * (1.0 + ops.tanh(math.sqrt(2 / math.pi) * (near + 0.044715 * cubes)))


def layer_norm(values, gamma, beta, epsilon: float):
    """Returns `gamma * (x - mean) / sqrt(variance + epsilon) + beta`, with mean and variance over the last axis.

    Args:
        values: float `[..., H]`.
        gamma: `[H]` of that dtype.
        beta: the same, or None for no shift.
        epsilon: added to the variance.

    Reference: Ba et al., 2016, arXiv 1607.06450.
    """
    centred = values - ops.mean(values, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
    scaled = centred * ops.rsqrt(variance + epsilon) * gamma
    return scaled if beta is None else scaled + beta


def rotate(vectors, cosines, sines):
    """Rotates each pair of components `(x[i], x[i + D / 2])` by an angle: rotary position embedding.

    Args:
        vectors: float `[..., D]`, D even.
        cosines, sines: `[..., D / 2]` of that dtype, the cosine and sine of each angle; they get no gradient.

    Returns:
        `[..., D]`.

    Reference: Su et al., 2021, arXiv 2104.09864, section 3.4.2, with the order of components of GPT-NeoX.
    """
    first, second = ops.split(vectors, 2, axis=-1)
    return ops.concatenate([first * cosines - second * sines, second * cosines + first * sines], axis=-1)


def draw_kept(shape, rate: float, seed_generator):
    """Draws the numbers that dropout keeps.

    Args:
        shape: a tuple of ints and int32 scalars.
        rate: the fraction of numbers that become 0, at least 0 and below 1.

    Returns:
        a bool tensor of this shape, true where a number is kept, and the factor of the kept numbers, `1 / (1 - rate)`.
    """
    return keras.random.uniform(shape, seed=seed_generator) >= rate, 1 / (1 - rate)


def dropout(values, is_kept, scale):
    """Returns `values * scale` where `is_kept` is true, and 0 elsewhere; `draw_kept` returns both for this shape.

    Reference: Srivastava et al., 2014.
    """
    return values * (ops.cast(is_kept, values.dtype) * scale)


def cross_entropy(logits, labels):
    """Returns the cross-entropy `log(sum(exp(x))) - x[label]`: float `[..., C]` and int `[...]` -> float `[...]`."""
    return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


def argmax(values):
    """Returns the first index of the largest number along the last axis: `[..., C]` -> int32 `[...]`."""
    return ops.argmax(values, axis=-1)


def product_with_rows(vectors, table):
    """Multiplies every vector with every row of a table: `[T, H]`, `[V, H]` -> `[T, V]`."""
    return ops.matmul(vectors, ops.transpose(table))
