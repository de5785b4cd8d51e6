"""`UrgencyModel`: how urgent a message is."""

import keras
from keras import ops

from keras_bert.models.encoder_base import make_encoder
from keras_bert.models.losses import absolute_error_term, binary_cross_entropy_term
from keras_bert.models.task_model import example_weights
from keras_bert.records import features
from keras_bert.tasks.text_model import TextModel
from toys.urgency.task import UrgencyTask


@keras.saving.register_keras_serializable("toys")
class UrgencyModel(TextModel):
    """The encoder with a dense layer on its pooled output, which returns the logit of the urgency, `[B, 1]`."""

    kind = "UrgencyModel"
    task_class = UrgencyTask
    loss_names = ("urgency_loss",)
    metric_names = ("mean_absolute_error",)

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.encoder = make_encoder(config, dtype=self.dtype_policy, name="encoder")
        self.urgency_head = keras.layers.Dense(1, dtype="float32", name="urgency_head")
        self.build()

    def build(self, input_shape=None):
        self.urgency_head.build((None, self.config.hidden_size))

    def call(self, inputs, training=False):
        return self.urgency_head(self.encoder.vectors_at(inputs, training=training)["pooled_output"])

    def loss_terms(self, x, y, y_pred, sample_weight):
        weights = example_weights(x, sample_weight)
        return [binary_cross_entropy_term("urgency_loss", y_pred, _urgencies(x, y), weights)]

    def metric_terms(self, x, y, y_pred, sample_weight):
        weights = example_weights(x, sample_weight)
        return [absolute_error_term("mean_absolute_error", ops.sigmoid(y_pred), _urgencies(x, y), weights)]


def _urgencies(x, y):
    """Returns float `[B, 1]`. Batches of texts have the labels among the features."""
    return ops.reshape(x[features.LABEL_IDS] if y is None else y, (-1, 1))
