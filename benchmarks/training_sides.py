"""The sides of the benchmarks of pre-training steps, each a process in the environment of its engine."""

import contextlib
import dataclasses
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator

from benchmarks.encoder_sides import environment_of_sides, last_line, python_of
from benchmarks.sides.pretraining_work import num_predictions
from benchmarks.workers_in_turns import end_workers, start_worker, take_turn
from keras_bert.program.errors import InputError


@dataclasses.dataclass(frozen=True)
class TrainingSide:
    """A module of `benchmarks.sides`, the environment it runs in ("" is our own), and how it computes a step."""

    module: str
    environment: str = ""
    xla: int = 0
    gradient_checkpointing: int = 0
    has_dtypes: bool = False


@dataclasses.dataclass(frozen=True)
class Work:
    """What every side does in a turn: `steps` steps with a batch of `rows` rows of `length` tokens."""

    config: object
    rows: int
    length: int
    steps: int
    folder: str = ""
    dtype: str = "float32"


class RunningSide:
    """A side that has started. `about` says what it is, `gpu_memory` its peak in bytes, 0 without a GPU."""

    def __init__(self, process: subprocess.Popen, work: Work, said):
        self._process, self._work, self._said = process, work, said
        self.gpu_memory = 0
        self.about = self._turn("")["side"]

    def seconds_of_a_step(self) -> float:
        """Lets the side take its turn. The first turn is longer: it compiles."""
        report = self._turn("train")
        self.gpu_memory = report["gpu_memory"]
        return report["seconds"] / self._work.steps

    def memory(self, key: str) -> int:
        """Returns a line of the process' /proc/PID/status in bytes: VmRSS, or VmHWM for the most so far."""
        try:
            with open(f"/proc/{self._process.pid}/status", encoding="utf-8") as file:
                return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{key}:"))
        except (OSError, StopIteration):
            raise InputError("the system does not say how much memory a process has had (this is for Linux)") from None

    def _turn(self, request: str) -> dict:
        try:
            return take_turn(self._process, request)
        except InputError as error:
            self._said.seek(0)
            raise InputError(last_line(self._said.read()) or str(error)) from None


@contextlib.contextmanager
def running_side(side: TrainingSide, work: Work, environments: str) -> Iterator[RunningSide]:
    """Yields a side that has started. Raises `InputError` with the last line that it wrote if it cannot."""
    if work.dtype != "float32" and not side.has_dtypes:
        raise InputError(f"it does not compute in {work.dtype} here")
    arguments = {"config": json.dumps(work.config.to_dict()), "batch_size": work.rows, "length": work.length}
    arguments |= {
        "predictions": num_predictions(work.length),
        "steps": work.steps,
        "xla": side.xla,
        "dtype": work.dtype,
    }
    arguments |= {"gradient_checkpointing": side.gradient_checkpointing} | (
        {"folder": work.folder} if work.folder else {}
    )
    python = python_of(side.environment, os.path.abspath(environments))
    with tempfile.TemporaryFile("w+") as said:
        process = start_worker(
            python, f"benchmarks.sides.{side.module}", arguments, environment_of_sides(side.environment), said
        )
        try:
            yield RunningSide(process, work, said)
        finally:
            end_workers([process])
