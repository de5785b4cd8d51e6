"""Evaluates while training, keeps the best weights, and stops when the score no longer improves."""

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from keras_bert.program.atomic_output import atomic_file, explain_write_errors
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import member, read_json_object
from keras_bert.training.callbacks import StepCallback, read_history
from keras_bert.training.run_folder import RunFolder, read_arrays, write_arrays
from keras_bert.training.strategies import call_in_chief, is_chief

_EVALUATIONS_FILE = "evaluations.jsonl"
_WEIGHTS_FILE = "best_weights.npz"
_BEST_FILE = "best.json"


class BestModel(StepCallback):
    """Evaluates a model at regular intervals and after the last update, and keeps the best weights.

        evaluations.jsonl   one line per evaluation: the step and the scores
        best_weights.npz    the weights of the best evaluation, until the model folder is written
        best.json           the line of the best evaluation, when training is done

    The files survive a kill, so a resumed run knows its best score. Lines of steps after its checkpoint are removed,
    because these evaluations are repeated. If several processes train, all call this and one writes.

    Args:
        folder: the folder of the run.
        start_step, num_train_steps: as in `StepCallback`.
        model: the model whose weights are kept; the trained one or a part of it.
        evaluate: returns the scores of the model with its current weights; equal in all processes.
        main_score: name of the score that is compared. The first of equal scores is kept.
        less_is_better: whether a lower score is better, as for a loss.
        evaluate_steps: number of updates between two evaluations.
        patience: training ends after this many evaluations without a better score; 0 for never.
        with_weights: returns a context in which the model has the weights to evaluate and keep; by default its current
            ones.

    Raises:
        InputError: `evaluate_steps` is below 1, or `patience` is below 0.
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
        evaluate_steps: int,
        patience: int = 0,
        with_weights: Callable[[], AbstractContextManager] = contextlib.nullcontext,
    ):
        super().__init__(start_step, num_train_steps)
        if evaluate_steps < 1 or patience < 0:
            raise InputError(
                "The updates between evaluations must be 1 or more, and the patience 0 or more. Received: "
                f"{evaluate_steps} and {patience}"
            )
        self._kept_model = model
        self._evaluate = evaluate
        self._main_score = main_score
        self._less_is_better = less_is_better
        self._evaluate_steps = evaluate_steps
        self._patience = patience
        self._with_weights = with_weights
        self._path = folder.file(_EVALUATIONS_FILE)
        self._best_path = folder.file(_BEST_FILE)
        self._weights_path = folder.file(_WEIGHTS_FILE)
        self.evaluations = call_in_chief(self._earlier_evaluations)

    def _earlier_evaluations(self) -> list[dict]:
        lines = [line for line in read_history(self._path) if line["step"] <= self.step]
        with atomic_file(self._path) as file:
            file.writelines((json.dumps(line) + "\n").encode("utf-8") for line in lines)
        return lines

    @property
    def best(self) -> dict | None:
        """The line of the best evaluation so far, or None before the first. An undefined score is the worst."""
        sign = -1 if self._less_is_better else 1
        return max(self.evaluations, key=lambda line: sign * line.get(self._main_score, -sign * math.inf), default=None)

    @property
    def is_exhausted(self) -> bool:
        """Whether there were `patience` evaluations without a better score, so that training ends."""
        if not self._patience or not self.evaluations:
            return False
        return len(self.evaluations) - 1 - self.evaluations.index(self.best) >= self._patience

    def on_steps(self, previous, logs):
        if not self._is_due(previous, self._evaluate_steps):
            return
        with self._with_weights():
            self._evaluate_and_keep()
        if self.is_exhausted and self.step < self._num_train_steps:
            print(f"No better {self._main_score} in {self._patience} evaluations: training ends.", file=sys.stderr)
            self.model.stop_training = True

    def _evaluate_and_keep(self):
        scores = self._evaluate()
        if self._main_score not in scores:
            raise InputError(f"There is no score {self._main_score!r}. Use one of: {', '.join(scores)}.")
        # Undefined scores are left out, because JSON has no NaN.
        finite = {name: float(value) for name, value in scores.items() if math.isfinite(value)}
        line = {"step": self.step, **finite}
        self.evaluations.append(line)
        is_best = self.best is line
        if not is_chief():
            return
        if is_best:
            # Weights are written before the line, so a kill in between loses an evaluation, not the weights.
            with atomic_file(self._weights_path) as file:
                write_arrays(file, _weights_of(self._kept_model))
        with explain_write_errors(self._path), open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(
            f"step {self.step:,}: {self._main_score} {scores[self._main_score]:.4f}"
            + (", the best so far" if is_best else f"; the best is that of step {self.best['step']:,}"),
            file=sys.stderr,
        )

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
            self._write_best()
        return self.best["step"]

    def _write_best(self) -> None:
        with atomic_file(self._best_path) as file:
            file.write((json.dumps({"main_score": self._main_score, **self.best}) + "\n").encode())


def remove_best_weights(folder: RunFolder) -> None:
    """Removes the file of the best weights, after the model folder is written."""
    path = folder.file(_WEIGHTS_FILE)
    if is_chief() and os.path.exists(path):
        os.remove(path)


def best_step(folder: RunFolder) -> int | None:
    """Returns the step of the best weights of a finished run, or None if it did not evaluate while training."""
    path = folder.file(_BEST_FILE)
    if not os.path.isfile(path):
        return None
    return member(read_json_object(path), "step", int, path)


def _weights_of(model) -> dict:
    return {str(number): weight.value.numpy() for number, weight in enumerate(model.weights)}
