"""Shows the progress of a run, writes and draws its log, and stops it when the loss is not a number."""

import json
import logging
import math
import os
import time
from collections.abc import Callable

import keras
import numpy as np

from keras_bert.program.atomic_output import atomic_file, explain_write_errors
from keras_bert.program.errors import InputError
from keras_bert.program.long_work import progress_bar
from keras_bert.tasks.report_files import BLUE, draw
from keras_bert.training.gradient_norm import GradientNorm
from keras_bert.training.input_probe import InputProbe
from keras_bert.training.run_folder import EVALUATIONS_FILE, RunFolder
from keras_bert.training.strategies import worker_suffix
from keras_bert.training.tensorboard_log import TensorBoardLog
from keras_bert.training.throughput import ModelFlops, measured_peak

_logger = logging.getLogger(__name__)
_LOSS = "loss"

# The values in a line of the log that depend on the machine and its load. The other values depend on the run only.
TIMED = (
    "sequences_per_second",
    "tokens_per_second",
    "model_flops_per_second",
    "share_of_measured_peak",
    "input_wait",
)


class StepCallback(keras.callbacks.Callback):
    """A callback that counts updates over the whole run, across resumes.

    Keras counts batches from 0 in each `fit`, and calls once per `steps_per_execution` updates.

    `start_step` is the number of updates made before this `fit`, and `num_train_steps` that of the whole run.
    """

    def __init__(self, folder: RunFolder, start_step: int, num_train_steps: int):
        super().__init__()
        self.step = start_step
        self._folder = folder
        self._start_step = start_step
        self._num_train_steps = num_train_steps

    def on_train_batch_end(self, batch, logs=None):
        previous = self.step
        self.step = min(self._start_step + batch + 1, self._num_train_steps)
        self.on_steps(previous, logs)

    def on_steps(self, previous: int, logs: dict) -> None:
        """Called after the updates from `previous` + 1 to `self.step`."""
        raise NotImplementedError

    def _is_due(self, previous: int, every: int) -> bool:
        """Returns whether a multiple of `every`, or the last step, has been reached since step `previous`."""
        return self.step // every > previous // every or self.step == self._num_train_steps


class ProgressLine(StepCallback):
    """Shows sequences per second, the remaining time, the loss and the newest line of the log on standard error."""

    def __init__(self, folder: RunFolder, start_step: int, num_train_steps: int, batch_size: int, log: "TrainingLog"):
        super().__init__(folder, start_step, num_train_steps)
        self._log = log
        self._batch_size = batch_size

    def on_train_begin(self, logs=None):
        self._bar = progress_bar(
            total=self._num_train_steps * self._batch_size,
            initial=self.step * self._batch_size,
            desc="training",
            unit=" sequences",
            # A line per ten seconds in a log file; a moving line in a terminal.
            mininterval=0.2 if os.isatty(2) else 10.0,
        )

    def on_steps(self, previous, logs):
        text = f"step {self.step}/{self._num_train_steps}, loss {logs['loss']:.4f}"
        self._bar.set_postfix_str(text + _short(self._log.last_line), refresh=False)
        self._bar.update((self.step - previous) * self._batch_size)

    def on_train_end(self, logs=None):
        self._bar.close()


class TrainingLog(StepCallback):
    """Writes the metrics of every `log_steps` updates to `history.jsonl` and for TensorBoard.

    A line has `step`, `learning_rate`, `gradient_norm` (of the last update before clipping) and the averages of the
    model's metrics since the last line; undefined metrics are left out. For the time since the last line it has the
    values named in `TIMED`: sequences and tokens (without padding) per second; the model's operations per second (see
    `ModelFlops`), also as a share of the measured peak or, if higher, of the model's own best; and the share of the
    time spent waiting for batches. At the start, lines after `start_step`, which a killed run has left, are removed.

    Args:
        folder, start_step, num_train_steps: as in `StepCallback`.
        batch_size: sequences per update.
        log_steps: number of updates between two lines.
        tensorboard: a further place for these lines, or None.
        probe: counts the input. None: only sequences are counted.

    Raises:
        InputError: the file cannot be written.
    """

    def __init__(
        self,
        folder: RunFolder,
        start_step: int,
        num_train_steps: int,
        batch_size: int,
        log_steps: int,
        gradient_norm: GradientNorm,
        tensorboard: TensorBoardLog | None,
        probe: InputProbe | None,
    ):
        super().__init__(folder, start_step, num_train_steps)
        self.last_line = {}
        self._gradient_norm = gradient_norm
        self._probe = probe
        self._path = folder.file(f"history{worker_suffix()}.jsonl")
        self._batch_size = batch_size
        self._log_steps = log_steps
        self._tensorboard = tensorboard
        lines_until(self._path, start_step)

    def on_train_begin(self, logs=None):
        if self._probe is not None:
            self._flops = ModelFlops(getattr(self.model, "student", self.model))
            self._peak = measured_peak(self.model.compute_dtype)
        self._start_interval()

    def on_steps(self, previous, logs):
        if not self._is_due(previous, self._log_steps):
            return
        line = {
            "step": self.step,
            # `float` refuses the mirrored variable that holds a constant rate under a strategy.
            "learning_rate": float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)),
            "gradient_norm": float(self._gradient_norm),
            **self._timed(),
            # Without a next-sentence task its accuracy is NaN, which JSON does not have.
            **{name: float(value) for name, value in logs.items()},
        }
        line = {name: value for name, value in line.items() if math.isfinite(value)}
        append_line(self._path, line)
        if self._tensorboard is not None:
            self._tensorboard.write({name: value for name, value in line.items() if name != "step"}, self.step)
        self.last_line = line
        self.model.reset_metrics()
        self._start_interval()

    def _start_interval(self) -> None:
        self._logged_step = self.step
        self._time = time.monotonic()
        self._sums_before = self._probe.sums() if self._probe is not None else {}

    def _timed(self) -> dict[str, float]:
        seconds = time.monotonic() - self._time
        speed = {"sequences_per_second": round((self.step - self._logged_step) * self._batch_size / seconds, 2)}
        if self._probe is None:
            return speed
        sums = {name: value - self._sums_before[name] for name, value in self._probe.sums().items()}
        flops = self._flops.of(sums["tokens"], sums["attended_pairs"], sums["predictions"]) / seconds
        if flops > self._peak:
            if self._peak == measured_peak(self.model.compute_dtype):
                _logger.info(
                    "The model reaches %.0f%% of the peak that was measured at the start. Either the device was busy "
                    "then, or the last layer skips many tokens. From now on the model's own best speed is the peak.",
                    100 * flops / self._peak,
                )
            self._peak = flops
        return speed | {
            "tokens_per_second": round(sums["tokens"] / seconds, 1),
            "model_flops_per_second": round(flops),
            "share_of_measured_peak": round(flops / self._peak, 5),
            "input_wait": round(sums["wait_seconds"] / seconds, 4),
        }


