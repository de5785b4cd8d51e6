"""Dropout that draws 16 random bits for a number instead of 32."""

import keras

from keras_bert.accelerate.backend import tensorflow_kernels


@keras.saving.register_keras_serializable(package="keras_bert")
class Dropout(keras.layers.Dropout):
    """Sets a share of the numbers to 0 in training and scales the others up, as `keras.layers.Dropout`.

    On TensorFlow it draws 16 bits for each number, so `rate` is rounded to a multiple of 1/65536. Keras' own draws 32.
    On other backends it is Keras' own.

    Args:
        rate: the share, at least 0 and below 1.

    Call arguments:
        inputs: any shape.
        training: whether dropout acts.
    """

    def call(self, inputs, training=False):
        if tensorflow_kernels and training and self.rate and self.noise_shape is None:
            return tensorflow_kernels.dropout(inputs, self.rate, self.seed_generator.next())
        return super().call(inputs, training=training)
