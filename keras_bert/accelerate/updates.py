"""Parts of an optimizer's update in fewer passes over memory, for Keras on TensorFlow."""

import tensorflow as tf


def summed_over_devices(gradients) -> list:
    """Returns the sum of each gradient over the devices of the strategy; outside of `strategy.run` they are unchanged.

    A gradient is a tensor, `tf.IndexedSlices`, or None, which stays None.
    """
    device = tf.distribute.get_replica_context()
    given = [gradient for gradient in gradients if gradient is not None]
    if device is None or device.num_replicas_in_sync == 1 or not given:
        return list(gradients)
    sums = iter(device.all_reduce(tf.distribute.ReduceOp.SUM, given))
    return [None if gradient is None else next(sums) for gradient in gradients]


def summed_rows(gradient):
    """Sums the slices of an embedding's gradient that belong to the same row of the table.

    The first slice of a row gets the sum, and the others become 0, so the norm of the slices is that of the gradient.
    16-bit slices become float32: sums would overflow in float16, and stop growing in bfloat16. So do 16-bit tensors;
    others are returned as they are.
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
    """Returns 16-bit gradients as float32, and others as they are."""
    values = _values(gradient)
    if values is None or values.dtype.size > 2:
        return gradient
    values = tf.cast(values, tf.float32)
    is_sliced = isinstance(gradient, tf.IndexedSlices)
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape) if is_sliced else values


def dense_gradient(gradient):
    """Returns the gradient as a tensor with the variable's shape. Slices are summed in at least float32."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    gradient = _in_32_bits(gradient)
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, gradient.dense_shape[0])


def add_gradient(total, gradient):
    """Adds `gradient` to `total` in its memory, and returns the sum. Do not use `total` afterwards.

    `IndexedSlices` are added to the rows that they name, without a dense gradient.
    """
    if isinstance(gradient, tf.IndexedSlices):
        gradient = _in_32_bits(gradient)
        return tf.tensor_scatter_nd_add(total, gradient.indices[:, None], gradient.values)
    return total + gradient


def global_norm(gradients):
    """Returns the norm of all gradients but None together, as a float32 scalar (float64 if some gradients are)."""
    tensors = [_values(summed_rows(gradient)) for gradient in gradients if gradient is not None]
    dtype = tf.float64 if any(tensor.dtype == tf.float64 for tensor in tensors) else tf.float32
    # l2_loss is half the sum of squares, and makes no tensor of the squares.
    return tf.sqrt(2.0 * tf.add_n([tf.cast(tf.nn.l2_loss(tensor), dtype) for tensor in tensors]))


def _values(gradient):
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def clip_by_global_norm(gradients, clip_norm: float) -> list:
    """Scales all gradients by one factor so that their common norm is at most `clip_norm`. An infinite norm gives NaN.

    Slices are summed by `summed_rows`, 16-bit gradients become float32, and None stays None.
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
    """Returns a context whose operations run after the gradient (a tensor or `tf.IndexedSlices`) is computed."""
    return tf.control_dependencies([_values(gradient)])


def adam_constants(dtype, beta_1: float, beta_2: float) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the constants of `adam_update`. A graph needs them once for all variables of a dtype."""
    # Powers of 0 switch off the operation's own bias correction, whose 1 - beta^t is inexact in float32.
    return tf.zeros([], dtype), tf.constant(beta_1, dtype), tf.constant(beta_2, dtype)


def adam_update(variable, momentum, velocity, gradient, rate, epsilon, constants) -> None:
    """Updates a variable and its moments by one step of Adam without bias correction:

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g^2
        w = w - rate * m / (sqrt(v) + epsilon)

    Args:
        variable, momentum, velocity: `tf.Variable`s of one dtype and shape. All three are updated.
        gradient: tensor or `tf.IndexedSlices`.
        rate, epsilon: scalars of that dtype.
        constants: the result of `adam_constants`.
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
