"""A part of pre-training: records of one length, and how they are trained on."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from keras_bert.program.errors import InputError


@dataclasses.dataclass(frozen=True)
class PretrainingPhase:
    """A phase of pre-training: first the short sequences, then the long ones, as in the paper (section A.2).

    Of the second phase, what is `None` is as in the first one; see `like`.

    Attributes:
        train_files: TFRecord files, globs or folders.
        num_train_steps: the updates of this phase.
        num_warmup_steps: those of them in which the learning rate rises.
        train_batch_size: sequences per update.
        learning_rate: the highest one.
        max_seq_length, max_predictions_per_seq: as `pretraining_dataset` takes them; `None`: what the records have.

    Raises:
        InputError: a number makes no sense.
    """

    train_files: str | Sequence[str]
    num_train_steps: int
    num_warmup_steps: int | None = None
    train_batch_size: int | None = None
    learning_rate: float | None = None
    max_seq_length: int | None = None
    max_predictions_per_seq: int | None = None

    def __post_init__(self):
        if self.train_batch_size is not None and self.train_batch_size < 1:
            raise InputError(f"train_batch_size must be at least 1. Received: {self.train_batch_size}")
        if self.num_train_steps < 1:
            raise InputError(f"num_train_steps must be at least 1. Received: {self.num_train_steps}")

    def like(self, first: "PretrainingPhase") -> "PretrainingPhase":
        """Returns this phase with the batch size, the rate and the share of warm-up of the first, where it has none."""
        num_warmup_steps = self.num_warmup_steps
        if num_warmup_steps is None:
            num_warmup_steps = self.num_train_steps * first.num_warmup_steps // first.num_train_steps
        return dataclasses.replace(
            self,
            num_warmup_steps=num_warmup_steps,
            train_batch_size=first.train_batch_size if self.train_batch_size is None else self.train_batch_size,
            learning_rate=first.learning_rate if self.learning_rate is None else self.learning_rate,
        )

    def settings(self, max_predictions_per_seq: int) -> dict[str, Any]:
        """Returns what must stay the same for a run to be the same run.

        Args:
            max_predictions_per_seq: that of the records.
        """
        return {
            "train_files": self.train_files if isinstance(self.train_files, str) else list(self.train_files),
            "train_batch_size": self.train_batch_size,
            "learning_rate": self.learning_rate,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
            "max_predictions_per_seq": max_predictions_per_seq,
        }
