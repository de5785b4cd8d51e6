"""Learning rate schedules with a linear warm-up.

`step` is the number of updates made so far, as Google's global step. So with warm-up, the first update has a learning
rate of 0.
"""

import inspect
import math
from typing import Any

import keras
from keras import ops

from keras_bert.program.options import check_number, check_whole


class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """The base of all schedules: the learning rate rises linearly to `peak`; subclasses define `after_warmup`.

        step < num_warmup_steps:  peak * step / num_warmup_steps
        otherwise:                after_warmup(step)

    Args:
        peak: the highest learning rate.
        num_train_steps: the number of updates of the run. Every decay ends there, and the rate then stays the same.
        num_warmup_steps: the number of updates of the warm-up; 0 for none.

    Raises:
        InputError: a number is out of range.
    """

    def __init__(self, peak: float, num_train_steps: int, num_warmup_steps: int = 0):
        super().__init__()
        check_number("peak", peak, at_least=0)
        check_whole("num_train_steps", num_train_steps, at_least=1)
        check_whole("num_warmup_steps", num_warmup_steps, at_least=0, at_most=num_train_steps)
        self.peak = peak
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps

    def after_warmup(self, step: Any) -> Any:
        """Returns the rate at a float32 step. Values for steps of the warm-up are ignored."""
        raise NotImplementedError

    def __call__(self, step: Any) -> Any:
        step = ops.cast(step, "float32")
        rate = self.after_warmup(step)
        if self.num_warmup_steps:
            warmup_rate = self.peak * step / self.num_warmup_steps
            rate = ops.where(step < self.num_warmup_steps, warmup_rate, rate)
        return rate

    def has_ended(self, step: Any) -> bool:
        """Returns whether the rate is 0 at `step` and stays 0, so that further training would have no effect."""
        return int(step) >= self.num_train_steps and float(self(step)) == 0.0

    def get_config(self) -> dict[str, Any]:
        # The arguments of the constructor, which are attributes.
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def _share_done(self, step):
        """Returns the fraction of the run, warm-up included, that is over: 0 to 1."""
        return ops.minimum(step, self.num_train_steps) / self.num_train_steps


@keras.saving.register_keras_serializable(package="keras_bert")
class WarmupLinearDecay(WarmupSchedule):
    """The learning rate rises linearly to `peak` during warm-up and falls linearly to 0 at `num_train_steps`.

        step < num_warmup_steps:  peak * step / num_warmup_steps
        otherwise:                peak * (1 - step / num_train_steps)

    The decay is a line from `peak` at step 0, so the rate drops a little where warm-up ends, as in Google's code.

    Args and Raises: as `WarmupSchedule`.

    Example:
        >>> schedule = WarmupLinearDecay(peak=1e-4, num_train_steps=100, num_warmup_steps=10)
        >>> [round(float(schedule(step)), 7) for step in (5, 10, 100)]
        [5e-05, 9e-05, 0.0]

    Reference: google-research/bert `optimization.py`.
    """

    def after_warmup(self, step: Any) -> Any:
        return self.peak * (1.0 - self._share_done(step))


# The name of the optimiser instead, if the rate is constant.
FOR_ONE_FIT = "adamw_for_one_fit"


@keras.saving.register_keras_serializable(package="keras_bert")
class OneFitDecay(WarmupLinearDecay):
    """The schedule of one `fit` on texts with a model that the user has not compiled.

    The next `fit` recognises this class, so it knows that the optimiser is not the user's and replaces it. The class is
    kept when the model is saved and loaded.

    Args and Raises: as `WarmupSchedule`.
    """


@keras.saving.register_keras_serializable(package="keras_bert")
class WarmupPolynomialDecay(WarmupSchedule):
    """After the warm-up the learning rate falls to `end_rate` as a power of the remaining part of the run.

        step < num_warmup_steps:  peak * step / num_warmup_steps
        otherwise:                end_rate + (peak - end_rate) * (1 - step / num_train_steps) ** power

    With a `power` of 1 and an `end_rate` of 0 it is `WarmupLinearDecay`. With a power below 1 the rate stays high for
    longer; NVIDIA's recipe for LAMB has 0.5. The curve begins at step 0, under the warm-up, as in that recipe.

    Args:
        peak, num_train_steps, num_warmup_steps: as in `WarmupSchedule`.
        power: a number above 0.
        end_rate: the last learning rate, from 0 to `peak`.

    Raises:
        InputError: a number is out of range.

    Example:
        >>> schedule = WarmupPolynomialDecay(peak=1e-2, num_train_steps=100, num_warmup_steps=10, power=0.5)
        >>> [round(float(schedule(step)), 7) for step in (5, 75, 100)]
        [0.005, 0.005, 0.0]

    Reference: `polynomial_decay` in google-research/bert `optimization.py`.
    """

    def __init__(
        self, peak: float, num_train_steps: int, num_warmup_steps: int = 0, power: float = 1.0, end_rate: float = 0.0
    ):
        super().__init__(peak, num_train_steps, num_warmup_steps)
        check_number("power", power, above=0)
        check_number("end_rate", end_rate, at_least=0, at_most=peak)
        self.power = power
        self.end_rate = end_rate

    def after_warmup(self, step: Any) -> Any:
        return self.end_rate + (self.peak - self.end_rate) * ops.power(1.0 - self._share_done(step), self.power)


