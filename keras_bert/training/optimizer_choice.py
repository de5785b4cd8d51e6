"""Which optimiser, which learning rates and whether weights are averaged: what all runs can be told alike."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from keras_bert.optimization import (
    LAMB,
    AdamW,
    WarmupConstant,
    WarmupCosineDecay,
    WarmupLinearDecay,
    WarmupPolynomialDecay,
    WarmupTrapezoid,
)
from keras_bert.program.errors import InputError

OPTIMIZERS = ("adamw", "lamb")
SCHEDULES = ("linear", "polynomial", "cosine", "trapezoid", "constant")


@dataclasses.dataclass(frozen=True)
class OptimizerChoice:
    """How the weights of a run are updated, whatever is trained.

    Attributes:
        optimizer: one of `OPTIMIZERS`.
        learning_rate_schedule: one of `SCHEDULES`; all have a warm-up.
        decay_power: of the polynomial; `None`: 1, which is linear.
        num_decay_steps: the updates in which the trapezoid falls; `None`: a tenth of the run.
        ema_momentum: how much of the average of the weights each update keeps, such as 0.999. The run then ends with
            the averaged weights. 0: they are not averaged.

    Raises:
        InputError: a value that there is not, or one that the schedule does not know.
    """

    optimizer: str = "adamw"
    learning_rate_schedule: str = "linear"
    decay_power: float | None = None
    num_decay_steps: int | None = None
    ema_momentum: float = 0.0

    def __post_init__(self):
        for name, known in (("optimizer", OPTIMIZERS), ("learning_rate_schedule", SCHEDULES)):
            if getattr(self, name) not in known:
                raise InputError(f"{name} must be one of {', '.join(known)}. Received: {getattr(self, name)!r}")
        for name, schedule in (("decay_power", "polynomial"), ("num_decay_steps", "trapezoid")):
            if getattr(self, name) is not None and self.learning_rate_schedule != schedule:
                raise InputError(
                    f"{name} is for the learning_rate_schedule {schedule}, and it is {self.learning_rate_schedule}. "
                    f"Leave {name} out, or choose {schedule}."
                )
        if not 0 <= self.ema_momentum < 1:
            raise InputError(
                f"ema_momentum must be at least 0 and below 1; 0 is without averaging. Received: {self.ema_momentum}"
            )

    def settings(self) -> dict[str, Any]:
        """Returns what must stay the same for a run to be the same run."""
        return dataclasses.asdict(self)

    def schedule(self, learning_rate: float, num_train_steps: int, num_warmup_steps: int):
        """Returns the `LearningRateSchedule` of a run. Raises `InputError`: the numbers make none."""
        steps = (learning_rate, num_train_steps, num_warmup_steps)
        if self.learning_rate_schedule == "polynomial":
            return WarmupPolynomialDecay(*steps, power=1.0 if self.decay_power is None else self.decay_power)
        if self.learning_rate_schedule == "trapezoid":
            tenth = max(1, num_train_steps // 10)
            return WarmupTrapezoid(
                *steps, num_decay_steps=tenth if self.num_decay_steps is None else self.num_decay_steps
            )
        kinds = {"linear": WarmupLinearDecay, "cosine": WarmupCosineDecay, "constant": WarmupConstant}
        return kinds[self.learning_rate_schedule](*steps)

    def make(self, schedule, *, beta_2: float = 0.999, bias_correction: bool = True, layer_decay: float = 1.0):
        """Returns the optimiser.

        Args:
            schedule: its learning rates.
            beta_2: how long it remembers the squares of the gradients.
            bias_correction: that of `AdamW`; `LAMB` always corrects.
            layer_decay: see `AdamW`.

        Raises:
            InputError: `layer_decay` is for `AdamW` only.
        """
        averaging = {"use_ema": True, "ema_momentum": self.ema_momentum} if self.ema_momentum else {}
        if self.optimizer == "adamw":
            return AdamW(schedule, beta_2=beta_2, bias_correction=bias_correction, layer_decay=layer_decay, **averaging)
        if layer_decay != 1:
            raise InputError(
                f"layer_decay is for the optimizer adamw: LAMB sets the rate of each layer itself. Received: "
                f"{layer_decay}. Leave layer_decay out, or choose adamw."
            )
        return LAMB(schedule, beta_2=beta_2, **averaging)


def take_averages(model) -> None:
    """Gives the model the average of its weights, if its optimiser keeps one and has made an update."""
    # Not Keras' own `fit` alone: a run that goes on from its last checkpoint fits nothing.
    model.optimizer.finalize_variable_values(model.trainable_variables)


@contextlib.contextmanager
def averaged_weights(model) -> Iterator[None]:
    """Inside, the model has the average of its weights, as `take_averages` gives it; afterwards those of before."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)  # what a LossScaleOptimizer wraps
    if not optimizer.use_ema:
        yield
        return
    trained = [variable.value.numpy() for variable in model.trainable_variables]
    take_averages(model)
    try:
        yield
    finally:
        for variable, value in zip(model.trainable_variables, trained, strict=True):
            variable.assign(value)
