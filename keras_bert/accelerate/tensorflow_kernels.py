"""What Keras' operations do in many passes over memory, in fewer, where Keras runs on TensorFlow.

On short texts such passes are a large part of a training step. This is the only module that the core calls and that
imports TensorFlow. The core takes it from `backend`, which has None for it on other backends; there the core does the
same by Keras' operations.
"""

import contextlib
import math

import tensorflow as tf


def summed_rows(gradient):
    """Returns the gradient of an embedding with all slices of a row summed in its first one, the others being 0.

    The norm of the slices is then that of the gradient. Of other gradients nothing is summed. Those in 16 bits become
    float32: their sums would overflow in float16, or come to a halt in bfloat16.

    Args:
        gradient: a tensor, or `tf.IndexedSlices` of T slices of a table.
    """
    gradient = _in_32_bits(gradient)
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    count, num_rows = tf.shape(gradient.indices)[0], tf.cast(gradient.dense_shape[0], tf.int32)
    # Not tf.unique: XLA has no tensors of unknown length.
    first_slices = tf.gather(
        tf.math.unsorted_segment_min(tf.range(count), gradient.indices, num_rows), gradient.indices
    )
    values = tf.math.unsorted_segment_sum(gradient.values, first_slices, count)
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)


def _in_32_bits(gradient):
    """Returns a gradient of 16 bits as float32, others as they are."""
    values = _values(gradient)
    if values is None or values.dtype.size > 2:
        return gradient
    values = tf.cast(values, tf.float32)
    is_sliced = isinstance(gradient, tf.IndexedSlices)
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape) if is_sliced else values


def dense_gradient(gradient):
    """Returns the gradient as a tensor of the variable's shape; what is summed in it, in at least float32."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    gradient = _in_32_bits(gradient)
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, gradient.dense_shape[0])


def global_norm(gradients):
    """Returns the norm of all gradients together, a scalar; of float32 unless some are float64.

    Args:
        gradients: tensors or `tf.IndexedSlices`; None counts for nothing.
    """
    tensors = [_values(summed_rows(gradient)) for gradient in gradients if gradient is not None]
    dtype = tf.float64 if any(tensor.dtype == tf.float64 for tensor in tensors) else tf.float32
    # l2_loss is half the sum of squares, without a tensor of the squares.
    return tf.sqrt(2.0 * tf.add_n([tf.cast(tf.nn.l2_loss(tensor), dtype) for tensor in tensors]))


def _values(gradient):
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def clip_by_global_norm(gradients, clip_norm: float) -> list:
    """Scales all gradients down together so that their norm is at most `clip_norm`; NaN if it is not finite.

    Args:
        gradients: tensors or `tf.IndexedSlices`; None stays None.

    Returns:
        the same, the slices summed as by `summed_rows`; those in 16 bits as float32.
    """
    gradients = [summed_rows(gradient) for gradient in gradients]
    tensors = [_values(gradient) for gradient in gradients]
    dtype = tf.float64 if any(tensor is not None and tensor.dtype == tf.float64 for tensor in tensors) else tf.float32
    halves = [tf.cast(tf.nn.l2_loss(tensor), dtype) for tensor in tensors if tensor is not None]
    norm = tf.sqrt(2.0 * tf.add_n(halves))
    scale = clip_norm * tf.minimum(1.0 / norm, 1.0 / clip_norm) + (norm - norm)
    clipped = []
    for gradient, tensor in zip(gradients, tensors, strict=True):
        if tensor is not None:
            tensor = tensor * tf.cast(scale, tensor.dtype)
        is_sliced = isinstance(gradient, tf.IndexedSlices)
        clipped.append(tf.IndexedSlices(tensor, gradient.indices, gradient.dense_shape) if is_sliced else tensor)
    return clipped


def computed_after(gradient):
    """Returns a context whose operations wait for a gradient, a tensor or `tf.IndexedSlices`."""
    return tf.control_dependencies([_values(gradient)])


def adam_constants(dtype, beta_1: float, beta_2: float) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns what `adam_update` takes of Adam itself, which a graph needs once for all variables of a dtype."""
    # With powers of 0 the operation makes no correction of its own: in float32 its 1 - beta^t is inexact.
    return tf.zeros([], dtype), tf.constant(beta_1, dtype), tf.constant(beta_2, dtype)


def adam_update(variable, momentum, velocity, gradient, rate, epsilon, constants) -> None:
    """One step of Adam without bias correction:

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g^2
        w = w - rate * m / (sqrt(v) + epsilon)

    Args:
        variable, momentum, velocity: `tf.Variable` of one dtype and shape; they are updated.
        gradient: tensor or `tf.IndexedSlices`.
        rate, epsilon: scalars of that dtype.
        constants: see `adam_constants`.
    """
    no_power, beta_1, beta_2 = constants
    tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=momentum.handle,
        v=velocity.handle,
        beta1_power=no_power,
        beta2_power=no_power,
        lr=rate,
        beta1=beta_1,
        beta2=beta_2,
        epsilon=epsilon,
        grad=tf.cast(dense_gradient(gradient), variable.dtype),
    )


