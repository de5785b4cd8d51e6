"""Evaluates a model while it trains, and writes the scores to the run's log."""

import contextlib
import math
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from keras_bert.program.errors import InputError
from keras_bert.training.callbacks import StepCallback, append_line, lines_until
from keras_bert.training.run_folder import EVALUATIONS_FILE, RunFolder
from keras_bert.training.strategies import call_in_chief, is_chief
from keras_bert.training.tensorboard_log import TensorBoardLog, evaluation_names


class Evaluations(StepCallback):
    """Evaluates a model at regular intervals and after the last update.

    `evaluations.jsonl` gets one line per evaluation: the step and the scores. TensorBoard gets the same numbers. A
    resumed run removes the lines of steps after its checkpoint, because these evaluations are repeated. If several
    processes train, all call this and one writes.

    Args:
        folder: the folder of the run.
        start_step, num_train_steps: as in `StepCallback`.
        evaluate: returns the scores of the model with its current weights; equal in all processes.
        main_score: name of the score that is shown.
        evaluate_steps: number of updates between two evaluations.
        with_weights: returns a context in which the model has the weights to evaluate; by default its current ones.

    Attributes:
        tensorboard: a further place for the scores, or None.
    """

    def __init__(
        self,
        folder: RunFolder,
        start_step: int,
        num_train_steps: int,
        evaluate: Callable[[], Mapping[str, float]],
        main_score: str,
        *,
        evaluate_steps: int,
        with_weights: Callable[[], AbstractContextManager] = contextlib.nullcontext,
    ):
        super().__init__(start_step, num_train_steps)
        self.tensorboard: TensorBoardLog | None = None
        self._evaluate = evaluate
        self._main_score = main_score
        self._evaluate_steps = evaluate_steps
        self._with_weights = with_weights
        self._path = folder.file(EVALUATIONS_FILE)
        self.evaluations = call_in_chief(lambda: lines_until(self._path, self.step))

    def on_steps(self, previous, logs):
        if self._is_due(previous, self._evaluate_steps):
            self.evaluate_once()

    def evaluate_once(self) -> None:
        """Evaluates the model, unless that has been done at this step."""
        if self.evaluations and self.evaluations[-1]["step"] == self.step:
            return
        _ = self.model  # on JAX, this gives the model the values that `fit` holds
        with self._with_weights():
            scores = self._evaluate()
            if self._main_score not in scores:
                raise InputError(f"There is no score {self._main_score!r}. Use one of: {', '.join(scores)}.")
            # Undefined scores are left out, because JSON has no NaN.
            finite = {name: float(value) for name, value in scores.items() if math.isfinite(value)}
            self.evaluations.append({"step": self.step, **finite})
            if not is_chief():
                return
            self.before_recording()
        append_line(self._path, self.evaluations[-1])
        if self.tensorboard is not None:
            self.tensorboard.write(evaluation_names(finite), self.step)
        print(f"step {self.step:,}: {self._main_score} {scores[self._main_score]:.4f}{self.verdict()}", file=sys.stderr)

    def before_recording(self) -> None:
        """Called in the process that writes, before the line of the newest evaluation is written."""

    def verdict(self) -> str:
        """Returns the end of the line that is shown for the newest evaluation."""
        return ""
