"""The folder of a training run: its settings, checkpoints and results."""

import contextlib
import functools
import json
import os
import re
import reprlib
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
    explain_write_errors,
    replacement_folder,
)
from keras_bert.program.errors import InputError
from keras_bert.program.folder_lock import only_writer
from keras_bert.program.json_files import read_json_object, write_json
from keras_bert.program.printing import recordable
from keras_bert.training.run_card import write_training_section
from keras_bert.training.run_options import KEEP_CHECKPOINT_MAX
from keras_bert.training.strategies import (
    any_worker,
    call_in_chief,
    check_workers_agree,
    is_chief,
    wait_for_all,
)
from keras_bert.training.tensorboard_log import add_results

SETTINGS_FILE = "run.json"
_FORMAT = 1  # of the folder, in `run.json`; a folder of another number is refused
_LOCK_FILE = ".lock"
EVALUATIONS_FILE = "evaluations.jsonl"
EXTENDED_TO = "extended_to"  # the setting that may grow: the later ends of a run that is extended
_CHECKPOINTS = "checkpoints"
_CHECKPOINT = re.compile(r"step-(\d+)")
# NumPy's file format cannot name the dtypes of ml_dtypes. Such arrays are stored as unsigned integers of the same size,
# and the name of the dtype in an additional entry with this name.
_TYPE_ENTRY = "{}.dtype"
_BUILT_INTO_NUMPY = 1