_traces_own_gradients = True


@contextlib.contextmanager
def plain_gradients():
    """Inside, what is traced has TensorFlow's gradients only: a SavedModel cannot hold others."""
    global _traces_own_gradients
    before, _traces_own_gradients = _traces_own_gradients, False
    try:
        yield
    finally:
        _traces_own_gradients = before


def _with_own_gradient(forward):
    """`tf.custom_gradient`, but inside of `plain_gradients`."""
    return tf.custom_gradient(forward) if _traces_own_gradients else lambda *inputs: forward(*inputs)[0]


def swap_middle_axes(values, sizes):
    """`[B, X, Y, D]` -> `[B, Y, X, D]`, by gathering vectors of D numbers.

    oneDNN's transposition prepares itself anew at each call, which takes longer than transposing a short text does.

    Args:
        values: any dtype.
        sizes: B, X and Y, whole numbers or int32 scalars. D is known when the graph is made.
    """
    rows = tf.reshape(tf.range(sizes[0] * sizes[1] * sizes[2]), sizes)
    return tf.gather(tf.reshape(values, [-1, values.shape[-1]]), tf.transpose(rows, [0, 2, 1]))


def draw_kept(sizes, rate: float, seed):
    """Draws which places dropout keeps, from 16 bits for each.

    Args:
        sizes: the shape of what is dropped from, a list of whole numbers and int32 scalars or a tensor.
        rate: the share of places that are not kept, taken as a multiple of 1/65536.
        seed: int (2,); the same seed draws the same places.

    Returns:
        bool of that shape, and what the kept numbers are multiplied by.
    """
    num_dropped, count = round(rate * 65536), tf.reduce_prod(sizes)
    words = tf.random.stateless_uniform([(count + 1) // 2], tf.cast(seed, tf.int32), None, None, tf.int32)
    halves = tf.reshape(tf.bitcast(words, tf.int16), [-1])[:count]
    return tf.reshape(halves >= num_dropped - 32768, sizes), 65536 / (65536 - num_dropped)


def dropout(values, rate: float, seed):
    """Returns the values, a share of them 0 and the others scaled so that the expected sum stays.

    Args:
        values: float tensor of any shape.
        rate: the share, taken as a multiple of 1/65536.
        seed: int (2,); the same seed drops the same places.
    """
    is_kept, scale = draw_kept(tf.shape(values), rate, seed)

    @_with_own_gradient
    def drop(values):
        def scaled(values):
            return values * (tf.cast(is_kept, values.dtype) * scale)

        return scaled(values), scaled  # by itself, TensorFlow would keep the factors instead of one byte for each

    return drop(values)


def attention(query, key, value, bias, sizes, rate: float, seed):
    """Returns what every token gathers from the tokens that it looks at, with dropout on the probabilities.

        P = softmax(Q K' + bias),  M = P where it is kept, else 0,  G = s M V,  s = 1 / (1 - rate)

    The backward pass keeps P and M, and takes the sums that the softmax asks for over the head size instead of over
    the sequence: the sum of dM M over a row is that of dG G.

        dM = s dG V',  dS = dM M - sum(dG G) P,  dQ = dS K,  dK = dS' Q,  dV = s M' dG

    Args:
        query: `[B, N, F, D]`, divided by the root of D.
        key, value: `[B, N, S, D]`.
        bias: `[B, 1, F, S]` or `[B, 1, 1, S]`, which gets no gradient.
        sizes: B, N, F and S, whole numbers or int32 scalars.
        rate: the share of probabilities that are set to 0, taken as a multiple of 1/65536.
        seed: int (2,); not read where the rate is 0.

    Returns:
        `[B, N, F, D]`.

    Reference: Vaswani et al., 2017, section 3.2.1; the sums are those of Dao et al., 2022, arXiv 2205.14135.
    """
    is_kept, scale = draw_kept(sizes, rate, seed) if rate else (None, 1.0)
    # At least float32: with 8 bits the probabilities of a long row would not add up to 1.
    dtype = tf.float64 if query.dtype == tf.float64 else tf.float32

    @_with_own_gradient
    def forward(query, key, value):
        probabilities = tf.cast(
            tf.nn.softmax(tf.cast(tf.matmul(query, key, transpose_b=True), dtype) + tf.cast(bias, dtype)), query.dtype
        )
        kept = tf.where(is_kept, probabilities, tf.zeros([], query.dtype)) if rate else probabilities
        gathered = tf.matmul(kept, value) * scale

        def gradient(upstream):
            to_kept = tf.cast(tf.matmul(upstream * scale, value, transpose_b=True), dtype)
            sums = tf.reduce_sum(tf.cast(upstream, dtype) * tf.cast(gathered, dtype), axis=-1, keepdims=True)
            to_scores = to_kept * tf.cast(kept, dtype) - sums * tf.cast(probabilities, dtype)
            to_scores = tf.cast(to_scores, query.dtype)
            return (
                tf.matmul(to_scores, key),
                tf.matmul(to_scores, query, transpose_a=True),
                tf.matmul(kept, upstream * scale, transpose_a=True),
            )

        return gathered, gradient

    return forward(query, key, value)


def cross_entropy(logits, labels):
    """Returns `log(sum(exp(x))) - x[label]` for every row of logits.

    The sum is found in the largest of the softmax's shares, which is 1 / sum(exp(x - max(x))): a softmax is quick.

    Args:
        logits: float `[..., C]`.
        labels: int `[...]`, each below C. On a CPU others are an error, elsewhere their cross-entropy is NaN.

    Raises:
        ValueError: the shapes do not fit each other.
    """
    labels = tf.convert_to_tensor(labels)
    labels.shape.assert_is_compatible_with(logits.shape[:-1])
    num_classes = tf.shape(logits)[-1]
    columns = tf.cast(tf.reshape(labels, [-1]), tf.int32)
    label_indices = tf.stack([tf.range(tf.size(columns)), columns], axis=1)
    is_class = (columns >= 0) & (columns < num_classes)

    @_with_own_gradient
    def forward(logits):
        shares = tf.nn.softmax(logits)
        largest, largest_share = tf.reduce_max(logits, axis=-1), tf.reduce_max(shares, axis=-1)
        losses = largest - tf.gather_nd(logits, label_indices) - tf.math.log(largest_share)

        def gradient(upstream):
            return tf.tensor_scatter_nd_sub(shares * upstream[:, None], label_indices, upstream)

        return tf.where(is_class, losses, math.nan), gradient

    return tf.reshape(forward(tf.reshape(logits, [-1, num_classes])), tf.shape(labels))


def argmax(values):
    """Returns the place of the largest number along the last axis, the first of several, int32 `[...]`.

    Keras' own tells 0.0 from -0.0, which takes several passes.
    """
    return tf.argmax(values, axis=-1, output_type=tf.int32)


def product_with_rows(vectors, table):
    """Returns the product of every vector with every row of a table, whose gradient then comes as rows.

    Args:
        vectors: `[T, H]`.
        table: `[V, H]`.

    Returns:
        `[T, V]`.
    """
    return tf.matmul(vectors, table, transpose_b=True)


def gelu(values, approximate: bool):
    """Returns GELU, of which the backward pass keeps two tensors; of the operations by themselves it keeps more.

        y = x h,  dy/dx = h + x dh/dx
        tanh form:  h = (1 + tanh(c (x + a x^3))) / 2,  dh/dx = 2 h (1 - h) c (1 + 3 a x^2)
        exact:      h = (1 + erf(x / sqrt(2))) / 2,     dh/dx = exp(-x^2 / 2) / sqrt(2 pi)

    with c = sqrt(2 / pi) and a = 0.044715.

    Args:
        values: float tensor of any shape.
        approximate: whether to compute the tanh form.

    Reference: Hendrycks and Gimpel, 2016, arXiv 1606.08415, section 2.
    """
    factor, cubic = math.sqrt(2 / math.pi), 0.044715

    @_with_own_gradient
    def forward(x):
        # Beyond, h is 0 or 1 in all types. The squares of float16 are infinite from 256 on, and 0 times that is NaN.
        near = tf.clip_by_value(x, -64.0, 64.0) if x.dtype == tf.float16 else x
        if approximate:
            share = tf.sigmoid(near * (tf.square(near) * (2 * factor * cubic) + 2 * factor))  # tanh, scaled and moved
        else:
            share = 0.5 * tf.math.erf(x * math.sqrt(0.5)) + 0.5

        def gradient(upstream):
            if approximate:
                slope = (share - tf.square(share)) * (tf.square(near) * (6 * cubic * factor) + 2 * factor)
            else:
                slope = tf.exp(-0.5 * tf.square(x)) * (1 / math.sqrt(2 * math.pi))
            return upstream * (share + x * slope)

        return x * share, gradient

    return forward(values)


def layer_norm(values, gamma, beta, epsilon: float):
    """Returns `gamma * n + beta`, n being `(x - mean) / sqrt(variance + epsilon)`, of which the backward pass keeps n.

        dx = (dn - mean(dn) - n mean(dn n)) / sqrt(variance + epsilon),  dn = gamma dy

    Args:
        values: float `[..., H]`.
        gamma, beta: `[H]` of that dtype.
        epsilon: what is added to the variance.
    """

    @_with_own_gradient
    def forward(x, gamma, beta):
        centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
        scale = tf.math.rsqrt(tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True) + epsilon)
        normal = centred * scale

        def gradient(upstream):
            to_normal = upstream * gamma
            along = tf.reduce_mean(to_normal * normal, axis=-1, keepdims=True)
            to_x = (to_normal - tf.reduce_mean(to_normal, axis=-1, keepdims=True) - normal * along) * scale
            return to_x, _sum_of_vectors(upstream * normal), _sum_of_vectors(upstream)

        return normal * gamma + beta, gradient

    return forward(values, gamma, beta)


def _sum_of_vectors(values):
    """`[..., H]` -> `[H]`: what TensorFlow's sum over the first axes computes, in less time."""
    return tf.raw_ops.BiasAddGrad(out_backprop=values)
