"""The options of a language model's run. Nothing here imports TensorFlow, so that `--help` is quick."""

import dataclasses
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.program.options import documented, option
from keras_bert.training.optimizer_choice import OptimizerChoice
from keras_bert.training.run_options import RunOptions


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

    def settings(self) -> dict[str, Any]:
        """Returns the settings that must not change when a run is resumed."""
        names = ("max_seq_length", "train_batch_size", "learning_rate", "adam_beta_2", "num_train_steps")
        values = {name: getattr(self, name) for name in (*names, "num_warmup_steps")}
        return {**values, "random_seed": self.seed, **self.optimizer.settings()}
