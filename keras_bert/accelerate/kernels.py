"""The formulas of `layers/formulas.py` in fewer passes over memory, for training with Keras on TensorFlow.

Each function has the same name, arguments and result as the plain one, but keeps less for the backward pass. On short
texts these passes take a large part of a training step. `layers/choosing.py` chooses between the two modules.
"""

import math

import tensorflow as tf


def swap_middle_axes(values, sizes):
    """As `formulas.swap_middle_axes`, by gathering vectors of D numbers.

    oneDNN's transposition is set up again at each call. For a short text, the set-up takes longer than the gathering.
    """
    rows = tf.reshape(tf.range(sizes[0] * sizes[1] * sizes[2]), sizes)
    return tf.gather(tf.reshape(values, [-1, values.shape[-1]]), tf.transpose(rows, [0, 2, 1]))


def draw_kept(shape, rate: float, seed_generator):
    """As `formulas.draw_kept`, with 16 random bits per number: `rate` is rounded to a multiple of 1/65536."""
    num_dropped, count = round(rate * 65536), tf.reduce_prod(shape)
    seed = tf.cast(seed_generator.next(), tf.int32)
    words = tf.random.stateless_uniform([(count + 1) // 2], seed, None, None, tf.int32)
    halves = tf.reshape(tf.bitcast(words, tf.int16), [-1])[:count]
    return tf.reshape(halves >= num_dropped - 32768, shape), 65536 / (65536 - num_dropped)


def dropout(values, is_kept, scale):
    """As `formulas.dropout`."""

    @tf.custom_gradient
    def drop(values):
        def scaled(values):
            return values * (tf.cast(is_kept, values.dtype) * scale)

        return scaled(values), scaled  # TensorFlow would keep float factors instead of one byte per number

    return drop(values)


def attention(query, key, value, bias, is_kept=None, scale=1.0):
    """As `formulas.attention`, but never returns the probabilities: they would have no gradient.

    A bias with scores for every head gets a gradient. One for all heads, which says what is masked, gets none.

        P = softmax(Q K' + bias),  M = P where it is kept, else 0,  G = s M V

    The backward pass keeps P and M. Its softmax needs the sum of dM M over each row. That equals the sum of dG G, which
    has only D terms instead of S.

        dM = s dG V',  dS = dM M - sum(dG G) P,  dQ = dS K,  dK = dS' Q,  dV = s M' dG,  dbias = dS

    Reference: Dao et al., 2022, arXiv 2205.14135, for the sums.
    """
    # At least float32: in bfloat16 (8 significant bits) the probabilities of a long row would not sum to 1.
    dtype = tf.float64 if query.dtype == tf.float64 else tf.float32

    is_of_heads = bias.shape[1] != 1

    @tf.custom_gradient
    def forward(query, key, value, bias):
        probabilities = tf.cast(
            tf.nn.softmax(tf.cast(tf.matmul(query, key, transpose_b=True), dtype) + tf.cast(bias, dtype)), query.dtype
        )
        kept = tf.where(is_kept, probabilities, tf.zeros([], query.dtype)) if is_kept is not None else probabilities
        gathered = tf.matmul(kept, value) * scale

        def gradient(upstream):
            to_kept = tf.cast(tf.matmul(upstream * scale, value, transpose_b=True), dtype)
            sums = tf.reduce_sum(tf.cast(upstream, dtype) * tf.cast(gathered, dtype), axis=-1, keepdims=True)
            to_scores = to_kept * tf.cast(kept, dtype) - sums * tf.cast(probabilities, dtype)
            to_bias = tf.cast(to_scores, bias.dtype) if is_of_heads else None
            to_scores = tf.cast(to_scores, query.dtype)
            return (
                tf.matmul(to_scores, key),
                tf.matmul(to_scores, query, transpose_a=True),
                tf.matmul(kept, upstream * scale, transpose_a=True),
                to_bias,
            )

        return gathered, gradient

    return forward(query, key, value, bias)


def cross_entropy(logits, labels):
    """As `formulas.cross_entropy`, from one softmax, which TensorFlow computes quickly.

    The largest probability of a row is 1 / sum(exp(x - max(x))), so its logarithm gives the sum.

    A label below 0, or at least C, raises TensorFlow's error on a CPU. On other devices its cross-entropy is NaN.

    Raises:
        ValueError: the shapes of logits and labels do not match.
    """
    labels = tf.convert_to_tensor(labels)
    labels.shape.assert_is_compatible_with(logits.shape[:-1])
    num_classes = tf.shape(logits)[-1]
    columns = tf.cast(tf.reshape(labels, [-1]), tf.int32)
    label_indices = tf.stack([tf.range(tf.size(columns)), columns], axis=1)
    is_class = (columns >= 0) & (columns < num_classes)

    @tf.custom_gradient
    def forward(logits):
        probabilities = tf.nn.softmax(logits)
        largest, largest_probability = tf.reduce_max(logits, axis=-1), tf.reduce_max(probabilities, axis=-1)
        losses = largest - tf.gather_nd(logits, label_indices) - tf.math.log(largest_probability)

        def gradient(upstream):
            return tf.tensor_scatter_nd_sub(probabilities * upstream[:, None], label_indices, upstream)

        return tf.where(is_class, losses, math.nan), gradient

    return tf.reshape(forward(tf.reshape(logits, [-1, num_classes])), tf.shape(labels))


def argmax(values):
    """As `formulas.argmax`. Keras' version also orders 0.0 and -0.0, which takes several passes."""
    return tf.argmax(values, axis=-1, output_type=tf.int32)


def product_with_rows(vectors, table):
    """As `formulas.product_with_rows`, but the gradient of the table is computed without a transposition."""
    return tf.matmul(vectors, table, transpose_b=True)


def gelu(values, approximate: bool):
    """As `formulas.gelu`. The backward pass keeps two tensors, fewer than TensorFlow's own gradient.

        y = x h,  dy/dx = h + x dh/dx
        tanh form:  h = (1 + tanh(c (x + a x^3))) / 2,  dh/dx = 2 h (1 - h) c (1 + 3 a x^2)
        exact:      h = (1 + erf(x / sqrt(2))) / 2,     dh/dx = exp(-x^2 / 2) / sqrt(2 pi)

    with c = sqrt(2 / pi) and a = 0.044715.

    Reference: Hendrycks and Gimpel, 2016, arXiv 1606.08415, section 2.
    """
    factor, cubic = math.sqrt(2 / math.pi), 0.044715

    @tf.custom_gradient
    def forward(x):
        # Beyond 64, h is 0 or 1 in every dtype. In float16, squares overflow from 256 on, and 0 times infinity is NaN.
        near = tf.clip_by_value(x, -64.0, 64.0) if x.dtype == tf.float16 else x
        if approximate:
            h = tf.sigmoid(near * (tf.square(near) * (2 * factor * cubic) + 2 * factor))  # sigmoid(2u) = (1+tanh(u))/2
        else:
            h = 0.5 * tf.math.erf(x * math.sqrt(0.5)) + 0.5

        def gradient(upstream):
            if approximate:
                slope = (h - tf.square(h)) * (tf.square(near) * (6 * cubic * factor) + 2 * factor)
            else:
                slope = tf.exp(-0.5 * tf.square(x)) * (1 / math.sqrt(2 * math.pi))
            return upstream * (h + x * slope)

        return x * h, gradient

    return forward(values)


def layer_norm(values, gamma, beta, epsilon: float):
    """As `formulas.layer_norm`. The backward pass keeps n, the inputs normalised to mean 0 and variance 1.

    dx = (dn - mean(dn) - n mean(dn n)) / sqrt(variance + epsilon),  dn = gamma dy
    """

    @tf.custom_gradient
    def forward(x, gamma, *shift):
        centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
        scale = tf.math.rsqrt(tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True) + epsilon)
        normal = centred * scale

        def gradient(upstream):
            to_normal = upstream * gamma
            along = tf.reduce_mean(to_normal * normal, axis=-1, keepdims=True)
            to_x = (to_normal - tf.reduce_mean(to_normal, axis=-1, keepdims=True) - normal * along) * scale
            to_shift = [_sum_of_vectors(upstream)] if shift else []
            return to_x, _sum_of_vectors(upstream * normal), *to_shift

        return normal * gamma + shift[0] if shift else normal * gamma, gradient

    return forward(values, gamma) if beta is None else forward(values, gamma, beta)


def rotate(vectors, cosines, sines):
    """As `formulas.rotate`. The gradient is rotated back, so the backward pass keeps nothing of the vectors."""

    def turned(vectors, sines):
        first, second = tf.split(vectors, 2, axis=-1)
        return tf.concat([first * cosines - second * sines, second * cosines + first * sines], axis=-1)

    @tf.custom_gradient
    def forward(vectors):
        return turned(vectors, sines), lambda upstream: turned(upstream, -sines)

    return forward(vectors)


def _sum_of_vectors(values):
    """Sums over all axes but the last, `[..., H]` -> `[H]`, faster than `tf.reduce_sum`."""
    return tf.raw_ops.BiasAddGrad(out_backprop=values)
