"""The options of a pre-training run."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.training.distillation import Distillation
from keras_bert.training.objectives import DEFAULT_OBJECTIVE
from keras_bert.training.optimizer_choice import OptimizerChoice
from keras_bert.training.pretraining_evaluation import PretrainingEvaluation
from keras_bert.training.pretraining_phase import PretrainingPhase
from keras_bert.training.run_folder import KEEP_CHECKPOINT_MAX
from keras_bert.training.seeds import check_seed
from keras_bert.training.strategies import check_batch_size
from keras_bert.training.trackers import check_trackers


@dataclasses.dataclass(frozen=True)
class PretrainingRunOptions:
    """The options of `train_pretrainer`.

    Attributes:
        max_seq_length, max_predictions_per_seq, masking: see `pretraining_dataset`.
        train_batch_size: sequences per update.
        learning_rate: the highest learning rate.
        adam_beta_2: decay rate of the average of squared gradients; 0.98 is common for short training.
        num_train_steps: number of updates in the first phase.
        num_warmup_steps: number of updates of the first phase in which the learning rate rises.
        save_checkpoints_steps: number of updates between two checkpoints.
        keep_checkpoint_max: the number of newest checkpoints to keep; 0 for all.
        steps_per_execution: number of updates between two returns to Python.
        gradient_accumulation_steps: the number of parts in which each batch is computed.
        gradient_checkpointing: whether layers are computed again in the backward pass, to save memory.
        mem_len: above 0, for XLNet: the tokens of the rows before that a row attends to, see `BertPretrainer.compile`.
        objective: one of `objectives.OBJECTIVES`.
        model_arguments: constructor arguments of its pre-trainer besides the config.
        seed: seed of new weights, dropout, masks and the order of the records.
        track: names of `trackers.TRACKERS` that get the training metrics too.
        optimizer: the optimiser, its learning rates, and the averaging of weights.
        second_phase: a second phase with records of another length. Weights and moments are kept. In the paper, nine
            tenths of the updates have short sequences and one tenth long ones.
        stuck_input_seconds: the wait for a batch, in seconds, after which it is reported on standard error.
        keep_best: records to evaluate on while training. The model with the lowest loss is kept instead of the last.
        eval_steps: number of updates between two of these evaluations; 0 for one per checkpoint.
        distillation: a teacher with the same vocabulary, and what it teaches.

    Raises:
        InputError: the seed is out of range, or there is a teacher for another objective than masked_lm.
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
    mem_len: int = 0
    objective: str = DEFAULT_OBJECTIVE
    model_arguments: Mapping[str, object] = dataclasses.field(default_factory=dict)
    seed: int = 12345
    track: tuple[str, ...] = ()
    optimizer: OptimizerChoice = OptimizerChoice()
    second_phase: PretrainingPhase | None = None
    stuck_input_seconds: float = 300.0
    keep_best: PretrainingEvaluation | None = None
    eval_steps: int = 0
    distillation: Distillation | None = None

    def __post_init__(self):
        check_seed(self.seed)
        check_trackers(self.track)
        if self.distillation and self.objective != DEFAULT_OBJECTIVE:
            raise InputError(
                f"A teacher needs the objective {DEFAULT_OBJECTIVE}. Received: {self.objective}. Leave out one of "
                "the two."
            )
        if self.mem_len and (self.distillation or self.objective != DEFAULT_OBJECTIVE):
            raise InputError(
                f"mem_len needs the objective {DEFAULT_OBJECTIVE} and no teacher. Received: {self.objective}, "
                f"{'a' if self.distillation else 'no'} teacher. Leave out mem_len or the other."
            )

    @property
    def steps_between_evaluations(self) -> int:
        """The number of updates between two evaluations, with the default filled in."""
        return self.eval_steps or self.save_checkpoints_steps

    def phases(self, train_files: str | Sequence[str]) -> list[PretrainingPhase]:
        """Returns the one or two phases of a run.

        Args:
            train_files: the records of the first phase.

        Raises:
            InputError: a number is out of range, or the devices cannot share a batch evenly.
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
        if self.mem_len and len({phase.train_batch_size for phase in phases}) > 1:
            raise InputError("mem_len needs the same train_batch_size in both phases: each row of a batch is a stream.")
        for phase in phases:
            check_batch_size(phase.train_batch_size, self.gradient_accumulation_steps)
        return phases

    def settings(self) -> dict[str, Any]:
        """Returns the settings, besides the phases, that must not change when a run is resumed."""
        settings = {
            "adam_beta_2": self.adam_beta_2,
            "random_seed": self.seed,
            "masking": dict(self.masking) if self.masking else None,
            **self.optimizer.settings(),
        }
        if self.objective != DEFAULT_OBJECTIVE:
            settings |= {"objective": self.objective, "model_arguments": dict(self.model_arguments)}
        if self.mem_len:
            settings["mem_len"] = self.mem_len
        if self.keep_best:
            settings |= {"keep_best": self.keep_best.settings(), "eval_steps": self.steps_between_evaluations}
        if self.distillation:
            settings["distillation"] = self.distillation.settings()
        return settings
