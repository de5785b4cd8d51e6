"""How TensorFlow is made to call functions of the core: twice, to save memory, or traced once, to start sooner.

As `tensorflow_kernels`, this is for Keras on TensorFlow only.
"""

import tensorflow as tf

from keras_bert.program.private_interfaces import private

_is_in_xla = private("tensorflow.python.ops.control_flow_util.GraphOrParentsInXlaContext")


def recomputed(function):
    """Returns `function`, whose backward pass calls it again instead of keeping what it has computed.

    `tf.recompute_grad`, by which Keras does this, gives no gradients to tensors that a function takes from around
    it, and fails where integers are among its arguments.

    Args:
        function: takes (a float tensor, a list of int tensors, a list of float tensors), and returns (a structure of
            float tensors, a list of int tensors). Gradients flow from the first to both kinds of floats.
    """

    def call(values, numbers, weights):
        # Variables are read here: what is around a variable, such as its gradient, is not custom_gradient's affair.
        numbers, weights = ([tf.convert_to_tensor(given) for given in group] for group in (numbers, weights))

        @tf.custom_gradient
        def with_gradient(values, *weights):
            outputs, counts = function(values, numbers, weights)
            num_outputs = len(tf.nest.flatten(outputs))

            def gradient(*gradients):
                gradients = [tf.convert_to_tensor(given) for given in gradients[:num_outputs]]
                # 0, known only when the gradient is. Without it, equal operations of both passes would be computed once
                # (by Grappler and by XLA, which heeds no control dependencies) and so be kept.
                zero = tf.cast(tf.reduce_any(tf.math.is_nan(tf.reshape(gradients[0], [-1])[:1])), tf.int32)
                later_values = values + tf.cast(zero, values.dtype)
                later_numbers = [number + tf.cast(zero, number.dtype) for number in numbers]
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch([later_values, *weights])
                    again = tf.nest.flatten(function(later_values, later_numbers, weights)[0])
                return tape.gradient(again, [later_values, *weights], output_gradients=gradients)

            return (outputs, counts), gradient

        return with_gradient(values, *weights)

    return call


def saves_time_by_calls() -> bool:
    """Returns whether a graph is being made that may call one function many times without computing more slowly.

    XLA compiles the products of a function that is called from several places to slow loops of its own.
    """
    return not tf.executing_eagerly() and lengths_may_vary()


def lengths_may_vary() -> bool:
    """Returns whether tensors may have lengths that are known only when they are there, as XLA's may not."""
    return not _is_in_xla(tf.compat.v1.get_default_graph())


def traced_once(function):
    """Returns `function`, which runs in Python at its first call only.

    Args:
        function: takes and returns structures of tensors. It is traced again for other shapes and types.
    """
    return tf.function(function, autograph=False)