class RunFolder:
    """Reads and writes the `output_dir` of a training run.

        run.json              the settings that started the run, and the number of this format
        facts.json            the command and the sizes of the data, for the model card
        checkpoints/step-N/   weights, optimiser, step, random state, metrics: a resumed run continues from here
        history.jsonl         one line per logged step
        evaluations.jsonl     one line per evaluation while training; learning_curves.png shows both files
        record_index.npz      pre-training: the number of records in each file, and where they begin
        batch_of_step_N.npz   the batch of a loss that was not a number
        model/                the model folder, when training is done
        eval_results.txt      Google's form: `key = value`, sorted

    Args:
        path: the folder. If it is missing or empty, a new run starts. If it has a `run.json` with the same settings,
            that run is continued.
        settings: the JSON values that must not change when the run is resumed. None if nothing is trained: then the
            folder may hold any run, or the results of other evaluations.
        keep_checkpoint_max: the number of newest checkpoints to keep; 0 for all.

    Attributes:
        path: the absolute path.
        settings: as given, in the form of JSON and without secrets of URLs, which may differ in a resumed run.

    Raises:
        InputError: the folder holds something else or a run with other settings, or cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        settings: Mapping | None = None,
        keep_checkpoint_max: int = KEEP_CHECKPOINT_MAX,
    ):
        self.settings = settings = settings and recordable(json.loads(json.dumps(settings)))
        if settings is not None:
            check_workers_agree(settings)
        self._keep_checkpoint_max = keep_checkpoint_max
        self._newest_step = None  # among the checkpoints that this process has read or written
        self.path = os.path.abspath(os.fspath(path))
        # Only one worker does this, because others would see half-written files.
        if settings is None or is_chief():
            self._check_and_write(settings)
        if settings is not None:
            wait_for_all()

    def _check_and_write(self, settings: Mapping | None) -> None:
        settings_path = os.path.join(self.path, SETTINGS_FILE)
        if not os.path.isfile(settings_path):
            if settings is not None or not os.path.isdir(self.path):
                self._check_is_free()
        elif settings is not None:
            try:
                old = read_json_object(settings_path)
            except InputError as error:
                raise InputError(f"{str(error).rstrip('.')}. Remove the folder or give another output_dir.") from None
            _check_same_settings(self.path, recordable(old), {"format": _FORMAT, **settings})
        if settings is not None:
            write_json(settings_path, {"format": _FORMAT, **settings})

    @property
    def model_path(self) -> str:
        """The model folder of the trained model."""
        return os.path.join(self.path, "model")

    def file(self, name: str) -> str:
        """Returns the path of a file in this folder."""
        return os.path.join(self.path, name)

    def latest_step(self) -> int:
        """Returns the step of the newest checkpoint, or 0 if there is none."""
        return max(self._steps(), default=0)

    def save_checkpoint(self, model, step: int, is_unchanged: Callable[[], bool] = lambda: True) -> bool:
        """Writes a checkpoint, from which training can continue after `step` updates. Then removes old checkpoints.

        Args:
            is_unchanged: called after the weights are read. If it returns False, nothing is written.

        Returns:
            Whether there is a checkpoint of this step now.

        Raises:
            InputError, OSError: the checkpoint cannot be written. Only the worker that writes raises it.
        """
        # The disk is not asked, because workers must agree, and one may look while another writes.
        if step == self._newest_step:
            return True
        # All workers read the values, since this adds up the metrics of all. One worker writes them.
        try:
            arrays = _values(model)
        except RuntimeError:  # JAX: the next step has deleted arrays
            if is_unchanged():
                raise
            return False
        if not is_unchanged():
            return False
        failure = None
        if is_chief():
            try:
                self._write_checkpoint(arrays, step)
            except (InputError, OSError) as error:
                failure = error
        if not any_worker(failure is not None):  # all workers must agree on the step of the newest checkpoint
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
        """Loads the newest checkpoint into a compiled model and returns its step, or 0 if there is none.

        A damaged checkpoint is reported on standard error and renamed, and the one before it is loaded. The partial
        files of killed runs are removed.

        Raises:
            InputError: all checkpoints are damaged, or the newest undamaged one belongs to another model.
        """
        for name in self._checkpoint_names():
            if name.startswith(".") and PARTIAL in name:
                shutil.rmtree(os.path.join(self.path, _CHECKPOINTS, name), ignore_errors=True)
        for step in sorted(self._steps(), reverse=True):
            path = self._checkpoint_path(step)
            try:
                arrays = read_arrays(os.path.join(path, "state.npz"))
            except Exception as error:  # zipfile and NumPy raise many kinds for damaged files
                self._set_aside(step, error)
                continue
            _assign(_state(model), arrays, path)
            self._newest_step = step
            break
        check_workers_agree({"path of the run": self.path, "step of its newest checkpoint": self._newest_step or 0})
        return self._newest_step or 0

    def save_model(self, model) -> None:
        """Writes the model folder, unless it exists. If several workers train, all call this and one writes."""
        exists = os.path.isdir(self.model_path)
        if any_worker(not exists):
            # All workers save the model, because some values can only be read by all together. One keeps the result.
            with contextlib.nullcontext() if is_chief() else tempfile.TemporaryDirectory() as elsewhere:
                model.save_pretrained(os.path.join(elsewhere, "model") if elsewhere else self.model_path)
        if is_chief():
            self._complete_card()
        wait_for_all()

    def replace_model(self, model) -> None:
        """Writes the model folder, in place of the one that may exist."""
        with (replacement_folder if os.path.isdir(self.model_path) else atomic_folder)(self.model_path) as new:
            model.save_pretrained(new)
        self._complete_card()

    def _complete_card(self) -> None:
        scores = self.read_results("test_results.txt") | self.read_results()
        write_training_section(self.path, self.model_path, scores)

    def write_results(self, results: Mapping[str, object], name: str = "eval_results.txt") -> str:
        """Writes sorted lines `key = value`, as Google's scripts do, and returns the text. TensorBoard gets them."""
        text = "".join(f"{key} = {results[key]}\n" for key in sorted(results))
        if is_chief():
            with atomic_file(self.file(name)) as file:
                file.write(text.encode("utf-8"))
            add_results(self.path, self.read_results(name), self.latest_step())
            self._complete_card()
        return text

    def read_results(self, name: str = "eval_results.txt") -> dict[str, float]:
        """Returns the numbers in a file of `write_results`, or an empty dict if there is no file."""
        if not os.path.isfile(self.file(name)):
            return {}
        numbers = {}
        with open(self.file(name), encoding="utf-8") as file:
            for line in file:
                key, value = line.rstrip("\n").split(" = ", 1)
                with contextlib.suppress(ValueError):  # a text, such as n/a
                    numbers[key] = float(value)
        return numbers

    def _check_is_free(self):
        if not os.path.isdir(self.path):
            check_output_folder(self.path)
        elif set(os.listdir(self.path)) - {_LOCK_FILE}:
            raise InputError(
                f"The output folder {self.path} is not empty and holds no run to continue (it has no "
                f"{SETTINGS_FILE}). Remove it or give another name."
            )

    def _set_aside(self, step: int, error: Exception) -> None:
        """Reports a damaged checkpoint and renames it, so that another one can be written for its step."""
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
            f"The checkpoint {path} is damaged ({error}). It is now called {os.path.basename(path)}.damaged. Training "
            "goes on from the one before it.",
            file=sys.stderr,
        )

    def _checkpoint_path(self, step: int) -> str:
        return os.path.join(self.path, _CHECKPOINTS, f"step-{step:08d}")

    def _checkpoint_names(self) -> list[str]:
        folder = os.path.join(self.path, _CHECKPOINTS)
        return os.listdir(folder) if os.path.isdir(folder) else []

    def _steps(self) -> list[int]:
        return [int(match[1]) for match in map(_CHECKPOINT.fullmatch, self._checkpoint_names()) if match]


