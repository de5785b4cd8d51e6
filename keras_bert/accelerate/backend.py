"""Whether Keras runs on TensorFlow: the one place where the core asks.

`kernels`, `updates` and `tensorflow_functions` are the modules of those names, or None on other backends, where Keras'
operations do the same.
"""

import contextlib

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
    from keras_bert.accelerate import kernels, tensorflow_functions, updates
else:
    kernels = tensorflow_functions = updates = None

_plain_gradients_only = False


def plain_gradients_only() -> bool:
    """Returns whether this code runs within `plain_gradients`."""
    return _plain_gradients_only


@contextlib.contextmanager
def plain_gradients():
    """Inside, what is traced has the gradients of plain operations: a SavedModel cannot hold others."""
    global _plain_gradients_only
    before, _plain_gradients_only = _plain_gradients_only, True
    try:
        yield
    finally:
        _plain_gradients_only = before
