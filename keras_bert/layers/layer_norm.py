"""LayerNorm and RMSNorm over the last axis."""

import keras
from keras import ops

from keras_bert.layers.bert_layer import BertLayer
from keras_bert.layers.choosing import formulas_for


@keras.saving.register_keras_serializable(package="keras_bert")
class LayerNorm(BertLayer):
    """Normalises every vector to mean 0 and variance 1, then scales and shifts it: `gamma * (x - mean) / sd + beta`.

    It computes in at least float32, because BERT's epsilon, 1e-12, is 0 in float16. Keras' LayerNormalization does that
    too, but makes more passes over the vectors.

    Args:
        epsilon: added to the variance.
        use_bias: whether there is a beta.

    Call arguments:
        inputs: float `[..., H]`. The outputs have this shape.
        training: whether a backward pass follows. If so, TensorFlow uses a kernel that keeps less for it.

    Reference: Ba et al., 2016, arXiv 1607.06450.
    """

    def __init__(self, epsilon=1e-12, use_bias=True, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.use_bias = use_bias

    def build(self, input_shape):
        self.gamma = self.add_weight(name="gamma", shape=input_shape[-1:], initializer="ones", autocast=False)
        if self.use_bias:
            self.beta = self.add_weight(name="beta", shape=input_shape[-1:], initializer="zeros", autocast=False)

    def call(self, inputs, training=False):
        dtype = keras.backend.result_type(self.compute_dtype, "float32")
        inputs = ops.cast(inputs, dtype)
        gamma, beta = ops.cast(self.gamma, dtype), ops.cast(self.beta, dtype) if self.use_bias else None
        outputs = formulas_for(training).layer_norm(inputs, gamma, beta, self.epsilon)
        return ops.cast(outputs, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return input_shape


@keras.saving.register_keras_serializable(package="keras_bert")
class RMSNorm(BertLayer):
    """Divides every vector by the root of its mean square, then scales it: `gamma * x / rms`. It computes in at least
    float32.

    Args:
        epsilon: added to the mean square.
        plus_1: whether the scale is `1 + gamma`, where gamma starts at 0.

    Call arguments:
        inputs: float `[..., H]`. The outputs have this shape.
        training: has no effect.

    Reference: Zhang and Sennrich, 2019, arXiv 1910.07467; for `plus_1`, google-deepmind/gemma, `_layers.py`.
    """

    compute_output_shape = LayerNorm.compute_output_shape

    def __init__(self, epsilon=1e-6, plus_1=False, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.plus_1 = plus_1

    def build(self, input_shape):
        initial = "zeros" if self.plus_1 else "ones"
        self.gamma = self.add_weight(name="gamma", shape=input_shape[-1:], initializer=initial, autocast=False)

    def call(self, inputs, training=False):
        dtype = keras.backend.result_type(self.compute_dtype, "float32")
        values, gamma = ops.cast(inputs, dtype), ops.cast(self.gamma, dtype)
        scale = ops.rsqrt(ops.mean(ops.square(values), axis=-1, keepdims=True) + self.epsilon)
        return ops.cast(values * scale * (1 + gamma if self.plus_1 else gamma), self.compute_dtype)
