"""`CrossEncoder`: a score for a query and a text that are read together, for ranking."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.models.losses import LossTerm
from keras_bert.models.task_model import example_weights
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_choice, check_whole
from keras_bert.records import features
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.embedding.examples import PAIRS, SCORES
from keras_bert.tasks.prompts import Prompts
from keras_bert.tasks.ranking.answers import SCORE_ACTIVATIONS
from keras_bert.tasks.ranking.losses import DEFAULT_LOSSES, MixedRankingLoss, RankingLoss, as_ranking_loss
from keras_bert.tasks.ranking.task import LoadedCrossEncoder, RankingTask


@keras.saving.register_keras_serializable(package="keras_bert")
class CrossEncoder(SequenceClassifier):
    """A `SequenceClassifier` with one output that scores how well a text answers a query.

        model = CrossEncoder.from_pretrained("ms-marco-MiniLM-L6-v2")
        best = model.rank("how do cats purr?", texts, top_k=3)
        best[0].text

    It is slower than a `SentenceEncoder`, because each pair is a row of its own, and more accurate. It is trained on

        model.fit((queries, texts), relevances)           # 0 or 1, or in between: binary cross-entropy
        model.fit((queries, positives, negatives, ...))   # softmax over the texts of a query; the first is relevant
        model.fit((queries, texts, ...), scores, loss="lambda_loss")  # a score for each text of a query

    `loss` is a `RankingLoss`, or its name in `RANKING_LOSSES`; losses such as `RankingMarginMSE` have a teacher.
    Texts may also be `SentenceExamples`, or several data sets, `DataSets`, each with its loss.

    Args:
        config: a `BertConfig`.
        labels: the name of the score.
        problem_type: must be `regression`; the argument exists because `SequenceClassifier` has it.
        activation: what makes the scores of `predict`, `rank` and exports from the outputs: sigmoid, linear, tanh or
            relu. None: sigmoid. `from_pretrained` takes it from the files of sentence-transformers, as prompts and the
            maximum length.
        prompts: name -> text that is put before each query.
        default_prompt: the name of the prompt that is used when none is named; None for no prompt.
        max_seq_length: longer pairs are cut to this many tokens; None for the number of the model's positions.

    Call arguments:
        inputs: dictionary of `input_ids`, `input_mask` and `segment_ids`, int `[B, S]` for pairs, or `[B, C, S]` for C
            texts per query.
        training: whether to apply dropout.

    Returns:
        float32 outputs before the activation, `[B, 1]` or `[B, C]`.

    Raises:
        InputError: there is more than one label, another problem type, or the activation is unknown.

    Reference: Nogueira and Cho, 2019, arXiv 1901.04085; sentence-transformers `CrossEncoder`.
    """

    kind = "CrossEncoder"
    task_class = RankingTask
    loss_names = ("ranking_loss",)
    as_loss, default_losses = staticmethod(as_ranking_loss), DEFAULT_LOSSES
    mixed_loss = MixedRankingLoss.of
    # Loaded exports have these methods too.
    prompt, prompt_for, check_prompts = Prompts.prompt, Prompts.prompt_for, Prompts.check_prompts
    rank = LoadedCrossEncoder.rank

    def __init__(
        self,
        config: BertConfig,
        labels: Sequence[str] = ("score",),
        problem_type: str = "regression",
        activation: str | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt: str | None = None,
        max_seq_length: int | None = None,
        **kwargs: Any,
    ):
        if len(labels) != 1 or problem_type != "regression":
            raise InputError(
                f"A CrossEncoder has one output, of the problem type regression. Received: {len(labels)} labels, "
                f"{problem_type}. Load a classifier as SequenceClassifier."
            )
        super().__init__(config, labels, problem_type, **kwargs)
        self.activation = "sigmoid" if activation is None else activation
        check_choice("activation", self.activation, SCORE_ACTIVATIONS)
        self.prompts, self.default_prompt = dict(prompts or {}), default_prompt
        self.check_prompts()
        self.max_seq_length = check_whole("max_seq_length", max_seq_length, at_least=3, or_none=True)

    @staticmethod
    def _metric_name(problem_type: str) -> str:
        return "accuracy"

    def call(self, inputs: Any, training: bool = False) -> Any:
        shape = ops.shape(inputs[features.INPUT_IDS])
        if len(shape) == 2:
            return super().call(inputs, training=training)
        rows = {name: ops.reshape(inputs[name], (-1, shape[-1])) for name in self.feature_names}
        return ops.reshape(super().call(rows, training=training), (-1, shape[1]))

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        loss, labels = self._loss_and_labels(x, y, y_pred)
        return [loss(y_pred, labels, example_weights(x, sample_weight))]

    def metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        loss, labels = self._loss_and_labels(x, y, y_pred)
        return [loss.accuracy(y_pred, labels, example_weights(x, sample_weight))]

    def _loss_and_labels(self, x, y, scores) -> tuple[RankingLoss, Any]:
        """Returns the loss for features, and the labels `[B, T]` of the texts."""
        is_lists = _is_lists(x)
        loss = self.loss_choice or self._loss_of_examples
        if loss is not None and (loss.fewest_texts > 2) != is_lists:
            if self.loss_choice is not None:
                shape = "[batch, texts, length]" if loss.fewest_texts > 2 else "[batch, length]"
                raise InputError(f"{type(loss).__name__} is for features {shape}. Received other ones.")
            loss = None
        loss = loss or DEFAULT_LOSSES[PAIRS if is_lists else SCORES]
        if not is_lists:
            return loss, self._label_ids(x, y)
        labels = x.get(features.LABEL_IDS, y)  # `compute_metrics` gives another y to the metrics of Keras
        if labels is None or len(labels.shape) != 2 or (labels is y and y.shape[-1] != scores.shape[-1]):
            labels = ops.one_hot(_first(scores), scores.shape[-1])
        return loss, labels

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        labels = _first(y_pred) if _is_lists(x) else y
        return super().compute_metrics(x, labels, y_pred, sample_weight)

    def get_config(self) -> dict[str, Any]:
        names = ("activation", "prompts", "default_prompt", "max_seq_length")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    def _check_inputs(self, inputs) -> None:
        self._check_features(inputs, self.feature_names)
        shape: tuple = getattr(inputs[features.INPUT_IDS], "shape", ())
        if len(shape) not in (2, 3):
            raise InputError(
                f"{features.INPUT_IDS} must be an array [batch, length] or [batch, texts, length]. Received the shape "
                f"{tuple(shape)}"
            )
        if shape[-1] is not None:
            self.config.check_sequence_length(shape[-1])


def _is_lists(x) -> bool:
    return isinstance(x, Mapping) and len(x[features.INPUT_IDS].shape) == 3


def _first(scores):
    """Returns the number of the relevant text of each query, which is the first: int `[B]`."""
    return ops.zeros_like(scores[:, 0], dtype="int32")
