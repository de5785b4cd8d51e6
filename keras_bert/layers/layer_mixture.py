"""A learnt mean of layers: features for a head of one's own from an encoder that stays as it is."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert")
class LayerMixture(keras.layers.Layer):
    """Adds up the vectors of several layers, each with a weight that is learnt; the weights are positive and sum to 1.

    It begins with the plain mean.

    Call arguments:
        hidden: `[..., L, H]`, the vectors of L layers, as `token_features` and `extract_features` give them.

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
