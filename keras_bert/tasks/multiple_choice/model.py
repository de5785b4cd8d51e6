"""`MultipleChoice`: selects the right one of several continuations or answers."""

from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.layers.dropout import Dropout
from keras_bert.models.encoder_base import SECOND_TEXT, make_encoder
from keras_bert.models.losses import LossTerm, accuracy_term, cross_entropy_term
from keras_bert.models.task_model import example_weights, labels_of
from keras_bert.records import features
from keras_bert.tasks.multiple_choice.task import MultipleChoiceTask
from keras_bert.tasks.text_model import TextModel


@keras.saving.register_keras_serializable(package="keras_bert")
class MultipleChoice(TextModel):
    """The encoder with a dense layer that computes a score from the pooled output of each choice.

    It is trained on texts, see `tasks/multiple_choice/task.py`:

        model = MultipleChoice.from_pretrained("bert-base-uncased")
        model.fit((prompts, choices), numbers_of_right_choices, epochs=3)
        model.predict((prompts, choices))[0].text

    or on pairs `(features, label_ids)`, or on one dictionary that holds features and `label_ids`. `label_ids`, int
    `[B]`, are the numbers of the right choices, from 0. `features.parse` reads such dictionaries from the records of
    `features.multiple_choice_features`.

    The loss is the weighted mean of the cross-entropy over the choices. `fit` and `evaluate` report `loss` and
    `accuracy`.

    Args:
        config: a `BertConfig`.
        temperature: see `TextModel`.

    Call arguments:
        inputs: dictionary of `input_ids`, `input_mask` and `segment_ids`, int `[B, C, S]`: a row for each of C choices.
            Other keys are ignored.
        training: whether to apply dropout.

    Returns:
        float32 logits `[B, C]`.

    Reference: Devlin et al., 2018, section 4.4.
    """

    feature_axes = ("batch", "choices", "length")
    kind = "MultipleChoice"
    task_class = MultipleChoiceTask
    loss_names = ("choice_loss",)
    logits_layer = "choice_scorer"
    metric_names = ("accuracy",)

    def __init__(self, config: BertConfig, temperature: float = 1.0, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.temperature = float(temperature)
        self.encoder = make_encoder(config, dtype=self.dtype_policy, name="encoder")
        self.encoder.global_tokens = SECOND_TEXT  # the choice
        self.dropout = Dropout(config.hidden_dropout_prob, dtype=self.dtype_policy, name="dropout")
        self.choice_scorer = self.logits_dense(1, "choice_scorer")
        self.build()

    def build(self, input_shape: Any = None) -> None:
        self.choice_scorer.build((None, self.config.hidden_size))

    def call(self, inputs: Any, training: bool = False) -> Any:
        _, num_choices, length = ops.shape(inputs[features.INPUT_IDS])
        names = [name for name in (*self.feature_names, features.GLOBAL_MASK) if name in inputs]
        rows = {name: ops.reshape(inputs[name], (-1, length)) for name in names}
        if features.TOKEN_VECTORS in inputs:
            vectors = inputs[features.TOKEN_VECTORS]
            rows[features.TOKEN_VECTORS] = ops.reshape(vectors, (-1, length, ops.shape(vectors)[-1]))
        pooled = self.encoder.vectors_at(rows, training=training)["pooled_output"]
        return ops.reshape(self.choice_scorer(self.dropout(pooled, training=training)), (-1, num_choices))

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        return [cross_entropy_term("choice_loss", y_pred, self._label_ids(x, y), example_weights(x, sample_weight))]

    def metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        return [accuracy_term("accuracy", y_pred, self._label_ids(x, y), example_weights(x, sample_weight))]

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        # Metrics that were given to `compile` read the labels from `y` only.
        return super().compute_metrics(x, self._label_ids(x, y), y_pred, sample_weight)

    def _label_ids(self, x, y):
        return ops.reshape(ops.cast(labels_of(self, x, y), "int32"), (-1,))
