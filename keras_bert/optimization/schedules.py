"""Learning rates over a run: all rise linearly in the warm-up, each falls in its own way, or not at all.

`step` counts the updates made so far, from 0, as Google's global step does: with warm-up the first update has a
learning rate of 0.
"""

import math

import keras
from keras import ops

from keras_bert.program.errors import InputError


class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate rises linearly to `peak` in `num_warmup_steps`; subclasses say in `after_warmup` what follows.

        step < num_warmup_steps:  peak * step / num_warmup_steps
        otherwise:                after_warmup(step)

    Args:
        peak: the highest learning rate.
        num_train_steps: the updates of the run. What falls has fallen by then, and stays there.
        num_warmup_steps: 0 switches warm-up off.

    Raises:
        InputError: the numbers make no schedule.
    """

    def __init__(self, peak, num_train_steps, num_warmup_steps=0):
        super().__init__()
        if not (peak >= 0 and math.isfinite(peak)):
            raise InputError(f"The learning rate must not be negative. Received: {peak}")
        if num_train_steps < 1:
            raise InputError(f"num_train_steps must be at least 1. Received: {num_train_steps}")
        if not 0 <= num_warmup_steps <= num_train_steps:
            raise InputError(
                f"num_warmup_steps must be between 0 and num_train_steps={num_train_steps}. Received: "
                f"{num_warmup_steps}. About a tenth of num_train_steps is usual."
            )
        self.peak = peak
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps

    def after_warmup(self, step):
        """Returns the rate at a float32 step; what it gives for steps of the warm-up is not used."""
        raise NotImplementedError

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rate = self.after_warmup(step)
        if self.num_warmup_steps:
            warmup_rate = self.peak * step / self.num_warmup_steps
            rate = ops.where(step < self.num_warmup_steps, warmup_rate, rate)
        return rate

    def has_ended(self, step) -> bool:
        """Whether nothing is learned any more from `step` on: the rate is 0 and stays there."""
        return int(step) >= self.num_train_steps and float(self(step)) == 0.0

    def get_config(self):
        return {
            "peak": self.peak,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
        }

    def _share_done(self, step):
        """Returns the part of the run, warm-up included, that is over: 0 to 1."""
        return ops.minimum(step, self.num_train_steps) / self.num_train_steps


@keras.saving.register_keras_serializable(package="keras_bert")
class WarmupLinearDecay(WarmupSchedule):
    """The learning rate rises linearly to `peak` during warm-up and falls linearly to 0 at `num_train_steps`.

        step < num_warmup_steps:  peak * step / num_warmup_steps
        otherwise:                peak * (1 - step / num_train_steps)

    The decay is a line from `peak` at step 0, so the rate drops a little where warm-up ends; that is Google's.

    Args and Raises: as `WarmupSchedule`.

    Example:
        >>> schedule = WarmupLinearDecay(peak=1e-4, num_train_steps=100, num_warmup_steps=10)
        >>> float(schedule(5)), float(schedule(10)), float(schedule(100))   # about 5e-05, 9e-05, 0

    Reference: google-research/bert `optimization.py`.
    """

    def after_warmup(self, step):
        return self.peak * (1.0 - self._share_done(step))


@keras.saving.register_keras_serializable(package="keras_bert")
class OneFitDecay(WarmupLinearDecay):
    """The schedule of one `fit` on texts, made for a model that its user has not compiled.

    The class is the mark by which the next `fit` knows that it is not the user's, and replaces it; so it lasts when a
    model is saved with its optimizer and loaded.

    Args and Raises: as `WarmupSchedule`.
    """


@keras.saving.register_keras_serializable(package="keras_bert")
class WarmupPolynomialDecay(WarmupSchedule):
    """After the warm-up the learning rate falls to `end_rate` as a power of what is left of the run.

        step < num_warmup_steps:  peak * step / num_warmup_steps
        otherwise:                end_rate + (peak - end_rate) * (1 - step / num_train_steps) ** power

    With a power of 1 and an end of 0 it is `WarmupLinearDecay`. Below 1 the rate stays high for longer; NVIDIA's recipe
    for LAMB has 0.5. As there, the curve begins at step 0, under the warm-up.

    Args:
        power: above 0.
        end_rate: from 0 to `peak`.
        Others and Raises: as `WarmupSchedule`.

    Example:
        >>> schedule = WarmupPolynomialDecay(peak=1e-2, num_train_steps=100, num_warmup_steps=10, power=0.5)
        >>> float(schedule(5)), float(schedule(75)), float(schedule(100))   # about 0.005, 0.005, 0

    Reference: `polynomial_decay` in google-research/bert `optimization.py`.
    """

    def __init__(self, peak, num_train_steps, num_warmup_steps=0, power=1.0, end_rate=0.0):
        super().__init__(peak, num_train_steps, num_warmup_steps)
        if not (power > 0 and math.isfinite(power)):
            raise InputError(f"The power of the decay must be above 0. Received: {power}")
        if not 0 <= end_rate <= peak:
            raise InputError(f"end_rate must be between 0 and the highest learning rate {peak}. Received: {end_rate}")
        self.power = power
        self.end_rate = end_rate

    def after_warmup(self, step):
        return self.end_rate + (self.peak - self.end_rate) * ops.power(1.0 - self._share_done(step), self.power)

    def get_config(self):
        return {**super().get_config(), "power": self.power, "end_rate": self.end_rate}


@keras.saving.register_keras_serializable(package="keras_bert")
class WarmupCosineDecay(WarmupSchedule):
    """After the warm-up the learning rate falls to 0 along half a wave of the cosine.

        step < num_warmup_steps:  peak * step / num_warmup_steps
        otherwise:                peak / 2 * (1 + cos(pi * done))
        with                      done = (step - num_warmup_steps) / (num_train_steps - num_warmup_steps)

    Args and Raises: as `WarmupSchedule`.

    Reference: Loshchilov and Hutter, 2017, arXiv 1608.03983, without restarts.
    """

    def after_warmup(self, step):
        # Where the warm-up is all of the run there is nothing to fall in: 0 from its end.
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

    Up to the fall it is the same whatever `num_train_steps` is, so that a run can be decided to last longer.

    Args:
        num_decay_steps: the updates of the fall; with the warm-up, no more than `num_train_steps`.
        Others and Raises: as `WarmupSchedule`.

    Reference: Hägele et al., 2024, arXiv 2405.18392 (constant rate and cool-down).
    """

    def __init__(self, peak, num_train_steps, num_warmup_steps=0, *, num_decay_steps):
        super().__init__(peak, num_train_steps, num_warmup_steps)
        most = num_train_steps - num_warmup_steps
        if not 1 <= num_decay_steps <= most:
            raise InputError(
                f"num_decay_steps must be between 1 and num_train_steps - num_warmup_steps = {most}. Received: "
                f"{num_decay_steps}"
            )
        self.num_decay_steps = num_decay_steps

    def after_warmup(self, step):
        left = ops.maximum(self.num_train_steps - step, 0.0)
        return self.peak * (ops.minimum(left, self.num_decay_steps) / self.num_decay_steps)

    def get_config(self):
        return {**super().get_config(), "num_decay_steps": self.num_decay_steps}


@keras.saving.register_keras_serializable(package="keras_bert")
class WarmupConstant(WarmupSchedule):
    """The learning rate rises in the warm-up and stays at `peak`.

    Args and Raises: as `WarmupSchedule`.
    """

    def after_warmup(self, step):
        return self.peak * ops.ones_like(step)


@keras.saving.register_keras_serializable(package="keras_bert")
class PhasedSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Two schedules, one after the other. The second counts its steps from 0 again.

        step < num_first_steps:  first(step)
        otherwise:               second(step - num_first_steps)

    Args:
        first, second: `keras.optimizers.schedules.LearningRateSchedule`.
        num_first_steps: the updates with the first one.

    Raises:
        InputError: `num_first_steps` is below 1.
    """

    def __init__(self, first, second, num_first_steps):
        super().__init__()
        if num_first_steps < 1:
            raise InputError(f"The first phase must have at least 1 step. Received: {num_first_steps}")
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
