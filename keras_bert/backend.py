"""Whether Keras runs on TensorFlow: the one place where the core asks.

`tensorflow_kernels` is the module of that name, or None on other backends, where Keras' operations do the same.
"""

import keras

ON_TENSORFLOW = keras.backend.backend() == "tensorflow"

if ON_TENSORFLOW:
    from keras_bert import tensorflow_kernels
else:
    tensorflow_kernels = None
