"""The options that all training runs have. Nothing here imports TensorFlow, so that `--help` is quick."""

import dataclasses
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, documented, option
from keras_bert.training.optimizer_choice import OptimizerChoice

HIGHEST_SEED = 2**32 - 1  # of NumPy's global generator, which keras.utils.set_random_seed seeds too
KEEP_CHECKPOINT_MAX = 2  # the newest checkpoint, and one more in case the newest is damaged
# Fields that may change when a run is resumed, and those that have settings of their own.
_CHANGEABLE = ("save_checkpoints_steps", "keep_checkpoint_max", "steps_per_execution", "gradient_accumulation_steps")
_CHANGEABLE += ("gradient_checkpointing", "tensorboard", "callbacks")
_WITH_SETTINGS = ("optimizer", "distillation")


@documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """The options of every training run.

    Attributes:
        callbacks: further Keras callbacks for `fit`, such as those of experiment trackers.
        optimizer: the optimiser, its learning rates, and the averaging of weights.
    """

    train_batch_size: int = option(32, "Examples per update.", at_least=1)
    learning_rate: float = option(5e-5, "The highest learning rate.", at_least=0)
    seed: int = option(
        12345,
        "Seed of the new weights, the dropout, the masks and the order of the examples.",
        flag="random_seed",
        at_least=0,
        at_most=HIGHEST_SEED,
    )
    save_checkpoints_steps: int = option(1000, "The number of updates between two checkpoints.", at_least=1)
    keep_checkpoint_max: int = option(
        KEEP_CHECKPOINT_MAX, "The number of newest checkpoints to keep; 0: all.", at_least=0
    )
    steps_per_execution: int = option(
        1, "Updates between returns to Python (steps_per_execution of Keras).", flag="iterations_per_loop", at_least=1
    )
    gradient_accumulation_steps: int = option(
        1, "Compute a batch in this many parts, which needs the memory of one part.", at_least=1
    )
    gradient_checkpointing: bool = option(
        False,
        "Store only the inputs of each layer, and recompute the rest in the backward pass: less memory, more time.",
    )
    tensorboard: bool = option(False, "Also write the metrics for TensorBoard, to output_dir/tensorboard.")
    callbacks: tuple[Any, ...] = ()
    optimizer: OptimizerChoice = OptimizerChoice()

    def settings(self) -> dict[str, Any]:
        """Returns the options that must not change when the run is resumed."""
        fields = [field.name for field in dataclasses.fields(self)]
        values = {name: getattr(self, name) for name in fields if name not in (*_CHANGEABLE, *_WITH_SETTINGS)}
        return values | self.optimizer.settings()


@documented
@dataclasses.dataclass(frozen=True)
class LanguageModelOptions(RunOptions):
    """The options of `train_language_model`; see also `RunOptions`.

    Raises:
        InputError: as `RunOptions`, or batches are computed in parts.
    """

    max_seq_length: int = option(128, "Tokens of a segment in training.", at_least=1)
    train_batch_size: int = option(32, "Rows of a batch, each of which reads its own part of the stream.", at_least=1)
    learning_rate: float = option(2.5e-4, "The highest learning rate.", at_least=0)
    adam_beta_2: float = option(0.999, "Adam's decay rate of the mean of squared gradients.", at_least=0, below=1)
    num_train_steps: int = option(100_000, "The number of updates.", at_least=1)
    num_warmup_steps: int = option(0, "The number of updates in which the learning rate rises.", at_least=0)
    optimizer: OptimizerChoice = OptimizerChoice(learning_rate_schedule="cosine")

    def __post_init__(self):
        super().__post_init__()
        if self.gradient_accumulation_steps > 1:
            raise InputError("gradient_accumulation_steps does not work with a memory. Use smaller batches.")
