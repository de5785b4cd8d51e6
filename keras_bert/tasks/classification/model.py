"""`SequenceClassifier`: a label, several labels or scores for a text or a pair of texts."""

from collections.abc import Sequence
from typing import Any, Unpack

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.layers.dropout import Dropout
from keras_bert.models.encoder_base import make_encoder
from keras_bert.models.losses import (
    LossTerm,
    absolute_error_term,
    accuracy_term,
    binary_accuracy_term,
    binary_cross_entropy_term,
    cross_entropy_term,
    squared_error_term,
)
from keras_bert.models.shown_arguments import check_options
from keras_bert.models.task_model import example_weights, labels_of
from keras_bert.program.label_types import Label, label_strings, label_value
from keras_bert.program.options import check_choice, check_whole
from keras_bert.tasks.base import TextTask
from keras_bert.tasks.classification.loaded import LoadedSequenceClassifier
from keras_bert.tasks.classification.losses import LabelLoss, label_loss
from keras_bert.tasks.classification.task import ClassificationTask, tune_on_answers
from keras_bert.tasks.classification.thresholds import TunedThresholds, check_answer_options, divided
from keras_bert.tasks.fitting import outputs_with_labels
from keras_bert.tasks.label_names import check_labels
from keras_bert.tasks.text_model import FitOptions, PredictOptions, TextModel

# Problem type -> the terms of its loss and of its metric.
_TERMS: dict[str, tuple] = {
    "classification": (cross_entropy_term, accuracy_term),
    "multi_label": (binary_cross_entropy_term, binary_accuracy_term),
    "regression": (squared_error_term, absolute_error_term),
}
PROBLEM_TYPES = tuple(_TERMS)
# Two labels that nobody has named, as transformers names them.
UNNAMED_LABELS = ("LABEL_0", "LABEL_1")


