"""The only place where the core asks on which backend Keras runs.

`kernels`, `text_groups`, `updates` and `tensorflow_functions` are the modules with these names. On other backends they
are None, and callers use Keras' operations. `numbered_attention` is None on other backends than JAX.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.program.errors import InputError


def on_tensorflow() -> bool:
    """Returns whether TensorFlow is the backend of Keras."""
    return keras.backend.backend() == "tensorflow"


def require_tensorflow(work: str, advice: str = "") -> None:
    """Raises `InputError` if Keras runs on another backend. The message begins with `work` and ends with `advice`."""
    if not on_tensorflow():
        raise InputError(
            f"{work} needs TensorFlow as the backend of Keras, which is {keras.backend.backend()} here. Start Python "
            f"with KERAS_BACKEND=tensorflow{advice}."
        )


def numpy_of(variable: Any) -> np.ndarray:
    """Returns the value of a Keras variable as an array of its dtype, which later updates do not change."""
    return variable.value.numpy() if on_tensorflow() else np.array(variable.value)


def tensor_of(variable: Any) -> Any:
    """Returns the value of a Keras variable as a tensor, through which gradients reach the variable.

    Keras' `convert_to_tensor` returns a `tf.Variable` as it is. TensorFlow traces a function for a variable of a
    strategy, not for its value: the trace would read the weights of the first layer for all layers.
    """
    if on_tensorflow():
        import tensorflow as tf

        return tf.convert_to_tensor(variable.value)
    return variable.value


def compiled(function: Callable) -> Callable:
    """Returns a function of tensors, compiled by the backend."""
    if on_tensorflow():
        import tensorflow as tf

        return tf.function(function, autograph=False, reduce_retracing=False)
    import jax

    return jax.jit(function)


def fused_attention(query, key, value, bias):
    """As `formulas.attention` without dropout, but without scores in memory: for inference on other backends.

    JAX on a GPU has such a kernel in 16 bits. Where there is none, Keras computes the plain formula.
    """
    query, key, value = (ops.transpose(heads, (0, 2, 1, 3)) for heads in (query, key, value))  # [B, S, N, D]
    # The kernel wants a row of the bias for every query.
    bias = ops.broadcast_to(bias, (*ops.shape(bias)[:2], ops.shape(query)[1], ops.shape(bias)[3]))
    # It has no gradient for odd lengths. A length is None only in graphs of TensorFlow, which has no such kernel.
    use_kernel = False if any(length and length % 2 for length in (query.shape[1], key.shape[1])) else None
    gathered = ops.dot_product_attention(query, key, value, bias=bias, scale=1.0, flash_attention=use_kernel)
    return ops.transpose(gathered, (0, 2, 1, 3))


def keep_tensorflow_off_gpus() -> None:
    """Hides the GPUs from TensorFlow if it only reads the input of another backend: it would take their memory."""
    if not on_tensorflow():
        import tensorflow as tf

        with contextlib.suppress(RuntimeError):  # it has started already
            tf.config.set_visible_devices([], "GPU")


if on_tensorflow():
    from keras_bert.accelerate import kernels, tensorflow_functions, text_groups, updates
else:
    kernels = tensorflow_functions = text_groups = updates = None

if keras.backend.backend() == "jax":
    from keras_bert.accelerate import numbered_attention
else:
    numbered_attention = None
