"""The base class of models whose loss needs the vectors of all texts of a batch, such as `SentenceEncoder`."""

from collections.abc import Mapping
from typing import Any

from keras_bert.accelerate.backend import on_tensorflow
from keras_bert.models.chosen_loss import ChosenLoss
from keras_bert.models.losses import LossTerm
from keras_bert.models.prompts import Prompts
from keras_bert.models.task_model import TaskModel, example_weights
from keras_bert.program.errors import InputError
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

    def loss_term(self, vectors: Any, labels: Any, text_numbers: Any, weights: Any) -> LossTerm:
        """Returns the loss of a whole batch.

        Args:
            vectors: float `[B, C, D]`, or `[B, D]` for single texts.
            labels: `[B, ...]`, or None.
            text_numbers: int `[B, C]`, or None: all texts differ.
            weights: float `[B]`, the weights of the examples; None for 1.
        """
        raise NotImplementedError

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
        longest = self.max_seq_length
        if longest is not None and (not isinstance(longest, int) or longest < 3):
            raise InputError(f"max_seq_length must be a whole number from 3. Received: {longest!r}")
