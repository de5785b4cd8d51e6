"""Ends a run after a number of hours, and lets the learning rate fall to its end by then."""

import sys
import time
from collections.abc import Callable
from typing import Any

import keras

from keras_bert.training.callbacks import StepCallback
from keras_bert.training.evaluations import Evaluations
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.strategies import call_in_chief

# The learning rate and the hours of a checkpoint are exact to this share of the run.
_RESOLUTION = 1e-4


class TimeBudget(StepCallback):
    """Sets the learning rate by the hours trained so far, and ends the run when they are used up.

    The rate is that of `schedule` at the step made so far or, if that is later, at the same share of
    `num_train_steps` as that of the hours used. The hours are a variable of the optimizer, so checkpoints have them,
    and a resumed run goes on with the hours that are left. Hours of updates that a kill has lost do not count.

    Create it after `compile`, with an optimizer whose learning rate is a number, and call `start_at` before each `fit`.

    Args:
        schedule: takes a step and returns a learning rate. It ends at `num_train_steps`.
        max_hours: the budget.
    """

    def __init__(
        self,
        folder: RunFolder,
        model: Any,
        schedule: Callable[[float], Any],
        num_train_steps: int,
        max_hours: float,
        clock: Callable[[], float] = time.monotonic,
    ):
        super().__init__(folder, 0, num_train_steps)
        self._schedule = schedule
        self._max_hours = max_hours
        self._clock = clock
        self._optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)  # inside a LossScaleOptimizer
        self._trained_hours = self._optimizer.add_variable((), dtype="float32", name="trained_hours")

    def start_at(self, step: int, evaluations: Evaluations | None) -> None:
        """Goes on from a step, whose checkpoint is restored. `evaluations` evaluates the model when the run ends."""
        self.step = self._start_step = step
        self._evaluations = evaluations

    @property
    def hours(self) -> float:
        """The hours of training in the model's weights, except for the newest ten-thousandth of the budget."""
        return float(keras.ops.convert_to_numpy(self._trained_hours))

    @property
    def is_used_up(self) -> bool:
        """Whether the run has ended."""
        return self.hours >= (1 - _RESOLUTION) * self._max_hours  # the variable is rounded to float32

    def on_train_begin(self, logs=None):
        self._began = self._clock() - 3600 * self.hours
        self._set(self.hours)

    def on_steps(self, previous, logs):
        # All workers take the time of one, because their learning rates must be equal.
        hours = call_in_chief(lambda: (self._clock() - self._began) / 3600)
        is_over = hours >= self._max_hours
        if is_over or self._progress(hours) - self._progress_set >= _RESOLUTION * self._num_train_steps:
            self._set(hours)
        if not is_over:
            return
        print(f"\n{self._max_hours:g} hours are used up: training ends at step {self.step}.", file=sys.stderr)
        if self._evaluations:
            self._evaluations.evaluate_once()
        self._folder.save_checkpoint(self.model, self.step)
        self.model.stop_training = True

    def _progress(self, hours: float) -> float:
        """Returns the step of the schedule."""
        return max(float(self.step), min(1.0, hours / self._max_hours) * self._num_train_steps)

    def _set(self, hours: float) -> None:
        # Reading `self.model` gives the variables their values on Keras' JAX backend.
        assert self.model is not None
        self._progress_set = self._progress(hours)
        rate = self._schedule(self._progress_set)
        self._optimizer.learning_rate = float(keras.ops.convert_to_numpy(rate))
        self._trained_hours.assign(hours)
