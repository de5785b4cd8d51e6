"""The options of a pre-training run."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert.training.optimizer_choice import OptimizerChoice
from keras_bert.training.pretraining_evaluation import PretrainingEvaluation
from keras_bert.training.pretraining_phase import PretrainingPhase
from keras_bert.training.run_folder import KEEP_CHECKPOINT_MAX
from keras_bert.training.seeds import check_seed
from keras_bert.training.strategies import check_batch_size


@dataclasses.dataclass(frozen=True)
class PretrainingRunOptions:
    """How `train_pretrainer` trains.

    Attributes:
        max_seq_length, max_predictions_per_seq, masking: as `pretraining_dataset` takes them.
        train_batch_size: sequences per update.
        learning_rate: the highest one.
        adam_beta_2: how long Adam remembers the squares of the gradients; 0.98 is common where training is short.
        num_train_steps: the updates of the first phase.
        num_warmup_steps: the updates of the first phase in which the learning rate rises.
        save_checkpoints_steps: updates between two checkpoints.
        keep_checkpoint_max: how many checkpoints are kept, the newest; 0: all.
        steps_per_execution: updates between two returns to Python.
        gradient_accumulation_steps: the parts in which every batch is worked through.
        gradient_checkpointing: whether layers are computed again in the backward pass, which takes less memory.
        seed: the seed of new weights, dropout, masks and the order of the records.
        tensorboard: whether to write the training metrics for TensorBoard too.
        optimizer: the optimiser, its learning rates, and whether weights are averaged.
        second_phase: records of another length to go on with, with the same weights and moments, as in the paper:
            nine tenths of the updates with short sequences, one tenth with long ones.
        stuck_input_seconds: after a wait of so many seconds for a batch, standard error says what is waited for.
        keep_best: records to evaluate on while training: the model with the lowest loss is kept, not the last.
        eval_steps: updates between two of these evaluations; 0: between two checkpoints.

    Raises:
        InputError: a number makes no sense.
    """

    max_seq_length: int | None = None
    max_predictions_per_seq: int | None = None
    masking: Mapping[str, object] | None = None
    train_batch_size: int = 32
    learning_rate: float = 5e-5
    adam_beta_2: float = 0.999
    num_train_steps: int = 100_000
    num_warmup_steps: int = 10_000
    save_checkpoints_steps: int = 1000
    keep_checkpoint_max: int = KEEP_CHECKPOINT_MAX
    steps_per_execution: int = 1
    gradient_accumulation_steps: int = 1
    gradient_checkpointing: bool = False
    seed: int = 12345
    tensorboard: bool = False
    optimizer: OptimizerChoice = OptimizerChoice()
    second_phase: PretrainingPhase | None = None
    stuck_input_seconds: float = 300.0
    keep_best: PretrainingEvaluation | None = None
    eval_steps: int = 0

    def __post_init__(self):
        check_seed(self.seed)

    @property
    def steps_between_evaluations(self) -> int:
        return self.eval_steps or self.save_checkpoints_steps

    def phases(self, train_files: str | Sequence[str]) -> list[PretrainingPhase]:
        """Returns the one or two phases of a run.

        Args:
            train_files: the records of the first phase.

        Raises:
            InputError: a number makes no sense, or a batch size does not fit the devices.
        """
        first = PretrainingPhase(
            train_files,
            self.num_train_steps,
            self.num_warmup_steps,
            self.train_batch_size,
            self.learning_rate,
            self.max_seq_length,
            self.max_predictions_per_seq,
        )
        phases = [first, self.second_phase.like(first)] if self.second_phase else [first]
        for phase in phases:
            check_batch_size(phase.train_batch_size, self.gradient_accumulation_steps)
        return phases

    def settings(self) -> dict[str, Any]:
        """Returns what must stay the same for a run to be the same run, beside its phases."""
        settings = {
            "adam_beta_2": self.adam_beta_2,
            "random_seed": self.seed,
            "masking": dict(self.masking) if self.masking else None,
            **self.optimizer.settings(),
        }
        if self.keep_best:
            settings |= {"keep_best": self.keep_best.settings(), "eval_steps": self.steps_between_evaluations}
        return settings
