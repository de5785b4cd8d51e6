"""The folder of one training run: what started it, how far it got, what came of it."""

import contextlib
import functools
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import IO

import numpy as np

from keras_bert.checkpoints.checkpoint import numpy_dtype
from keras_bert.program.atomic_output import (
    PARTIAL,
    atomic_file,
    atomic_folder,
    check_output_folder,
    say_why_writing_failed,
)
from keras_bert.program.errors import InputError
from keras_bert.program.folder_lock import only_writer
from keras_bert.program.json_files import read_json_object
from keras_bert.training.strategies import (
    check_workers_agree,
    is_any,
    is_chief,
    of_chief,
    wait_for_all,
    worker_suffix,
)

_SETTINGS_FILE = "run.json"
_LOCK_FILE = ".lock"
_CHECKPOINT = re.compile(r"step-(\d+)")
# The newest, and one more in case the disk failed under the newest.
KEEP_CHECKPOINT_MAX = 2
# NumPy's format has no names for the types of ml_dtypes. Their bytes are stored as whole numbers of that size, and the
# name of the type in an entry beside them.
_TYPE_ENTRY = "{}.dtype"
_BUILT_INTO_NUMPY = 1


class RunFolder:
    """Reads and writes the `output_dir` of a training run.

        run.json              the settings that started the run
        checkpoints/step-N/   weights, optimiser, step, random state, metrics: the same command goes on from here
        history.jsonl         one line per logged step
        record_index.npz      pre-training: the number of records in each file, and where they begin
        batch_of_step_N.npz   the batch of a loss that was not a number
        model/                the model folder, when training is done
        eval_results.txt      Google's form: `key = value`, sorted

    Args:
        path: the folder. Missing or empty, a new run starts in it; with a `run.json` that has the same settings, the
            run in it goes on.
        settings: what must stay the same for the run to be the same run; JSON values. `None` when nothing is trained:
            any run, or the results of other evaluations, may be there.
        keep_checkpoint_max: how many checkpoints are kept, the newest; 0: all.

    Raises:
        InputError: the folder holds something else, or a run with other settings, or cannot be written to; or
            `keep_checkpoint_max` is below 0.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        settings: Mapping | None = None,
        keep_checkpoint_max: int = KEEP_CHECKPOINT_MAX,
    ):
        if keep_checkpoint_max < 0:
            raise InputError(f"keep_checkpoint_max must be 0 (all) or more. Received: {keep_checkpoint_max}")
        if settings is not None:
            check_workers_agree(_as_json(settings))
        self._keep_checkpoint_max = keep_checkpoint_max
        self._newest_step = None  # of the checkpoints that this process has read or written
        self.path = os.path.abspath(os.fspath(path))
        # By one worker alone: another would see what this one has half-written.
        if settings is None or is_chief():
            self._check_and_write(settings)
        if settings is not None:
            wait_for_all()

    def _check_and_write(self, settings: Mapping | None) -> None:
        settings_path = os.path.join(self.path, _SETTINGS_FILE)
        if not os.path.isfile(settings_path):
            if settings is not None or not os.path.isdir(self.path):
                self._check_is_free()
        elif settings is not None:
            _check_same_settings(self.path, _read_settings(settings_path), _as_json(settings))
        if settings is not None:
            with atomic_file(settings_path) as file:
                file.write((json.dumps(_as_json(settings), indent=2) + "\n").encode("utf-8"))

    @property
    def model_path(self) -> str:
        return os.path.join(self.path, "model")

    @property
    def history_path(self) -> str:
        return os.path.join(self.path, f"history{worker_suffix()}.jsonl")

    @property
    def tensorboard_path(self) -> str:
        return os.path.join(self.path, "tensorboard")

    def file(self, name: str) -> str:
        """Returns the path of a file in this folder."""
        return os.path.join(self.path, name)

    def latest_step(self) -> int:
        """Returns the step of the newest checkpoint, 0 when there is none."""
        return max(self._steps(), default=0)

    def save_checkpoint(self, model, step: int, is_still_so: Callable[[], bool] = lambda: True) -> bool:
        """Writes all that training needs to go on after `step` updates; old checkpoints are removed afterwards.

        Args:
            is_still_so: asked when all is read from the model; where it says no, nothing is written.

        Returns:
            Whether there is a checkpoint of this step now.

        Raises:
            InputError, OSError: it cannot be written; only the worker that writes says so.
        """
        # Not what the disk holds: workers must agree, and one may look while another writes.
        if step == self._newest_step:
            return True
        # Read by all workers, which add up what each has counted, and written by one.
        arrays = {name: variable.value.numpy() for name, variable in _state(model).items()}
        if not is_still_so():
            return False
        failure = None
        if is_chief():
            try:
                self._write_checkpoint(arrays, step)
            except (InputError, OSError) as error:
                failure = error
        if not is_any(failure is not None):  # or workers would not agree on what is saved when they are asked again
            self._newest_step = step
        if failure is not None:
            raise failure
        return True

    def _write_checkpoint(self, arrays: Mapping[str, np.ndarray], step: int) -> None:
        with atomic_folder(self._checkpoint_path(step)) as folder:
            write_arrays(os.path.join(folder, "state.npz"), arrays)
        if self._keep_checkpoint_max:
            for old_step in sorted(self._steps())[: -self._keep_checkpoint_max]:
                shutil.rmtree(self._checkpoint_path(old_step), ignore_errors=True)

    def restore_checkpoint(self, model) -> int:
        """Loads the newest checkpoint into a compiled model and returns its step; 0 when there is none.

        One that is damaged is said on standard error and set aside, and the one before it is loaded. What killed runs
        have left half-written is removed.

        Raises:
            InputError: all checkpoints are damaged, or the newest that is not was written by another model.
        """
        folder = os.path.dirname(self._checkpoint_path(0))
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            if name.startswith(".") and PARTIAL in name:
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        for step in sorted(self._steps(), reverse=True):
            path = self._checkpoint_path(step)
            try:
                arrays = read_arrays(os.path.join(path, "state.npz"))
            except Exception as error:  # zipfile and NumPy have many for what they cannot read
                self._set_aside(step, error)
                continue
            _assign(_state(model), arrays, path)
            self._newest_step = step
            break
        check_workers_agree({"path of the run": self.path, "step of its newest checkpoint": self._newest_step or 0})
        return self._newest_step or 0

    def save_model(self, model) -> None:
        """Writes the model folder, unless it is there. Where several workers train, all call this and one writes."""
        is_there = os.path.isdir(self.model_path)
        if is_any(not is_there):
            # All go through the motions: what workers count together can only be read together.
            with contextlib.nullcontext() if is_chief() else tempfile.TemporaryDirectory() as elsewhere:
                model.save_pretrained(os.path.join(elsewhere, "model") if elsewhere else self.model_path)
        wait_for_all()

    def write_results(self, results: Mapping[str, object], name: str = "eval_results.txt") -> str:
        """Writes `key = value` lines, sorted, as Google's scripts do, and returns the text."""
        text = "".join(f"{key} = {results[key]}\n" for key in sorted(results))
        if is_chief():
            with atomic_file(self.file(name)) as file:
                file.write(text.encode("utf-8"))
        return text

    def read_results(self, name: str = "eval_results.txt") -> dict[str, float]:
        """Returns the numbers that `write_results` has written; none when there is no such file."""
        if not os.path.isfile(self.file(name)):
            return {}
        with open(self.file(name), encoding="utf-8") as file:
            found = dict(line.rstrip("\n").split(" = ", 1) for line in file)
        return {key: float(value) for key, value in found.items() if _is_number(value)}

    def _check_is_free(self):
        if not os.path.isdir(self.path):
            check_output_folder(self.path)
        elif set(os.listdir(self.path)) - {_LOCK_FILE}:
            raise InputError(
                f"The output folder {self.path} is not empty and holds no run that could go on (it has no "
                f"{_SETTINGS_FILE}). Remove it or give another name."
            )

    def _set_aside(self, step: int, error: Exception) -> None:
        """Says that a checkpoint is damaged and renames it, so that the one of its step can be written again."""
        path = self._checkpoint_path(step)
        if min(self._steps()) == step:
            raise InputError(
                f"The checkpoint {path} is damaged ({error}), and there is none before it. Remove it to start anew."
            ) from None
        if not is_chief():
            return
        shutil.rmtree(f"{path}.damaged", ignore_errors=True)
        os.rename(path, f"{path}.damaged")
        print(
            f"The checkpoint {path} is damaged ({error}); it is called {os.path.basename(path)}.damaged now. Going on "
            "from the one before it.",
            file=sys.stderr,
        )

    def _checkpoint_path(self, step: int) -> str:
        return os.path.join(self.path, "checkpoints", f"step-{step:08d}")

    def _steps(self) -> list[int]:
        folder = os.path.join(self.path, "checkpoints")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return [int(match[1]) for match in map(_CHECKPOINT.fullmatch, names) if match]


