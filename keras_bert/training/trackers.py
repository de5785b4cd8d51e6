"""Sends the lines of a run's log to experiment trackers, each through its own package."""

import abc
import importlib
import os
import secrets
import sys
from collections.abc import Mapping, Sequence

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError

_PROJECT = "keras_bert"


class Tracker(abc.ABC):
    """A place that shows the metrics of a run.

    Args:
        folder: the folder of the run. A resumed run continues in the tracker what it began there.
        settings: the settings of the run, for the tracker to show.

    Raises:
        InputError: the tracker's package is not installed.
    """

    # The module to import, and what to install for it.
    module: str
    package: str

    def __init__(self, folder: str, settings: Mapping | None = None):
        try:
            self._module = importlib.import_module(self.module)
        except ImportError as error:
            raise InputError(
                f"--track={self.name()} needs the package {self.package}, which is not installed. Install it (pip "
                f"install {self.package}) or leave it out: history.jsonl has the same numbers."
            ) from error
        self._folder = folder
        self.start(dict(settings or {}))

    @classmethod
    def name(cls) -> str:
        """Returns the name for `--track`."""
        return next(name for name, kind in TRACKERS.items() if kind is cls)

    @abc.abstractmethod
    def start(self, settings: dict) -> None:
        """Opens the run in the tracker."""

    @abc.abstractmethod
    def write(self, values: Mapping[str, float], step: int) -> None:
        """Sends the metrics of a step."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends the run in the tracker."""

    @property
    def _run_name(self) -> str:
        return os.path.basename(os.path.abspath(self._folder))

    def _stored_id(self, new: str | None = None) -> str | None:
        """Returns the id of the run in this tracker, from a file in the folder; `new` is stored if there is none."""
        path = os.path.join(self._folder, f"{self.name()}_run.txt")
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                return file.read(200).strip()
        if new is not None:
            with atomic_file(path) as file:
                file.write(f"{new}\n".encode())
        return new


class _TensorBoard(Tracker):
    """Files for TensorBoard, in the folder `tensorboard` of the run."""

    module, package = "tensorboard", "tensorboard"

    def start(self, settings):
        import tensorflow as tf

        self._summary = tf.summary
        self._writer = tf.summary.create_file_writer(os.path.join(self._folder, "tensorboard"))

    def write(self, values, step):
        with self._writer.as_default(step=step):
            for name, value in values.items():
                self._summary.scalar(name, value)
        self._writer.flush()

    def close(self):
        self._writer.close()


class _WandbStyle(Tracker):
    """A tracker with the functions `init`, `log` and `finish`. Its own environment variables work."""

    def write(self, values, step):
        self._module.log(dict(values), step=step)

    def close(self):
        self._module.finish()


class _WeightsAndBiases(_WandbStyle):
    module, package = "wandb", "wandb"

    def start(self, settings):
        self._module.init(
            project=os.environ.get("WANDB_PROJECT", _PROJECT),
            name=self._run_name,
            id=self._stored_id(secrets.token_hex(8)),
            resume="allow",
            config=settings,
            dir=self._folder,
        )


class _Trackio(_WandbStyle):
    module, package = "trackio", "trackio"

    def start(self, settings):
        # Trackio finds a run by its name.
        name = self._stored_id(f"{self._run_name}-{secrets.token_hex(4)}")
        self._module.init(project=_PROJECT, name=name, resume="allow", config=settings)


class _MLflow(Tracker):
    module, package = "mlflow", "mlflow"

    def start(self, settings):
        if "MLFLOW_EXPERIMENT_NAME" not in os.environ and "MLFLOW_EXPERIMENT_ID" not in os.environ:
            self._module.set_experiment(_PROJECT)
        known = self._stored_id()
        run = self._module.start_run(run_id=known, run_name=None if known else self._run_name)
        if known is None:
            self._stored_id(run.info.run_id)
            self._module.log_params(settings)

    def write(self, values, step):
        self._module.log_metrics(dict(values), step=step)

    def close(self):
        self._module.end_run()


TRACKERS: dict[str, type[Tracker]] = {
    "tensorboard": _TensorBoard,
    "wandb": _WeightsAndBiases,
    "mlflow": _MLflow,
    "trackio": _Trackio,
}


def evaluation_names(scores: Mapping[str, float]) -> dict[str, float]:
    """Returns scores under the names by which trackers tell them from the numbers of the training.

    >>> evaluation_names({"loss": 0.5, "test_accuracy": 0.9})
    {'eval_loss': 0.5, 'test_accuracy': 0.9}
    """
    return {name if name.startswith(("eval_", "test_")) else f"eval_{name}": scores[name] for name in scores}


def track_results(folder: str, results: Mapping[str, float], step: int) -> None:
    """Sends the scores of a finished run to the trackers that the run has used; a missing package is reported."""
    for name, kind in TRACKERS.items():
        if not any(os.path.exists(os.path.join(folder, place)) for place in (f"{name}_run.txt", name)):
            continue
        try:
            tracker = kind(folder)
        except InputError as error:
            print(f"The scores are not sent to {name}. {error}", file=sys.stderr)
            continue
        try:
            tracker.write(
                evaluation_names({score: results[score] for score in results if score != "global_step"}), step
            )
        finally:
            tracker.close()


def check_trackers(names: Sequence[str]) -> None:
    """Raises `InputError` for a name that is not in `TRACKERS`."""
    unknown = [name for name in names if name not in TRACKERS]
    if unknown:
        raise InputError(f"Unknown tracker {', '.join(unknown)}. Use one or more of: {', '.join(TRACKERS)}")
