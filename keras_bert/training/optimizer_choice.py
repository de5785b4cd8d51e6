"""The choice of optimiser, learning rates and weight averaging, which all runs have in common.

Nothing here imports Keras before it is needed, so that `--help` is quick.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, documented, option

OPTIMIZERS = ("adamw", "lamb", "stable_adamw", "muon")
SCHEDULES = ("linear", "polynomial", "cosine", "trapezoid", "constant")


@documented
@dataclasses.dataclass(frozen=True)
class OptimizerChoice(Options):
    """The optimiser of a run, its learning rate schedule, and the averaging of weights.

    Raises:
        InputError: a value is unknown or out of range, or the schedule does not use it.
    """

    optimizer: str = option(
        "adamw",
        "AdamW; LAMB for large batches; StableAdamW, whose update is clipped for each variable (arXiv 2304.13013); or "
        "Muon for the matrices of the layers with AdamW for the rest (arXiv 2502.16982).",
        choices=OPTIMIZERS,
    )
    learning_rate_schedule: str = option("linear", "How the learning rate decays after the warm-up.", choices=SCHEDULES)
    decay_power: float | None = option(
        None, "The power of the polynomial (default: 1, which is linear; 0.5 for LAMB).", above=0
    )
    num_decay_steps: int | None = option(
        None, "The updates in which the trapezoid decays (default: a tenth of all).", at_least=1
    )
    ema_momentum: float = option(
        0.0,
        "The momentum of a moving average of the weights, such as 0.999; 0: no average. The trained model has the "
        "averaged weights.",
        at_least=0,
        below=1,
    )

    def __post_init__(self):
        super().__post_init__()
        for name, schedule in (("decay_power", "polynomial"), ("num_decay_steps", "trapezoid")):
            if getattr(self, name) is not None and self.learning_rate_schedule != schedule:
                raise InputError(
                    f"{name} is for the learning_rate_schedule {schedule}, but it is {self.learning_rate_schedule}. "
                    f"Leave {name} out, or choose {schedule}."
                )

    def settings(self) -> dict[str, Any]:
        """Returns the settings that must not change when a run is resumed."""
        return dataclasses.asdict(self)

    def schedule(self, learning_rate: float, num_train_steps: int, num_warmup_steps: int):
        """Returns the learning rate schedule of a run.

        Raises:
            InputError: a number is out of range.
        """
        from keras_bert import optimization

        steps = (learning_rate, num_train_steps, num_warmup_steps)
        if self.learning_rate_schedule == "polynomial":
            return optimization.WarmupPolynomialDecay(
                *steps, power=1.0 if self.decay_power is None else self.decay_power
            )
        if self.learning_rate_schedule == "trapezoid":
            tenth = max(1, num_train_steps // 10)
            return optimization.WarmupTrapezoid(
                *steps, num_decay_steps=tenth if self.num_decay_steps is None else self.num_decay_steps
            )
        kinds = {"linear": "WarmupLinearDecay", "cosine": "WarmupCosineDecay", "constant": "WarmupConstant"}
        return getattr(optimization, kinds[self.learning_rate_schedule])(*steps)

    def make(self, schedule, *, beta_2: float = 0.999, bias_correction: bool = True, layer_decay: float = 1.0):
        """Returns the optimiser. `bias_correction` is for `AdamW`; the others always correct.

        Raises:
            InputError: `layer_decay` is given for `LAMB`.
        """
        from keras_bert.optimization import LAMB, AdamW, Muon, StableAdamW

        arguments = {"use_ema": True, "ema_momentum": self.ema_momentum} if self.ema_momentum else {}
        if self.optimizer == "adamw":
            arguments["bias_correction"] = bias_correction
        if self.optimizer != "lamb":
            arguments["layer_decay"] = layer_decay
        elif layer_decay != 1:
            raise InputError(
                f"layer_decay has no place in the optimizer lamb, which sets the rate of each layer itself. Received: "
                f"{layer_decay}. Leave layer_decay out, or choose adamw."
            )
        classes = {"adamw": AdamW, "stable_adamw": StableAdamW, "muon": Muon, "lamb": LAMB}
        return classes[self.optimizer](schedule, beta_2=beta_2, **arguments)


def take_averages(model) -> None:
    """Gives the model the average of its weights, if its optimiser averages them and has made an update."""
    # `fit` does this too, but a run that resumes from its last checkpoint does not call it.
    model.optimizer.finalize_variable_values(model.trainable_variables)


@contextlib.contextmanager
def averaged_weights(model) -> Iterator[None]:
    """Gives the model its averaged weights in this block, if its optimiser averages them, and then its own again."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)  # inside a LossScaleOptimizer
    if not optimizer.use_ema:
        yield
        return
    from keras_bert.accelerate.backend import numpy_of

    trained = [numpy_of(variable) for variable in model.trainable_variables]
    take_averages(model)
    try:
        yield
    finally:
        for variable, value in zip(model.trainable_variables, trained, strict=True):
            variable.assign(value)
