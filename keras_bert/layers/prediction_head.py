"""The head of ModernBERT's tasks: a dense layer with an activation, then a LayerNorm."""

import keras

from keras_bert.layers.activations import hidden_activation
from keras_bert.layers.bert_layer import BertLayer
from keras_bert.layers.layer_norm import LayerNorm


@keras.saving.register_keras_serializable(package="keras_bert")
class PredictionHead(BertLayer):
    """Prepares vectors for the last layer of a task: `LayerNorm(activation(dense(x)))`.

    Args:
        activation: name of the activation, as in `BertConfig.hidden_act`.
        layer_norm_epsilon: added to the variance in LayerNorm.
        initializer_range: standard deviation of the initial kernel.
        use_bias: whether the dense layer has a bias.
        norm_bias: whether the LayerNorm has a bias.

    Call arguments:
        hidden: float `[..., H]`: the vectors of rows or of tokens.
        training: whether a backward pass follows.

    Returns:
        a tensor of the same shape.

    Reference: transformers, `ModernBertPredictionHead`.
    """

    def __init__(
        self,
        activation="gelu_erf",
        layer_norm_epsilon=1e-5,
        initializer_range=0.02,
        use_bias=False,
        norm_bias=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.use_bias = use_bias
        self.norm_bias = norm_bias
        self._activate = hidden_activation(activation)
        self.layer_norm = LayerNorm(layer_norm_epsilon, norm_bias, dtype=self.dtype_policy, name="layer_norm")

    def build(self, hidden_shape):
        width = hidden_shape[-1]
        self.dense = self.new_dense("dense", width, width, use_bias=self.use_bias)
        self.layer_norm.build((None, width))

    def call(self, hidden, training=False):
        return self.layer_norm(self._activate(self.dense(hidden), training), training=training)

    def compute_output_shape(self, hidden_shape):
        return hidden_shape
