"""Parts of an optimizer's update in fewer passes over memory, for Keras on TensorFlow."""

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
