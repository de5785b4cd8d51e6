"""The only place where the core asks on which backend Keras runs.

`kernels`, `text_groups`, `updates` and `tensorflow_functions` are the modules with these names. On other backends they
are None, and callers use Keras' operations. `numbered_attention` is None on other backends than JAX.
"""

import keras

from keras_bert.program.errors import InputError


def on_tensorflow() -> bool:
    """Returns whether TensorFlow is the backend of Keras."""
    return keras.backend.backend() == "tensorflow"


def require_tensorflow(work: str) -> None:
    """Raises `InputError` if Keras runs on another backend. The message begins with `work`, which needs TensorFlow."""
    if not on_tensorflow():
        raise InputError(
            f"{work} needs TensorFlow as the backend of Keras, which is {keras.backend.backend()} here. Start Python "
            "with KERAS_BACKEND=tensorflow."
        )


if on_tensorflow():
    from keras_bert.accelerate import kernels, tensorflow_functions, text_groups, updates
else:
    kernels = tensorflow_functions = text_groups = updates = None

if keras.backend.backend() == "jax":
    from keras_bert.accelerate import numbered_attention
else:
    numbered_attention = None
