"""`NoNorm`, MobileBERT's replacement of LayerNorm."""

import keras
from keras import ops

from keras_bert.layers.bert_layer import BertLayer


@keras.saving.register_keras_serializable(package="keras_bert")
class NoNorm(BertLayer):
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
