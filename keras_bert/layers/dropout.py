"""Dropout, computed by the formula that is chosen."""

import keras
from keras import ops

from keras_bert.layers.choosing import formulas_for


@keras.saving.register_keras_serializable(package="keras_bert")
class Dropout(keras.layers.Dropout):
    """Sets a share of the numbers to 0 in training and scales the others up, as `keras.layers.Dropout`.

    On TensorFlow it draws 16 bits for each number, so `rate` is rounded to a multiple of 1/65536. Keras' own draws 32.

    Args:
        rate: the share, at least 0 and below 1.

    Call arguments:
        inputs: any shape.
        training: whether dropout acts.
    """

    def call(self, inputs, training=False):
        if not (training and self.rate) or self.noise_shape is not None:
            return super().call(inputs, training=training)
        form = formulas_for(training)
        return form.dropout(inputs, *form.draw_kept(ops.shape(inputs), self.rate, self.seed_generator))
