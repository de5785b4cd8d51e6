"""A phase of pre-training: its records, which have one length, and its training options; and its stages."""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, documented, option


@documented
@dataclasses.dataclass(frozen=True)
class PretrainingPhase(Options):
    """A phase of pre-training. The paper has two: short sequences first, then long ones (section A.2).

    In the second phase, None stands for the value of the first, see `like`. If the batch grows, the phase still sees
    `num_train_steps * train_batch_size` sequences, in more updates.

    Attributes:
        batch_growth: the batch sizes before `train_batch_size`, each larger than the one before.
        batch_growth_steps: the number of updates with each of them.

    Raises:
        InputError: a number is out of range.
    """

    train_files: str | Sequence[str] = option(
        dataclasses.MISSING, "TFRecord files to train on: names and globs, separated by commas.", flag="input_file"
    )
    num_train_steps: int = option(dataclasses.MISSING, "The number of updates.", at_least=1)
    num_warmup_steps: int | None = option(None, "The number of updates in which the learning rate rises.", at_least=0)
    train_batch_size: int | None = option(None, "Sequences per update.", at_least=1)
    learning_rate: float | None = option(None, "The highest learning rate.", at_least=0)
    max_seq_length: int | None = option(
        None, "The sequence length of the records. By default it is read from them.", at_least=1
    )
    max_predictions_per_seq: int | None = option(
        None,
        "The number of masked positions in the records, by default read from them; without masks, enough for all.",
        at_least=0,
    )
    batch_growth: tuple[int, ...] = option((), at_least=1)
    batch_growth_steps: int = option(0, at_least=0)

    def __post_init__(self):
        super().__post_init__()
        if bool(self.batch_growth) != (self.batch_growth_steps > 0):
            raise InputError(
                "batch_growth, the batch sizes before the last, and batch_growth_steps, at least 1 update with each, "
                f"need each other. Received: {list(self.batch_growth)} and {self.batch_growth_steps}"
            )
        if not self.batch_growth:
            return
        sizes = [0, *self.batch_growth, self.train_batch_size]
        if any(size >= larger for size, larger in itertools.pairwise(sizes)):
            raise InputError(
                f"batch_growth must be growing batch sizes below train_batch_size={self.train_batch_size}. Received: "
                f"{', '.join(map(str, self.batch_growth))}"
            )
        in_growth, in_all = sum(self.batch_growth) * self.batch_growth_steps, self.num_train_steps * sizes[-1]
        if in_growth >= in_all:
            raise InputError(
                f"The batch grows for {in_growth} sequences, but the run has num_train_steps * train_batch_size = "
                f"{in_all}. Use fewer batch_growth_steps."
            )

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """All batch sizes in their order."""
        return *self.batch_growth, self.train_batch_size

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
        """Returns the settings that must not change when a run is resumed; the number of masks is that of a record."""
        names = ("train_files", "train_batch_size", "learning_rate", "num_train_steps", "num_warmup_steps")
        return {
            **{name: getattr(self, name) for name in (*names, "batch_growth", "batch_growth_steps")},
            "num_updates": stages_of([self])[-1].end,
            "max_predictions_per_seq": max_predictions_per_seq,
        }


@dataclasses.dataclass(frozen=True)
class Stage:
    """Successive updates of a run with one batch size on the records of one phase."""

    phase: int  # the index of the phase
    train_files: str | Sequence[str]
    batch_size: int  # sequences per update
    start: int  # the number of updates of the run before the stage
    end: int  # the same at its end
    first_batch: int  # the index of its first batch, if all records of the phase came in batches of this size


def stages_of(phases: Sequence[PretrainingPhase]) -> list[Stage]:
    """Returns the stages of a run in their order.

    Where the batch grows, the records go on, except that less than a batch may be skipped.
    """
    stages, end = [], 0
    for number, phase in enumerate(phases):
        num_sequences = 0
        for size in phase.batch_sizes:
            left = phase.num_train_steps * phase.train_batch_size - num_sequences
            num_steps = phase.batch_growth_steps if size in phase.batch_growth else math.ceil(left / size)
            stages.append(Stage(number, phase.train_files, size, end, end + num_steps, math.ceil(num_sequences / size)))
            end, num_sequences = end + num_steps, num_sequences + num_steps * size
    return stages
