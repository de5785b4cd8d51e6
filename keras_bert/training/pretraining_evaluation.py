"""Records that a pre-trainer is evaluated on, while it trains and afterwards."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.program.errors import InputError
from keras_bert.records.datasets import naming_damaged_records, pretraining_dataset
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.training.strategies import of_chief

METRICS = (
    "loss",
    "masked_lm_accuracy",
    "masked_lm_loss",
    "next_sentence_accuracy",
    "next_sentence_loss",
)


@dataclasses.dataclass(frozen=True)
class PretrainingEvaluation:
    """Records, and how many of them a pre-trainer is evaluated on.

    Records without masks get the same ones every time, as long as `eval_batch_size` stays the same.

    Attributes:
        eval_files: TFRecord files, globs or folders, as `pretraining_dataset` takes them.
        eval_batch_size: rows at once.
        max_eval_steps: evaluates at most this many batches.
        max_seq_length, max_predictions_per_seq, masking: as `pretraining_dataset` takes them.
        vocabulary: for records without masks, when the model has none of its own.

    Raises:
        InputError: a number makes no sense.
    """

    eval_files: str | Sequence[str]
    eval_batch_size: int = 8
    max_eval_steps: int = 100
    max_seq_length: int | None = None
    max_predictions_per_seq: int | None = None
    masking: Mapping[str, object] | None = None
    vocabulary: Vocabulary | None = None

    def __post_init__(self):
        if self.max_eval_steps < 1:
            raise InputError(f"max_eval_steps must be at least 1. Received: {self.max_eval_steps}")

    def settings(self) -> dict[str, Any]:
        """Returns what must stay the same for the evaluations of a run to be the same ones."""
        return {
            "eval_files": self.eval_files if isinstance(self.eval_files, str) else list(self.eval_files),
            "eval_batch_size": self.eval_batch_size,
            "max_eval_steps": self.max_eval_steps,
            "eval_masking": dict(self.masking) if self.masking else None,
        }

    def dataset(self, model: BertPretrainer) -> tf.data.Dataset:
        """Returns the batches, of a known number.

        Raises:
            InputError: the records are damaged, or do not go with the model.
        """
        dataset = pretraining_dataset(
            self.eval_files,
            self.eval_batch_size,
            max_seq_length=self.max_seq_length,
            max_predictions_per_seq=self.max_predictions_per_seq,
            shuffle=False,
            repeat=False,
            config=model.config,
            vocabulary=model.vocabulary or self.vocabulary,
            masking=self.masking,
        ).take(self.max_eval_steps)
        with naming_damaged_records(self.eval_files, model.config):
            # Counted first: Keras warns at the end of a dataset of unknown length.
            num_steps = dataset.reduce(np.int64(0), lambda count, _: count + 1)
        return dataset.apply(tf.data.experimental.assert_cardinality(num_steps))

    def results(self, model: BertPretrainer, dataset: tf.data.Dataset) -> dict[str, float]:
        """Returns `METRICS` of a compiled model as it is, the same in all processes that train together.

        What the model's metrics hold is kept: a training run goes on with it.

        Args:
            dataset: what `dataset` returned.
        """
        counted = [variable.value.numpy() for variable in model.metrics_variables]
        with naming_damaged_records(self.eval_files, model.config):
            found = model.evaluate(dataset, return_dict=True, verbose=0)
        for variable, value in zip(model.metrics_variables, counted, strict=True):
            variable.assign(value)
        return of_chief(lambda: {name: float(found[name]) for name in METRICS})