def _short(line: dict) -> str:
    """Returns the part of a log line that fits into the progress line."""
    parts = {
        "learning_rate": "rate {:.3g}",
        "gradient_norm": "gradient {:.3g}",
        "tokens_per_second": "{:,.0f} tokens/s",
        "share_of_measured_peak": "{:.1%} of measured peak",
        "input_wait": "{:.0%} input wait",
    }
    return "".join(", " + form.format(line[name]) for name, form in parts.items() if name in line)


def read_history(path: str | os.PathLike) -> list[dict]:
    """Returns the lines of a `history.jsonl`, without an incomplete last line. Without a file there are none."""
    if not os.path.isfile(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def lines_until(path: str, step: int) -> list[dict]:
    """Removes the lines of later steps, which a killed run has left, and returns the others."""
    lines = [line for line in read_history(path) if line["step"] <= step]
    with atomic_file(path) as file:
        file.writelines((json.dumps(line) + "\n").encode("utf-8") for line in lines)
    return lines


def append_line(path: str, line: dict) -> None:
    """Adds a line to such a file."""
    with explain_write_errors(path), open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


class StopWhenNotFinite(StepCallback):
    """Ends a run when the loss is infinite or NaN, and writes the batch to `batch_of_step_N.npz`.

    If an execution has several updates, all their batches are written.

    Args:
        folder, start_step, num_train_steps: as in `StepCallback`.
        make_dataset: as in `resumable_fit`. It reads the batch again.

    Raises:
        InputError: the loss is infinite or NaN.
    """

    def __init__(self, folder: RunFolder, start_step: int, num_train_steps: int, make_dataset: Callable):
        super().__init__(folder, start_step, num_train_steps)
        self._make_dataset = make_dataset

    def on_steps(self, previous, logs):
        if math.isfinite(logs["loss"]):
            return
        paths = []
        for step, batch in enumerate(self._make_dataset(previous).take(self.step - previous), start=previous + 1):
            paths.append(self._folder.file(f"batch_of_step_{step}.npz"))
            with atomic_file(paths[-1]) as file:
                np.savez(file, **{name: values.numpy() for name, values in batch.items()})
        raise InputError(
            f"The loss is {logs['loss']} at step {self.step}. Use a lower learning_rate, or a longer warm-up. The "
            f"batch is in {', '.join(paths)}; the newest checkpoint is that of step {self._folder.latest_step()}."
        )


def draw_learning_curves(path: str | os.PathLike, folder: str | os.PathLike) -> bool:
    """Draws the losses of a run on the left axis, and its first other score on the right one, into a PNG file.

    Returns:
        Whether there was something to draw and matplotlib to do so.
    """
    curves: dict[str, list[tuple[int, float]]] = {}  # name -> (step, value)
    for file, prefix in (("history.jsonl", ""), (EVALUATIONS_FILE, "eval_")):
        for line in read_history(os.path.join(folder, file)):
            for name, value in line.items():
                if name == _LOSS or prefix and name != "step":
                    curves.setdefault(prefix + name, []).append((line["step"], value))
    if not curves:
        return False
    score = next((name for name in curves if not name.endswith(_LOSS)), None)

    def on(axis):
        for name, style in ((_LOSS, "-"), (f"eval_{_LOSS}", ".--"), (score, ".:")):
            if name not in curves:
                continue
            place = axis
            if name == score:
                place = axis.twinx()
                place.set_ylabel(score)
            steps, values = zip(*curves[name], strict=True)
            place.plot(steps, values, style, color=BLUE, label=name)
        axis.set_xlabel("step")
        axis.set_ylabel("loss")
        axis.grid(alpha=0.3)
        axis.figure.legend(loc="outside upper center", ncols=3, fontsize=8, frameon=False)

    return draw(path, (7.0, 4.0), on)
