"""`NoNorm`, MobileBERT's replacement of LayerNorm."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert")
class NoNorm(keras.layers.Layer):
    """Scales and shifts every vector: `gamma * x + beta`. It needs no mean and no variance.

    Call arguments:
        inputs: float `[..., H]`.
        training: not used; it is there because `LayerNorm` has it.

    Returns:
        a tensor of the same shape.

    Reference: Sun et al., 2020, arXiv 2004.02984, section 3.3.
    """

    def build(self, input_shape):
        self.gamma = self.add_weight(name="gamma", shape=input_shape[-1:], initializer="ones", autocast=False)
        self.beta = self.add_weight(name="beta", shape=input_shape[-1:], initializer="zeros", autocast=False)

    def call(self, inputs, training=False):
        return inputs * ops.cast(self.gamma, inputs.dtype) + ops.cast(self.beta, inputs.dtype)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):  # without it, Keras refuses the dtype policy that it got
        return super().get_config()
