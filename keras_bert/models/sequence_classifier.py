"""`BertSequenceClassifier`: one label for a text or a pair of texts."""

from collections.abc import Mapping, Sequence

import keras
from keras import ops

from keras_bert import features
from keras_bert.config import BertConfig
from keras_bert.errors import InputError
from keras_bert.losses import accuracy_term, cross_entropy_term
from keras_bert.models.base import TaskModel, check_labels, example_weights
from keras_bert.models.encoder import BertEncoder


@keras.saving.register_keras_serializable(package="keras_bert")
class BertSequenceClassifier(TaskModel):
    """The encoder with a dense layer on its pooled output.

    It is trained on pairs `(features, label ids [B])`, or on one dictionary that holds `label_ids` beside the features:

        model = BertSequenceClassifier(config, labels=["negative", "positive"])
        model.compile(optimizer=AdamW(2e-5))
        model.fit(dataset, epochs=3)

    The loss is the weighted mean of the cross-entropy: sum(weight * loss) / sum(weight). Reported are `loss` and
    `accuracy`. `metrics` given to `compile` work on labels `[B]` and logits.

    Args:
        config: a `BertConfig`.
        labels: names of the classes; label id 0 is the first.

    Call arguments:
        inputs: dictionary of `input_ids`, `input_mask` and `segment_ids`, int `[B, S]` (see `BertEncoder`). Other keys
            are ignored.
        training: whether dropout acts.

    Returns:
        float32 logits `[B, number of labels]`.

    Raises:
        InputError: fewer than two labels, or one twice.

    Reference: Devlin et al., 2018, section 4.1; google-research/bert `run_classifier.py`.
    """

    loss_names = ("classification_loss",)
    metric_names = ("accuracy",)

    def __init__(self, config: BertConfig, labels: Sequence[str], **kwargs):
        super().__init__(config, **kwargs)
        self.labels = check_labels(labels)
        self.encoder = BertEncoder(config, dtype=self.dtype_policy, name="encoder")
        self.dropout = keras.layers.Dropout(config.hidden_dropout_prob, dtype=self.dtype_policy, name="dropout")
        self.classifier = keras.layers.Dense(
            len(self.labels),
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=config.initializer_range),
            dtype=self._logits_dtype,
            name="classifier",
        )
        self.build()

    def build(self, input_shape=None):
        self.classifier.build((None, self.config.hidden_size))

    def call(self, inputs, training=False):
        pooled = self.encoder(inputs, training=training)["pooled_output"]
        return self.classifier(self.dropout(pooled, training=training))

    def loss_terms(self, x, y, y_pred, sample_weight):
        weights = example_weights(x, sample_weight)
        return [cross_entropy_term("classification_loss", y_pred, self._label_ids(x, y), weights)]

    def metric_terms(self, x, y, y_pred, sample_weight):
        weights = example_weights(x, sample_weight)
        return [accuracy_term("accuracy", y_pred, self._label_ids(x, y), weights)]

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        # Metrics that were given to `compile` find the labels in `y` only.
        return super().compute_metrics(x, self._label_ids(x, y), y_pred, sample_weight)

    def get_metrics_result(self):
        results = super().get_metrics_result()
        del results["classification_loss"]  # it is the whole loss
        return results

    def _label_ids(self, x, y):
        if y is None and isinstance(x, Mapping):
            y = x.get(features.LABEL_IDS)
        if y is None:
            raise InputError(
                "BertSequenceClassifier is trained on pairs (features, label ids), or on features that hold "
                f"{features.LABEL_IDS}. Received no labels."
            )
        return ops.reshape(ops.cast(y, "int32"), (-1,))

    def get_config(self):
        return {**super().get_config(), "labels": list(self.labels)}
