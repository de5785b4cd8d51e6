"""TensorFlow functions that are computed again in the backward pass to save memory, or traced once to start sooner;
and the mean of table rows.

This module is for Keras on TensorFlow only.
"""

import tensorflow as tf

from keras_bert.program.private_interfaces import private

_is_in_xla = private("tensorflow.python.ops.control_flow_util.GraphOrParentsInXlaContext")


def recomputed(function):
    """Returns a function like `function` whose backward pass calls it again instead of keeping intermediate results.

    Keras does this with `tf.recompute_grad`. That gives no gradients to tensors that a function takes from its
    surroundings, and fails if some arguments are integers.

    Args:
        function: takes (a list of float tensors, a list of int tensors, a list of float tensors), and returns (a
            structure of float tensors, a list of int tensors). Gradients flow from the returned floats to both lists
            of floats.
    """

    def call(inputs, numbers, weights):
        # Variables become tensors here, because custom_gradient treats variables and their gradients differently.
        numbers, weights = ([tf.convert_to_tensor(value) for value in group] for group in (numbers, weights))

        @tf.custom_gradient
        def with_gradient(*floats):
            values, weights = list(floats[: len(inputs)]), list(floats[len(inputs) :])
            outputs, next_numbers = function(values, numbers, weights)
            num_outputs = len(tf.nest.flatten(outputs))

            def gradient(*gradients):
                gradients = [tf.convert_to_tensor(value) for value in gradients[:num_outputs]]
                # Always 0, but only known when the gradient is. Without it, Grappler and XLA (which ignores control
                # dependencies) would merge the equal operations of the two passes and so keep their results.
                zero = tf.cast(tf.reduce_any(tf.math.is_nan(tf.reshape(gradients[0], [-1])[:1])), tf.int32)
                later_values = [value + tf.cast(zero, value.dtype) for value in values]
                later_numbers = [number + tf.cast(zero, number.dtype) for number in numbers]
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch([*later_values, *weights])
                    second_outputs = tf.nest.flatten(function(later_values, later_numbers, weights)[0])
                return tape.gradient(second_outputs, [*later_values, *weights], output_gradients=gradients)

            return (outputs, next_numbers), gradient

        return with_gradient(*inputs, *weights)

    return call


def calls_are_fast() -> bool:
    """Returns whether TensorFlow is making a graph in which calling one function many times does not slow it down.

    Under XLA it does: XLA computes the matrix products of such a function in slow loops.
    """
    return not tf.executing_eagerly() and lengths_may_vary()


def lengths_may_vary() -> bool:
    """Returns whether tensors may have lengths that are unknown until they are computed. XLA does not allow this."""
    return not _is_in_xla(tf.compat.v1.get_default_graph())


def traced_once(function):
    """Returns a function of tensors whose Python code runs only for the first tensors of some shapes and dtypes."""
    return tf.function(function, autograph=False)


def mean_rows(table, ids):
    """Returns the means `[B, H]` of the rows of a table `[V, H]`, a variable, that the ids of each text name.

    The ids are a RaggedTensor, int32 `[B, None]`; without ids the mean is 0. This takes half the time of
    `keras.ops.segment_sum`, because the rows are not copied first.
    """
    rows = tf.convert_to_tensor(table)
    return tf.sparse.segment_mean(rows, ids.values, ids.value_rowids(), num_segments=ids.nrows())