def training_alone(train: Callable) -> Callable:
    """Returns `train(output_dir, ...)`, which is refused while another process trains in that folder.

    The system releases the lock when the process ends in any way, so a killed run can go on at once. Where several
    workers train, the first one holds the lock for all. The folder is made, and removed if nothing came into it.

    Raises:
        InputError: from the returned function: another process trains there, or the folder cannot be written to; all
            workers raise it.
    """

    @functools.wraps(train)
    def train_alone(output_dir, *arguments, **named):
        with contextlib.ExitStack() as stack:
            of_chief(lambda: _lock(os.path.abspath(os.fspath(output_dir)), stack))
            return train(output_dir, *arguments, **named)

    return train_alone


def _lock(path: str, stack: contextlib.ExitStack) -> None:
    """Locks a folder until the stack is closed."""
    if not os.path.isdir(path):
        check_output_folder(path)
    stack.callback(_remove_if_empty, path)
    with say_why_writing_failed(path):
        os.makedirs(path, exist_ok=True)
        stack.enter_context(only_writer(os.path.join(path, _LOCK_FILE)))


def _remove_if_empty(path: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(path)


def write_arrays(file: str | os.PathLike | IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    """Writes an `.npz` file of arrays of any type that variables have, bfloat16 and float8 among them.

    Arrays of NumPy's own types are stored as `numpy.savez` stores them.
    """
    entries = {}
    for name, array in arrays.items():
        array = np.asarray(array)
        if array.dtype.isbuiltin != _BUILT_INTO_NUMPY:
            entries[_TYPE_ENTRY.format(name)] = np.array(array.dtype.name)
            array = array.view(f"u{array.dtype.itemsize}")
        entries[name] = array
    np.savez(file, **entries)


def read_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Returns what `write_arrays` has written, or `numpy.savez`.

    Raises:
        Exception: zipfile and NumPy have many for what they cannot read.
    """
    with open(path, "rb") as file, np.load(file) as saved:
        entries = {name: saved[name] for name in saved.files}
    types = {name: entries.pop(entry) for name in list(entries) if (entry := _TYPE_ENTRY.format(name)) in entries}
    return {name: _typed(array, types.get(name)) for name, array in entries.items()}


def _typed(array: np.ndarray, name: np.ndarray | None) -> np.ndarray:
    if name is not None:
        return array.view(numpy_dtype(str(name)))
    # Files of before had the bytes of bfloat16 alone, the only type of two bytes that NumPy does not name.
    return array.view(numpy_dtype("bfloat16")) if array.dtype == np.dtype("V2") else array


def _state(model) -> dict:
    """Returns name -> variable for weights, random states, optimiser and metrics, always in the same order."""
    if not model.optimizer.built:  # Keras' LossScaleOptimizer would make its variables a second time
        model.optimizer.build(model.trainable_variables)
    variables = {"model": model.variables, "optimizer": model.optimizer.variables, "metrics": model.metrics_variables}
    # By number, not by path: Keras puts into names how many models and dropouts the process has made before.
    return {
        f"{owner}/{number:05d}": variable
        for owner, members in variables.items()
        for number, variable in enumerate(members)
    }


def _assign(state: Mapping, arrays: Mapping[str, np.ndarray], path: str) -> None:
    for name, variable in state.items():
        if name not in arrays or arrays[name].shape != tuple(variable.shape):
            raise InputError(
                f"The checkpoint {path} belongs to another model: it has no {variable.path} of shape "
                f"{tuple(variable.shape)}."
            )
    for name, variable in state.items():
        variable.assign(arrays[name])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_json(settings: Mapping) -> dict:
    return json.loads(json.dumps(settings))


def _read_settings(path: str) -> dict:
    try:
        return read_json_object(path)
    except InputError as error:
        raise InputError(f"{str(error).rstrip('.')}. Remove the folder or give another output_dir.") from None


def _check_same_settings(path: str, old: dict, new: dict) -> None:
    differences = [
        f"{name} was {old.get(name)!r} and is now {new.get(name)!r}"
        for name in sorted(set(old) | set(new))
        if old.get(name) != new.get(name)
    ]
    if differences:
        raise InputError(
            f"The output folder {path} holds a run with other settings: {'; '.join(differences)}. Give the same "
            "settings to go on with it, another output_dir to start anew, or its model folder as init_checkpoint to "
            "train on from it."
        )
