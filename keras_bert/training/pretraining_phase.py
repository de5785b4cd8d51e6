"""A phase of pre-training: its records, which have one length, and its training options."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import documented, option


@documented
@dataclasses.dataclass(frozen=True)
class PretrainingPhase:
    """A phase of pre-training. The paper has two: short sequences first, then long ones (section A.2).

    In the second phase, None stands for the value of the first, see `like`.

    Raises:
        InputError: a number is out of range.
    """

    train_files: str | Sequence[str] = option(
        dataclasses.MISSING, "TFRecord files to train on: names and globs, separated by commas.", flag="input_file"
    )
    num_train_steps: int = option(dataclasses.MISSING, "The number of updates.")
    num_warmup_steps: int | None = option(None, "The number of updates in which the learning rate rises.")
    train_batch_size: int | None = option(None, "Sequences per update.")
    learning_rate: float | None = option(None, "The highest learning rate.")
    max_seq_length: int | None = option(None, "The sequence length of the records. By default it is read from them.")
    max_predictions_per_seq: int | None = option(
        None, "The number of masked positions in the records, by default read from them; without masks, enough for all."
    )

    def __post_init__(self):
        if self.train_batch_size is not None and self.train_batch_size < 1:
            raise InputError(f"train_batch_size must be at least 1. Received: {self.train_batch_size}")
        if self.num_train_steps < 1:
            raise InputError(f"num_train_steps must be at least 1. Received: {self.num_train_steps}")

    def like(self, first: "PretrainingPhase") -> "PretrainingPhase":
        """Returns this phase with the first one's batch size, learning rate and share of warm-up in place of None."""
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
        """Returns the settings that must not change when a run is resumed.

        Args:
            max_predictions_per_seq: the number of masks in the rows of the records.
        """
        return {
            "train_files": self.train_files if isinstance(self.train_files, str) else list(self.train_files),
            "train_batch_size": self.train_batch_size,
            "learning_rate": self.learning_rate,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
            "max_predictions_per_seq": max_predictions_per_seq,
        }