@keras.saving.register_keras_serializable(package="keras_bert")
class SequenceClassifier(TextModel):
    """The encoder with a dense layer on its pooled output.

    It is trained on pairs `(features, label_ids)`, or on one dictionary that holds features and `label_ids`:

        model = SequenceClassifier(config, labels=["negative", "positive"])
        model.compile(optimizer=AdamW(2e-5))
        model.fit(dataset, epochs=3)

    or on texts and labels, `fit(texts, labels)` or `fit((texts, second_texts), labels)`; see
    `tasks/classification/task.py` for these and for the answers of `predict(texts)`.

    The loss is a weighted mean over the examples, sum(weight * loss) / sum(weight). `problem_type` selects it:

        classification   one label per example: softmax cross-entropy. `label_ids` are int `[B]`.
        multi_label      any number of labels: binary cross-entropy, averaged over the labels. `label_ids` are 0 or 1,
                         `[B, labels]`.
        regression       a score for each of `labels`: squared error, averaged over the scores. `label_ids` are float
                         `[B]` or `[B, labels]`.

    For rare labels, `fit(texts, labels, loss="focal")` and, with `multi_label`, `loss="asymmetric"` replace the
    cross-entropy; see `tasks/classification/losses.py`.

    `fit` and `evaluate` report `loss` and one metric: `accuracy`, which for `multi_label` is the share of right
    decisions among those for every example and label, or `mean_absolute_error` for `regression`. The `metrics` given to
    `compile` get labels and logits.

    Args:
        config: a `BertConfig`.
        labels: the classes, of one type: strings, whole numbers, truth values or floats; label id 0 is the first. For
            `regression`, the names of the scores. None: `score` for `regression`, otherwise the two names LABEL_0 and
            LABEL_1. The attribute `labels` has them as strings, as files do, and `label_values` in their own type, as
            answers do.
        problem_type: `classification`, `multi_label` or `regression`, see above.
        doc_stride: cuts texts that are too long for a row into overlapping windows, each of which begins this many
            tokens after the one before it; the answer is the mean over the windows. None: such texts are cut off.
        thresholds: for `multi_label`, a number from 0 to 1, a number for each label, or label -> number. A label is
            predicted if its probability exceeds its threshold. None: 0.5. They can be changed as an attribute.
        label_type: of labels that are given as strings, the type that answers have: `str`, `int`, `bool` or `float`.
            None: the type of `labels`.
        temperature: see `TextModel`.

    Call arguments:
        inputs: dictionary of `input_ids`, `input_mask` and `segment_ids`, int `[B, S]` (see `BertEncoder`). Other keys
            are ignored.
        training: whether to apply dropout.

    Returns:
        float32 logits `[B, number of labels]`.

    Raises:
        InputError: there are fewer than two classes or no label, a label is there twice, `problem_type` is unknown, or
            a threshold is not from 0 to 1.

    Reference: Devlin et al., 2018, section 4.1; google-research/bert `run_classifier.py`.
    """

    loss_names = ("classification_loss",)
    logits_layer = "classifier"
    kind = "SequenceClassifier"
    task_class: type[TextTask] = ClassificationTask
    # Loaded exports have these methods too.
    predict_proba, zero_shot = LoadedSequenceClassifier.predict_proba, LoadedSequenceClassifier.zero_shot
    thresholds: Any = LoadedSequenceClassifier.thresholds

    def __init__(
        self,
        config: BertConfig,
        labels: Sequence[str] | None = None,
        problem_type: str = "classification",
        doc_stride: int | None = None,
        thresholds: Any = None,
        label_type: str | None = None,
        temperature: float = 1.0,
        **kwargs: Any,
    ):
        check_choice("problem_type", problem_type, PROBLEM_TYPES)
        self.metric_names = (self._metric_name(problem_type),)
        super().__init__(config, **kwargs)
        self.problem_type, self.temperature = problem_type, float(temperature)
        self.doc_stride = check_whole("doc_stride", doc_stride, at_least=1, or_none=True)
        if labels is None:
            labels = ("score",) if problem_type == "regression" else UNNAMED_LABELS
        labels, own_type = label_strings(labels)
        self.labels = check_labels(labels, fewest=2 if problem_type == "classification" else 1)
        self.label_type = label_type or own_type
        self.label_values: tuple[Label, ...] = tuple(label_value(label, self.label_type) for label in self.labels)
        self.thresholds = thresholds
        self.encoder = make_encoder(config, dtype=self.dtype_policy, name="encoder")
        self.dropout = Dropout(config.hidden_dropout_prob, dtype=self.dtype_policy, name="dropout")
        self.classifier = self.logits_dense(len(self.labels), "classifier")
        self.build()

    @staticmethod
    def _metric_name(problem_type: str) -> str:
        return "mean_absolute_error" if problem_type == "regression" else "accuracy"

    def build(self, input_shape: Any = None) -> None:
        self.classifier.build((None, self.config.hidden_size))

    def call(self, inputs: Any, training: bool = False) -> Any:
        pooled = self.encoder.vectors_at(inputs, training=training)["pooled_output"]
        return self.classifier(self.dropout(pooled, training=training))

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        *,
        teacher: Any = None,
        terms: Any = None,
        layer_map: Sequence[int] | None = None,
        temperature: float = 2.0,
        learning_rate: float = 5e-5,
        **options: Unpack[FitOptions],
    ) -> Any:
        """Trains on features or on texts. Arguments that are not listed are those of `TextModel.fit`.

        Args:
            teacher: texts only. A teacher, or its folder: then `keras_bert.distill` trains. A teacher goes without
                validation_split, class_weight, sample_weight, steps_per_epoch and skip_missing.
            terms, layer_map, temperature, learning_rate: with a teacher only; as for `keras_bert.distill`.
        """
        of_teacher = {"terms": terms, "layer_map": layer_map, "temperature": temperature}
        of_teacher |= {"learning_rate": learning_rate}
        if teacher is not None:
            return super().fit(x, y, batch_size, teacher=teacher, **of_teacher, **options)
        check_options(self.fit, "without a teacher", of_teacher)
        return super().fit(x, y, batch_size, **options)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        *,
        top_k: int | None = None,
        threshold: Any = None,
        **options: Unpack[PredictOptions],
    ) -> Any:
        """Returns logits for features, or an answer for each text: `LabelAnswer`, `LabelsAnswer` or `ScoreAnswer`.

        Arguments that are not listed are those of `TextModel.predict`.

        Args:
            top_k: texts only. The answers are about this many labels, the most probable first: `probabilities` has no
                others, and of several labels no others are predicted. None for all labels, in the model's order.
            threshold: texts only, for `multi_label`. A number from 0 to 1, a number for each label, or label -> number.
                Labels with a higher probability are predicted. None, and labels that it does not name: the model's own
                `thresholds`.
        """
        if top_k is None and threshold is None:
            return super().predict(x, batch_size, **options)
        check_answer_options(self, top_k, threshold)
        return super().predict(x, batch_size, top_k=top_k, threshold=threshold, **options)

    def tune_thresholds(
        self, x: Any, y: Any, batch_size: int | None = None, max_seq_length: int | None = None
    ) -> TunedThresholds:
        """Chooses a threshold for each label on held-out texts, keeps them in the model, and returns them with F1.

        The threshold of a label has the best F1 of the label, see `best_threshold`: of several, it is the one closest
        to 0.5. A label that no text has keeps 0.5.

        Args:
            x, y: texts and labels that the model was not trained on, as for `evaluate`.
            batch_size, max_seq_length: as for `evaluate`.

        Raises:
            InputError: the model is not for several labels, or the texts have no labels.
        """
        return tune_on_answers(outputs_with_labels(self, x, y, batch_size, max_seq_length))

    def divide_logits(self, temperature: float) -> None:
        super().divide_logits(temperature)
        if self.thresholds is not None:
            self.thresholds = divided(self.thresholds, temperature)

    def as_loss(self, loss: Any) -> LabelLoss | None:
        return label_loss(loss, self.problem_type)

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        term = self.loss_choice.term if self.loss_choice else _TERMS[self.problem_type][0]
        return [term("classification_loss", y_pred, self._label_ids(x, y), example_weights(x, sample_weight))]

    def metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        _, term = _TERMS[self.problem_type]
        return [term(self.metric_names[0], y_pred, self._label_ids(x, y), example_weights(x, sample_weight))]

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        # Metrics that were given to `compile` read the labels from `y` only.
        return super().compute_metrics(x, self._label_ids(x, y), y_pred, sample_weight)

    def _label_ids(self, x, y):
        y = labels_of(self, x, y)
        if self.problem_type == "classification":
            return ops.reshape(ops.cast(y, "int32"), (-1,))
        return ops.reshape(ops.cast(y, self._logits_dtype), (-1, len(self.labels)))

    def get_config(self) -> dict[str, Any]:
        defaults = {"problem_type": "classification", "doc_stride": None, "label_type": "str", "thresholds": None}
        arguments = {name: getattr(self, name) for name in defaults if getattr(self, name) != defaults[name]}
        if self.thresholds is not None:
            arguments["thresholds"] = list(self.thresholds)
        return {**super().get_config(), "labels": list(self.labels), **arguments}
