"""Evaluating while training: the best weights are kept, and training ends when nothing gets better."""

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from keras_bert.program.atomic_output import atomic_file, say_why_writing_failed
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import member, read_json_object
from keras_bert.training.callbacks import StepCallback, read_history
from keras_bert.training.run_folder import RunFolder, read_arrays, write_arrays
from keras_bert.training.strategies import is_chief, of_chief

_EVALUATIONS_FILE = "evaluations.jsonl"
_WEIGHTS_FILE = "best_weights.npz"
_BEST_FILE = "best.json"


class BestModel(StepCallback):
    """Evaluates a model every so many updates and after the last, and keeps the best weights.

        evaluations.jsonl   a line per evaluation: the step and the scores
        best_weights.npz    the weights of the best one, until the model folder is written
        best.json           the line of the best one, when training is done

    They survive a kill: a run that goes on has its best score so far. Lines of steps after the checkpoint that it goes
    on from are removed, because those evaluations come again. Where several processes train, all call this and one
    writes.

    Args:
        folder: that of the run.
        start_step, num_train_steps: as for `StepCallback`.
        model: the model whose weights are kept; the one that is trained, or a part of it.
        evaluate: returns the scores of the model as it is; with several processes, the same in all.
        main_score: the name of the score that decides; the first of equals is kept.
        less_is_better: whether it is a loss.
        evaluate_steps: updates between two evaluations.
        patience: training ends after so many evaluations without a better one; 0 never ends it.
        with_weights: returns a context in which the model has the weights that are evaluated and kept; by default those
            that are trained on.

    Raises:
        InputError: `evaluate_steps` is below 1 or `patience` below 0.
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
                f"Evaluations need a distance of 1 or more updates and a patience of 0 or more. Received: "
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
        self.evaluations = of_chief(self._evaluations_so_far)

    def _evaluations_so_far(self) -> list[dict]:
        lines = [line for line in read_history(self._path) if line["step"] <= self.step]
        with atomic_file(self._path) as file:
            file.writelines((json.dumps(line) + "\n").encode("utf-8") for line in lines)
        return lines

    @property
    def best(self) -> dict | None:
        """The line of the best evaluation so far, None before the first. Any score is better than none."""
        sign = -1 if self._less_is_better else 1
        return max(self.evaluations, key=lambda line: sign * line.get(self._main_score, -sign * math.inf), default=None)

    @property
    def is_exhausted(self) -> bool:
        """Whether there were so many evaluations without a better one that training ends."""
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
            raise InputError(f"There is no score {self._main_score!r}. The scores are: {', '.join(scores)}")
        # JSON has no NaN: scores that are undefined are left out.
        found = {name: float(value) for name, value in scores.items() if math.isfinite(value)}
        line = {"step": self.step, **found}
        self.evaluations.append(line)
        is_best = self.best is line
        if not is_chief():
            return
        if is_best:
            # Before the line: a kill between the two costs an evaluation, not the weights.
            with atomic_file(self._weights_path) as file:
                write_arrays(file, _weights_of(self._kept_model))
        with say_why_writing_failed(self._path), open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(
            f"step {self.step:,}: {self._main_score} {scores[self._main_score]:.4f}"
            + (", the best so far" if is_best else f"; the best is that of step {self.best['step']:,}"),
            file=sys.stderr,
        )

    def restore(self) -> int:
        """Gives the model the best weights, writes `best.json` and returns the step that they are of.

        Raises:
            InputError: the file is missing or of another model.
        """
        try:
            arrays = read_arrays(self._weights_path)
            for name, weight in enumerate(self._kept_model.weights):
                weight.assign(arrays[str(name)])
        except (OSError, EOFError, KeyError, ValueError) as error:
            raise InputError(f"{self._weights_path} does not hold the best weights ({error}). Train anew.") from None
        if is_chief():
            self._write_best()
        return self.best["step"]

    def _write_best(self) -> None:
        with atomic_file(self._best_path) as file:
            file.write((json.dumps({"main_score": self._main_score, **self.best}) + "\n").encode())


def forget_best_weights(folder: RunFolder) -> None:
    """Removes the file of the best weights, when the model folder has them."""
    path = folder.file(_WEIGHTS_FILE)
    if is_chief() and os.path.exists(path):
        os.remove(path)


def kept_step(folder: RunFolder) -> int | None:
    """Returns the step whose weights a finished run has kept, None when it did not evaluate while training."""
    path = folder.file(_BEST_FILE)
    if not os.path.isfile(path):
        return None
    return member(read_json_object(path), "step", int, path)


def _weights_of(model) -> dict:
    return {str(number): weight.value.numpy() for number, weight in enumerate(model.weights)}