def exclusive_training(train: Callable) -> Callable:
    """Returns a function like `train(output_dir, ...)` that refuses to run while another process trains in the folder.

    The system releases the lock when the process ends, however it ends, so a killed run can be continued at once. If
    several workers train, the first one holds the lock for all. The folder is created if needed, and removed if it
    stays empty.

    Raises:
        InputError: (from the returned function, in all workers) another process trains in the folder, or it cannot be
            written.
    """

    @functools.wraps(train)
    def train_exclusively(output_dir, *arguments, **named):
        with contextlib.ExitStack() as stack:
            call_in_chief(lambda: _lock(os.path.abspath(os.fspath(output_dir)), stack))
            return train(output_dir, *arguments, **named)

    return train_exclusively


def _lock(path: str, stack: contextlib.ExitStack) -> None:
    """Locks a folder until the stack is closed."""
    if not os.path.isdir(path):
        check_output_folder(path)
    stack.callback(_remove_if_empty, path)
    with explain_write_errors(path):
        os.makedirs(path, exist_ok=True)
        stack.enter_context(only_writer(os.path.join(path, _LOCK_FILE)))


def _remove_if_empty(path: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(path)


def write_arrays(file: str | os.PathLike | IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    """Writes an `.npz` file of arrays of any dtype that variables can have, including bfloat16 and float8.

    Arrays with NumPy's own dtypes are stored as by `numpy.savez`.
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
    """Returns the arrays that `write_arrays`, or `numpy.savez`, has written.

    Raises:
        Exception: the file is missing or damaged. zipfile and NumPy raise many kinds of exceptions.
    """
    with open(path, "rb") as file, np.load(file) as saved:
        if any(member.compress_type for member in saved.zip.infolist()):
            raise ValueError("it is compressed, which numpy.savez never does")  # and could expand without bounds
        entries = {name: saved[name] for name in saved.files}
    types = {name: entries.pop(entry) for name in list(entries) if (entry := _TYPE_ENTRY.format(name)) in entries}
    return entries | {name: entries[name].view(numpy_dtype(str(dtype))) for name, dtype in types.items()}


def _state(model) -> dict:
    """Returns name -> variable for weights, random states, optimiser and metrics, in a fixed order."""
    from keras_bert.training.gradient_norm import is_gradient_norm  # only now: predictions of exports do without Keras

    if not model.optimizer.built:  # otherwise Keras' LossScaleOptimizer would make its variables twice
        model.optimizer.build(model.trainable_variables)
    of_optimizer = [variable for variable in model.optimizer.variables if not is_gradient_norm(variable)]
    variables = {"model": model.variables, "optimizer": of_optimizer, "metrics": model.metrics_variables}
    if (between_batches := getattr(model, "between_batches", None)) is not None:
        variables["memory"] = between_batches.variables
    # Named by number, because Keras' paths depend on the models that the process has made before.
    return {
        f"{owner}/{number:05d}": variable
        for owner, members in variables.items()
        for number, variable in enumerate(members)
    }


def _values(model) -> dict[str, np.ndarray]:
    """Returns copies of the values of `_state`, also while `fit` holds them on JAX."""
    from keras_bert.accelerate.backend import numpy_of  # only now, as above

    state, held = _state(model), getattr(model, "held_values", dict)()
    return {
        name: np.array(held[id(variable)]) if id(variable) in held else numpy_of(variable)
        for name, variable in state.items()
    }


def _assign(state: Mapping, arrays: Mapping[str, np.ndarray], path: str) -> None:
    for name, variable in state.items():
        if name not in arrays or arrays[name].shape != tuple(variable.shape):
            raise InputError(
                f"The checkpoint {path} belongs to another model: it has no {variable.path} of shape "
                f"{tuple(variable.shape)}. Train the same model, or give another output_dir."
            )
    for name, variable in state.items():
        variable.assign(arrays[name])


def _check_same_settings(path: str, old: dict, new: dict) -> None:
    if old.get("format") != new["format"]:
        raise InputError(
            f"The output folder {path} holds a run of the format {reprlib.repr(old.get('format'))}, and this version "
            f"of keras_bert goes on with {new['format']}. Give another output_dir to start anew."
        )
    differences = [
        f"{name} was {old.get(name)!r} and is now {new.get(name)!r}"
        for name in sorted((set(old) | set(new)) - {EXTENDED_TO})
        if old.get(name) != new.get(name)
    ]
    if differences:
        is_longer = new.get("run") == "pretraining" and old.get("num_train_steps") != new.get("num_train_steps")
        raise InputError(
            f"The output folder {path} holds a run with other settings: {'; '.join(differences)}. Give the same "
            "settings to go on with it, another output_dir to start anew, or its model folder as init_checkpoint to "
            "train on from it." + (" A finished run is made longer by --extend_to." if is_longer else "")
        )
