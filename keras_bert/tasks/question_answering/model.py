"""`SpanClassifier`: finds the start and the end of an answer in a text."""

from collections.abc import Mapping
from typing import Any, Unpack

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.models.encoder_base import FIRST_TEXT, make_encoder
from keras_bert.models.losses import LossTerm, accuracy_term, cross_entropy_term
from keras_bert.models.task_model import example_weights
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.records import features
from keras_bert.tasks.question_answering.task import QuestionAnsweringTask
from keras_bert.tasks.text_model import PredictOptions, TextModel

# The logit of padding. It makes the probability exactly 0, and unlike -inf gives no NaN in a row of only padding.
PADDING_LOGIT = -30000.0


@keras.saving.register_keras_serializable(package="keras_bert")
class SpanClassifier(TextModel):
    """The encoder with a dense layer that computes a start logit and an end logit for each token.

    It is trained on one dictionary that holds features, `start_positions` and `end_positions`, as the records of
    `features.question_answering_features` do, or on pairs of features and a dictionary of these two labels:

        model = SpanClassifier(config)
        model.compile(optimizer=AdamW(3e-5))
        model.fit(dataset, epochs=2)

    or on texts, `fit((questions, contexts), answers)`; see `tasks/question_answering/task.py` for these and for the
    answers of `predict((questions, contexts))`.

    The loss is the mean of the cross-entropies of the start and of the end, over the tokens of the row. `fit` and
    `evaluate` report `loss`, `start_accuracy` and `end_accuracy`. For a question without an answer both positions are
    0, the column of [CLS].

    Args:
        config: a `BertConfig`.
        null_threshold: the answer is "none" if the score of no answer exceeds that of the best answer by more than
            this. None for a model that always answers, as in SQuAD 1.1. `fit` on texts sets it to 0 if some questions
            have no answer.
        doc_stride: tokens between the beginnings of two windows of a context.
        max_query_length: longer questions are cut to this many tokens.
        temperature: see `TextModel`.

    The threshold and the lengths are used for texts only. They are saved, and can be changed as attributes.

    Call arguments:
        inputs: dictionary of `input_ids`, `input_mask` and `segment_ids`, int `[B, S]` (see `BertEncoder`). The labels
            `start_positions` and `end_positions`, int `[B]` or `[B, 1]`, are for training and evaluation: columns of
            the row, from 0 to S - 1. A position outside of the row makes the loss NaN. Other keys are ignored.
        training: whether to apply dropout in the encoder. There is no dropout on its outputs.

    Returns:
        dictionary of `start_logits` and `end_logits`, float32 `[B, S]`. The logits of padding are -30000;
        google-research/bert treats padding like other tokens.

    Reference: Devlin et al., 2018, sections 4.2 and 4.3; google-research/bert `run_squad.py`.
    """

    has_token_outputs = True
    kind = "SpanClassifier"
    task_class = QuestionAnsweringTask
    loss_names = ("span_loss",)
    logits_layer = "span_classifier"
    metric_names = ("start_accuracy", "end_accuracy")
    metrics_refusal = (
        "SpanClassifier reports loss, start_accuracy, end_accuracy; Keras' metrics cannot see labels that are among "
        "the features."
    )

    def __init__(
        self,
        config: BertConfig,
        null_threshold: float | None = None,
        doc_stride: int = 128,
        max_query_length: int = 64,
        temperature: float = 1.0,
        **kwargs: Any,
    ):
        super().__init__(config, **kwargs)
        self.temperature = float(temperature)
        self.doc_stride = check_whole("doc_stride", doc_stride, at_least=1)
        self.max_query_length = check_whole("max_query_length", max_query_length, at_least=1)
        self.null_threshold = None if null_threshold is None else float(null_threshold)
        self.encoder = make_encoder(config, dtype=self.dtype_policy, name="encoder")
        self.uses_pooler = self.encoder.has_token_head
        self.encoder.pooler.trainable = self.uses_pooler  # otherwise no gradient reaches it
        self.encoder.global_tokens = FIRST_TEXT  # the question
        self.span_classifier = self.logits_dense(2, "span_classifier")
        self.build()

    def build(self, input_shape: Any = None) -> None:
        self.span_classifier.build((None, None, self.config.hidden_size))

    def call(self, inputs: Any, training: bool = False) -> Any:
        tokens = self.encoder(inputs, training=training)["sequence_output"]
        logits = self.span_classifier(self.encoder.token_features(tokens, training=training))
        is_token = ops.expand_dims(ops.not_equal(ops.cast(inputs[features.INPUT_MASK], "int32"), 0), 2)
        logits = ops.where(is_token, logits, ops.cast(PADDING_LOGIT, logits.dtype))
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        *,
        n_best_size: int = 20,
        max_answer_length: int = 30,
        null_threshold: float | None = None,
        **options: Unpack[PredictOptions],
    ) -> Any:
        """Returns logits for features, or a `FoundAnswer` for each question of `(questions, contexts)`.

        Arguments that are not listed are those of `TextModel.predict`.

        Args:
            n_best_size: texts only. The number of candidates for each question.
            max_answer_length: texts only. The largest number of tokens in an answer.
            null_threshold: texts only. There is no answer if the score of the empty answer exceeds that of the best
                other one by more than this number. None for the model's own.
        """
        return super().predict(
            x,
            batch_size,
            n_best_size=n_best_size,
            max_answer_length=max_answer_length,
            null_threshold=null_threshold,
            **options,
        )

    def divide_logits(self, temperature: float) -> None:
        super().divide_logits(temperature)
        if self.null_threshold is not None:  # it is compared with differences of logits
            self.null_threshold /= temperature

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        # Starts and ends have the same weights, so one mean over both equals the mean of the two means.
        logits = ops.stack([y_pred["start_logits"], y_pred["end_logits"]], axis=1)
        positions, weights = self._positions(x, y, sample_weight)
        return [cross_entropy_term("span_loss", logits, positions, weights)]

    def metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        positions, weights = self._positions(x, y, sample_weight)
        return [
            accuracy_term("start_accuracy", y_pred["start_logits"], positions[:, 0], weights[:, 0]),
            accuracy_term("end_accuracy", y_pred["end_logits"], positions[:, 1], weights[:, 1]),
        ]

    def get_config(self) -> dict[str, Any]:
        defaults = {"null_threshold": None, "doc_stride": 128, "max_query_length": 64}
        arguments = {name: getattr(self, name) for name in defaults}
        return {
            **super().get_config(),
            **{name: value for name, value in arguments.items() if value != defaults[name]},
        }

    def _positions(self, x, y, sample_weight):
        """Returns the columns of start and end, and their weights, both `[B, 2]`."""
        labels = x if y is None else y
        names = (features.START_POSITIONS, features.END_POSITIONS)
        given = list(labels) if isinstance(labels, Mapping) else []
        if any(name not in given for name in names):
            raise InputError(
                f"SpanClassifier is trained on features that hold {' and '.join(names)}, or on pairs of features "
                f"and a dictionary of these. Received: {', '.join(given) or 'neither'}"
            )
        positions = ops.stack([ops.reshape(ops.cast(labels[name], "int32"), (-1,)) for name in names], axis=1)
        last = ops.shape(x[features.INPUT_IDS])[1] - 1
        # Backends treat an index out of range differently, and some do not report it.
        is_inside = ops.logical_and(positions >= 0, positions <= last)
        weights = ops.where(is_inside, 1.0, float("nan"))
        if isinstance(sample_weight, Mapping):  # Keras repeats it for every label
            sample_weight = sample_weight[features.START_POSITIONS]
        row_weights = example_weights(x, sample_weight)
        if row_weights is not None:
            weights = weights * ops.expand_dims(ops.cast(row_weights, "float32"), 1)
        return ops.clip(positions, 0, last), weights
