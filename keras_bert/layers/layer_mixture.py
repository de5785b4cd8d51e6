"""A learnt weighted mean of layers, to build a classifier on the features of a frozen encoder."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert")
class LayerMixture(keras.layers.Layer):
    """Returns a weighted mean of the vectors of several layers. The weights are learnt.

    The weights are positive and sum to 1. At the start they are equal.

    Call arguments:
        hidden: float `[..., L, H]`, the vectors of L layers, as `token_features` and `extract_features` return them.

    Returns:
        `[..., H]`.

    Example:
        >>> LayerMixture()(np.ones((2, 7, 4, 8))).shape  # rows, tokens, layers, H
        TensorShape([2, 7, 8])

    Reference: Devlin et al., 2018, section 5.3, table 7 ("weighted sum"); Peters et al., 2018, equation 1.
    """

    def build(self, hidden_shape):
        self.scores = self.add_weight(name="scores", shape=(hidden_shape[-2],), initializer="zeros")

    def call(self, hidden):
        weights = ops.softmax(ops.convert_to_tensor(self.scores), axis=-1)
        return ops.sum(hidden * ops.expand_dims(weights, -1), axis=-2)

    def compute_output_shape(self, hidden_shape):
        return (*hidden_shape[:-2], hidden_shape[-1])