@keras.saving.register_keras_serializable(package="keras_bert")
class WarmupCosineDecay(WarmupSchedule):
    """After the warm-up the learning rate falls to 0 along half a period of a cosine.

        step < num_warmup_steps:  peak * step / num_warmup_steps
        otherwise:                peak / 2 * (1 + cos(pi * done))
        with                      done = (step - num_warmup_steps) / (num_train_steps - num_warmup_steps)

    Args and Raises: as `WarmupSchedule`.

    Reference: Loshchilov and Hutter, 2017, arXiv 1608.03983, without restarts.
    """

    def after_warmup(self, step: Any) -> Any:
        # If the warm-up takes the whole run, the rate is 0 from its end on.
        num_steps = max(1, self.num_train_steps - self.num_warmup_steps)
        start = self.num_train_steps - num_steps
        done = (ops.minimum(step, self.num_train_steps) - start) / num_steps
        return 0.5 * self.peak * (1.0 + ops.cos(math.pi * done))


@keras.saving.register_keras_serializable(package="keras_bert")
class WarmupTrapezoid(WarmupSchedule):
    """The learning rate rises in the warm-up, stays at `peak`, and falls linearly to 0 in the last steps.

        step < num_warmup_steps:                   peak * step / num_warmup_steps
        step <= num_train_steps - num_decay_steps: peak
        otherwise:                                 peak * (num_train_steps - step) / num_decay_steps

    The rate before the fall does not depend on `num_train_steps`, so a run can be extended.

    Args:
        peak, num_train_steps, num_warmup_steps: as in `WarmupSchedule`.
        num_decay_steps: the number of updates of the fall; with the warm-up, at most `num_train_steps`.

    Raises:
        InputError: a number is out of range.

    Reference: Hägele et al., 2024, arXiv 2405.18392 (constant rate and cool-down).
    """

    def __init__(self, peak: float, num_train_steps: int, num_warmup_steps: int = 0, *, num_decay_steps: int):
        super().__init__(peak, num_train_steps, num_warmup_steps)
        check_whole("num_decay_steps", num_decay_steps, at_least=1, at_most=num_train_steps - num_warmup_steps)
        self.num_decay_steps = num_decay_steps

    def after_warmup(self, step: Any) -> Any:
        left = ops.maximum(self.num_train_steps - step, 0.0)
        return self.peak * (ops.minimum(left, self.num_decay_steps) / self.num_decay_steps)


@keras.saving.register_keras_serializable(package="keras_bert")
class WarmupConstant(WarmupSchedule):
    """The learning rate rises in the warm-up and stays at `peak`.

    Args and Raises: as `WarmupSchedule`.
    """

    def after_warmup(self, step: Any) -> Any:
        return self.peak * ops.ones_like(step)


@keras.saving.register_keras_serializable(package="keras_bert")
class PhasedSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Two schedules in succession. The second counts its steps from 0 again.

        step < num_first_steps:  first(step)
        otherwise:               second(step - num_first_steps)

    Args:
        first, second: `keras.optimizers.schedules.LearningRateSchedule`.
        num_first_steps: the number of updates with the first schedule.

    Raises:
        InputError: `num_first_steps` is below 1.
    """

    def __init__(self, first, second, num_first_steps):
        super().__init__()
        check_whole("num_first_steps", num_first_steps, at_least=1)
        self.first = first
        self.second = second
        self.num_first_steps = num_first_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        return ops.where(step < self.num_first_steps, self.first(step), self.second(step - self.num_first_steps))

    def get_config(self):
        return {
            "first": keras.saving.serialize_keras_object(self.first),
            "second": keras.saving.serialize_keras_object(self.second),
            "num_first_steps": self.num_first_steps,
        }

    @classmethod
    def from_config(cls, config):
        schedules = {name: keras.saving.deserialize_keras_object(config[name]) for name in ("first", "second")}
        return cls(**{**config, **schedules})


@keras.saving.register_keras_serializable(package="keras_bert")
class GrowingBatchSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule that counts sequences, and so tokens, instead of updates, while the batch grows.

    The rate of `schedule` is that of the number of sequences seen so far, in batches of the last size:

        schedule(number of sequences / batch_sizes[-1])

    Args:
        schedule: `keras.optimizers.schedules.LearningRateSchedule` for batches of the last size.
        batch_sizes: the batch sizes, one after the other.
        steps_per_size: the number of updates with each batch size but the last.
    """

    def __init__(self, schedule, batch_sizes, steps_per_size):
        super().__init__()
        self.schedule = schedule
        self.batch_sizes = list(batch_sizes)
        self.steps_per_size = steps_per_size

    def __call__(self, step):
        step = ops.cast(step, "float32")
        *smaller, last = self.batch_sizes
        full_steps = ops.maximum(step - len(smaller) * self.steps_per_size, 0.0)
        for number, size in enumerate(smaller):
            steps = ops.clip(step - number * self.steps_per_size, 0.0, self.steps_per_size)
            full_steps = full_steps + (size / last) * steps
        return self.schedule(full_steps)

    def get_config(self):
        return {
            "schedule": keras.saving.serialize_keras_object(self.schedule),
            "batch_sizes": self.batch_sizes,
            "steps_per_size": self.steps_per_size,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "schedule": keras.saving.deserialize_keras_object(config["schedule"])})
