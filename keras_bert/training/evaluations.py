"""Evaluates a model while it trains, writes the scores to the run's log, keeps the best weights, and stops early."""

import contextlib
import math
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from keras_bert.accelerate.backend import numpy_of
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import write_json
from keras_bert.training.callbacks import StepCallback, append_line, lines_until
from keras_bert.training.finished_runs import BEST_FILE
from keras_bert.training.optimizer_choice import take_averages
from keras_bert.training.run_folder import EVALUATIONS_FILE, RunFolder, read_arrays, write_arrays
from keras_bert.training.strategies import call_in_chief, is_chief
from keras_bert.training.tensorboard_log import TensorBoardLog, evaluation_names

_WEIGHTS_FILE = "best_weights.npz"


class Evaluations(StepCallback):
    """Evaluates a model at regular intervals and after the last update.

    `evaluations.jsonl` gets one line per evaluation: the step and the scores. TensorBoard gets the same numbers. A
    resumed run removes the lines of steps after its checkpoint, because these evaluations are repeated. If several
    processes train, all call this and one writes.

    Args:
        folder, start_step, num_train_steps: as in `StepCallback`.
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
        super().__init__(folder, start_step, num_train_steps)
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
            verdict = self.before_recording()
        append_line(self._path, self.evaluations[-1])
        if self.tensorboard is not None:
            self.tensorboard.write(evaluation_names(finite), self.step)
        print(f"step {self.step:,}: {self._main_score} {scores[self._main_score]:.4f}{verdict}", file=sys.stderr)

    def before_recording(self) -> str:
        """Called in the process that writes, before the line of the newest evaluation is written. Returns the end of
        the line that is shown."""
        return ""


class BestModel(Evaluations):
    """Evaluates a model as `Evaluations` does, and keeps the best weights.

        best_weights.npz    the weights of the best evaluation, until the model folder is written
        best.json           the line of the best evaluation, when training is done

    The files survive a kill, so a resumed run knows its best score.

    Args:
        model: the model whose weights are kept; the trained one or a part of it.
        main_score: name of the score that is compared. The first of equal scores is kept.
        less_is_better: whether a lower score is better, as for a loss.
        patience: training ends after this many evaluations without a better score; 0 for never.
        after_step: evaluations up to this step do not count: the run had finished there, and is extended.
        **options: further arguments of `Evaluations`.
    """

    def __init__(
        self,
        folder: RunFolder,
        start_step: int,
        num_train_steps: int,
        model,
        evaluate: Callable[[], Mapping[str, float]],
        main_score: str,
        *,
        less_is_better: bool = False,
        patience: int = 0,
        after_step: int = 0,
        **options: Any,
    ):
        super().__init__(folder, start_step, num_train_steps, evaluate, main_score, **options)
        self._kept_model = model
        self._less_is_better = less_is_better
        self._patience = patience
        self._after_step = after_step
        self._weights_path = folder.file(_WEIGHTS_FILE)

    @property
    def best(self) -> dict | None:
        """The line of the best evaluation so far, or None before the first. An undefined score is the worst."""
        sign = -1 if self._less_is_better else 1
        lines = [line for line in self.evaluations if line["step"] > self._after_step]
        return max(lines, key=lambda line: sign * line.get(self._main_score, -sign * math.inf), default=None)

    @property
    def is_exhausted(self) -> bool:
        """Whether there were `patience` evaluations without a better score, so that training ends."""
        if not self._patience or not self.evaluations:
            return False
        return len(self.evaluations) - 1 - self.evaluations.index(self.best) >= self._patience

    def on_steps(self, previous, logs):
        super().on_steps(previous, logs)
        if self.is_exhausted and self.step < self._num_train_steps and self._is_due(previous, self._evaluate_steps):
            print(f"No better {self._main_score} in {self._patience} evaluations: training ends.", file=sys.stderr)
            self.model.stop_training = True

    def before_recording(self) -> str:
        if self.best is not self.evaluations[-1]:
            return f"; the best is that of step {self.best['step']:,}"
        # Weights are written before the line, so a kill in between loses an evaluation, not the weights.
        with atomic_file(self._weights_path) as file:
            weights = enumerate(self._kept_model.weights)
            write_arrays(file, {str(number): numpy_of(weight) for number, weight in weights})
        return ", the best so far"

    def restore(self) -> int:
        """Gives the model the best weights, writes `best.json` and returns the step of these weights.

        Raises:
            InputError: the file of the weights is missing or belongs to another model.
        """
        try:
            arrays = read_arrays(self._weights_path)
            for name, weight in enumerate(self._kept_model.weights):
                weight.assign(arrays[str(name)])
        except (OSError, EOFError, KeyError, ValueError) as error:
            raise InputError(
                f"{self._weights_path} does not hold the best weights of this model ({error}). Remove the folder of "
                "the run and train again."
            ) from None
        if is_chief():
            write_json(self._folder.file(BEST_FILE), {"main_score": self._main_score, **self.best})
        return self.best["step"]


def finished_model(folder: RunFolder, model_class: type) -> Any:
    """Returns the model of a finished run."""
    print(f"{folder.path}: the training is finished")
    remove_best_weights(folder)  # in case a kill prevented it
    return model_class.from_pretrained(folder.model_path)


def save_trained(trained: Any, model: Any, folder: RunFolder, best: BestModel | None) -> None:
    """Gives a model, which is `trained` or its student, the best, averaged or last weights of a run, and saves it."""
    if best:
        best.restore()
    else:
        take_averages(trained)
    folder.save_model(model)
    remove_best_weights(folder)


def remove_best_weights(folder: RunFolder) -> None:
    """Removes the file of the best weights, after the model folder is written."""
    path = folder.file(_WEIGHTS_FILE)
    if is_chief() and os.path.exists(path):
        os.remove(path)
