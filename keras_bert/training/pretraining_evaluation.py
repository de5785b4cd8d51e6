"""Evaluates a pre-trainer on records, during training and afterwards."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.accelerate.backend import numpy_of
from keras_bert.models.task_model import TaskModel
from keras_bert.program.options import Options, option
from keras_bert.records.datasets import naming_damaged_records, pretraining_dataset
from keras_bert.tokenization.tokenizer import TokenTable
from keras_bert.training.strategies import call_in_chief


@dataclasses.dataclass(frozen=True)
class PretrainingEvaluation(Options):
    """The records on which a pre-trainer is evaluated.

    Records without masks get the same masks every time, provided that `eval_batch_size` is the same.

    Attributes:
        eval_files: TFRecord files, wildcard patterns or folders, see `pretraining_dataset`.
        eval_batch_size: rows in a batch.
        max_eval_steps: the largest number of batches.
        max_seq_length, max_predictions_per_seq, masking: see `pretraining_dataset`.
        vocabulary: for records without masks, if the model has no vocabulary.
    """

    eval_files: str | Sequence[str]
    eval_batch_size: int = option(8, at_least=1)
    max_eval_steps: int = option(100, at_least=1)
    max_seq_length: int | None = None
    max_predictions_per_seq: int | None = None
    masking: Mapping[str, object] | None = None
    vocabulary: TokenTable | None = None

    def settings(self) -> dict[str, Any]:
        """Returns the settings that must not change when a run with evaluations is resumed."""
        settings = {name: getattr(self, name) for name in ("eval_files", "eval_batch_size", "max_eval_steps")}
        return settings | {"eval_masking": dict(self.masking) if self.masking else None}

    def dataset(self, model: TaskModel) -> tf.data.Dataset:
        """Returns the batches as a dataset of known length.

        Raises:
            InputError: the records are damaged, or do not fit the model.
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
            default_masking=model.masking,
        ).take(self.max_eval_steps)
        with naming_damaged_records(self.eval_files, model.config):
            # The batches are counted, because Keras warns at the end of a dataset of unknown length.
            num_steps = dataset.reduce(np.int64(0), lambda count, _: count + 1)
        return dataset.apply(tf.data.experimental.assert_cardinality(num_steps))

    def results(self, model: TaskModel, dataset: tf.data.Dataset) -> dict[str, float]:
        """Returns loss and metrics of a compiled model on the result of `dataset`, equal in all processes.

        The model's metrics keep their values, with which training continues.
        """
        values_before = [numpy_of(variable) for variable in model.metrics_variables]
        with naming_damaged_records(self.eval_files, model.config):
            results = model.evaluate(dataset, return_dict=True, verbose=0)
        for variable, value in zip(model.metrics_variables, values_before, strict=True):
            variable.assign(value)
        return call_in_chief(lambda: {name: float(value) for name, value in results.items()})
