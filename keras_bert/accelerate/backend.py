"""Whether Keras runs on TensorFlow: the one place where the core asks.

`tensorflow_kernels` and `tensorflow_functions` are the modules of those names, or None on other backends, where Keras'
operations do the same.
"""

import keras

from keras_bert.program.errors import InputError


def on_tensorflow() -> bool:
    return keras.backend.backend() == "tensorflow"


def require_tensorflow(work: str) -> None:
    """Raises `InputError` where Keras runs on another backend; `work` says what cannot be done there."""
    if not on_tensorflow():
        raise InputError(
            f"{work} needs TensorFlow as the backend of Keras, which is {keras.backend.backend()} here. Start Python "
            "with KERAS_BACKEND=tensorflow."
        )


if on_tensorflow():
    from keras_bert.accelerate import tensorflow_functions, tensorflow_kernels
else:
    tensorflow_functions = tensorflow_kernels = None
