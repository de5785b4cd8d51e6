"""The base class of models whose loss needs the vectors of all texts of a batch, such as `SentenceEncoder`."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras import ops

from keras_bert.accelerate.backend import on_tensorflow, tensorflow_functions
from keras_bert.models.chosen_loss import ChosenLoss
from keras_bert.models.losses import LossTerm
from keras_bert.models.prompts import Prompts
from keras_bert.models.task_model import TaskModel, example_weights
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.records import features


class WholeBatchModel(Prompts, ChosenLoss, TaskModel):
    """A model that computes a vector for each text of an example, and one loss from all vectors of a batch.

    Features are `[..., S]`. Beside them the dictionary may hold `label_ids`, `[B, ...]`; and `text_numbers`, int
    `[B, C]`, which are equal for equal texts.

    Attributes:
        max_seq_length: longer texts are cut to this many tokens; None for the number of the model's positions.
    """

    uses_pooler = False
    loss_names = ("embedding_loss",)
    max_seq_length: int | None

    @property
    def vector_size(self) -> int:
        """The length D of the vectors."""
        raise NotImplementedError

    def output_axes(self, axes: Sequence[int | None]) -> list[int | None]:
        """Returns the axes of the outputs for features with these axes; both without the axis of the batch."""
        return [*axes[:-1], self.vector_size]

    def loss_term(self, vectors: Any, labels: Any, text_numbers: Any, weights: Any) -> LossTerm:
        """Returns the loss of a whole batch.

        Args:
            vectors: float `[B, C, D]`, or `[B, D]` for single texts.
            labels: `[B, ...]`, or None.
            text_numbers: int `[B, C]`, or None: all texts differ.
            weights: float `[B]`, the weights of the examples; None for 1.
        """
        raise NotImplementedError

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
        *,
        max_seq_length: int | None = None,
        seed: int = 12345,
        skip_missing: bool = False,
        loss: Any = None,
        **unknown: Any,
    ) -> Any:
        """Trains on texts or on features. Arguments that are not listed are those of `TaskModel.fit`.

        Features are those of the class; `label_ids` are the labels that the loss takes.

        Args:
            x, y: texts and what belongs to them, see the description of the class; or features; or `SentenceExamples`;
                or several data sets, `DataSets`, each with its loss.
            loss: a loss of the task, or its name. None keeps the loss that was chosen before; without one, the examples
                select it.

        Raises:
            InputError: as `TaskModel.fit`, or the loss is unknown.
        """
        given = dict(locals())
        before = self.loss_choice
        self.choose_loss(given.pop("loss"))
        try:
            return self._fit(given)
        except InputError:  # what is refused changes nothing
            self.loss_choice = before
            raise

    def _set_gradient_accumulation(self, steps: int, has_metrics: bool) -> None:
        super()._set_gradient_accumulation(steps, has_metrics)
        if steps > 1 and not on_tensorflow():
            raise InputError(
                f"{type(self).__name__} compares the texts of a whole batch, so gradient_accumulation_steps needs "
                f"TensorFlow as the backend of Keras. Received: {steps}. Leave it out, or use KERAS_BACKEND=tensorflow."
            )

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        labels = x.get(features.LABEL_IDS) if y is None and isinstance(x, Mapping) else y
        numbers = x.get(features.TEXT_NUMBERS) if isinstance(x, Mapping) else None
        return [self.loss_term(y_pred, labels, numbers, example_weights(x, sample_weight))]

    def metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        return []

    def get_metrics_result(self) -> dict[str, Any]:
        results = super().get_metrics_result()
        del results["embedding_loss"]  # the same as "loss"
        return results

    def _divided_step(self, data) -> None:
        # Each example's loss depends on the texts of the whole batch, on all devices.
        from keras_bert.tasks.embedding.cached_batch import cached_step

        cached_step(self, data)

    def test_step(self, data: Any) -> Any:
        if not on_tensorflow() or self.distribute_strategy.num_replicas_in_sync == 1:
            return super().test_step(data)
        from keras_bert.tasks.embedding.cached_batch import evaluation_step

        return evaluation_step(self, data)

    def _check_inputs(self, inputs) -> None:
        self._check_features(inputs, self.feature_names)
        shape: tuple = getattr(inputs[features.INPUT_IDS], "shape", ())
        if len(shape) < 2:
            raise InputError(f"{features.INPUT_IDS} must be an array [..., length]. Received the shape {tuple(shape)}")
        if shape[-1] is not None:
            self.config.check_sequence_length(shape[-1])

    def _check_arguments(self) -> None:
        self.check_prompts()
        self.max_seq_length = check_whole("max_seq_length", self.max_seq_length, at_least=3, or_none=True)


def first_and_others(rows: Mapping[str, Any], is_used: Any, longest: int) -> tuple[dict, dict]:
    """Returns the features of the first texts, which are mostly shorter, and those of the others.

    Args:
        rows: features, each `[B, C, S]`.
        is_used: int `[B, S]`, above 0 for columns of the first texts that are no padding.
        longest: the number of columns of first texts where shapes must be known, as under XLA.

    Returns:
        features `[B, W]`, W being the width of the longest first text, and `[B, C - 1, S]`.
    """
    width = longest
    if tensorflow_functions and tensorflow_functions.lengths_may_vary():
        columns = ops.arange(ops.shape(is_used)[1], dtype="int32")
        width = ops.max(ops.where(is_used > 0, columns, 0), initial=0) + 1  # a part of a batch may be empty
    first = {name: values[:, 0, :width] for name, values in rows.items()}
    return first, {name: values[:, 1:] for name, values in rows.items()}
