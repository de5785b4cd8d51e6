"""Dropout."""

import keras
from keras import ops

from keras_bert.layers.choosing import formulas_for


@keras.saving.register_keras_serializable(package="keras_bert")
class Dropout(keras.layers.Dropout):
    """Sets a random fraction of the inputs to 0 in training and scales up the others, like `keras.layers.Dropout`.

    On TensorFlow it draws 16 random bits per number, and Keras 32. So `rate` is rounded to a multiple of 1/65536.

    Args:
        rate: the fraction, at least 0 and below 1.

    Call arguments:
        inputs: floats of any shape. The outputs have their shape and dtype.
        training: whether to apply dropout.

    Reference: Srivastava et al., 2014.
    """

    def call(self, inputs, training=False):
        if not (training and self.rate) or self.noise_shape is not None:
            return super().call(inputs, training=training)
        module = formulas_for(training)
        return module.dropout(inputs, *module.draw_kept(ops.shape(inputs), self.rate, self.seed_generator))
