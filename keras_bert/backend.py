"""Whether Keras runs on TensorFlow: the one place where the core asks.

`tensorflow_kernels` and `tensorflow_functions` are the modules of those names, or None on other backends, where Keras'
operations do the same.
"""

import keras


def on_tensorflow() -> bool:
    return keras.backend.backend() == "tensorflow"


if on_tensorflow():
    from keras_bert import tensorflow_functions, tensorflow_kernels
else:
    tensorflow_functions = tensorflow_kernels = None
