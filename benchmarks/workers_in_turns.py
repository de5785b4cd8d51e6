"""Runs the sides of a measurement as processes that take turns: one works, the others wait for a line of input."""

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping

from keras_bert.program.errors import InputError


def start_worker(
    python: str,
    module: str,
    arguments: Mapping[str, object],
    environment: Mapping[str, str],
    stderr=subprocess.DEVNULL,
) -> subprocess.Popen:
    """Starts `python -m module --name=value ...`; `environment` is added to this process' own.

    Raises:
        InputError: the program does not exist.
    """
    try:
        return subprocess.Popen(
            [python, "-m", module, *(f"--{name}={value}" for name, value in arguments.items())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=os.environ | environment,
        )
    except OSError as error:
        raise InputError(f"{python} cannot be started as a Python: {error.strerror}") from None


def take_turn(worker: subprocess.Popen, request: str = "") -> dict:
    """Sends a worker one line, and returns its report. Other output, such as that of libraries, is skipped.

    Raises:
        InputError: the worker ended.
    """
    with contextlib.suppress(BrokenPipeError):
        worker.stdin.write(request + "\n")
        worker.stdin.flush()
    for line in worker.stdout:
        if line.startswith("{"):
            return json.loads(line)
    raise InputError(f"{' '.join(worker.args)} ended with {worker.wait()}. Run it by itself to see why.")


def end_workers(workers: list[subprocess.Popen]) -> None:
    for worker in workers:
        worker.kill()
        with contextlib.suppress(BrokenPipeError):  # the request that the worker never read
            worker.communicate()
