"""Starts commands as `python -m` does, but in processes that have TensorFlow, Keras and the runs loaded.

Loading them takes longer than most commands in tests. So one process only loads them, and forks for each command (the
start method "forkserver" of multiprocessing). tests/test_packaging.py tests that every command starts in a fresh
process; tests/end_to_end/test_quickstart.py tests that some commands work there.
"""

import multiprocessing
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    ["tensorflow", "keras", "keras_bert.training.fine_tuning", "keras_bert.training.pretraining"]
)


class Command:
    """A running command, with the part of the interface of `subprocess.Popen` that tests need."""

    def __init__(self, module: str, *arguments):
        self.args = [module, *map(str, arguments)]
        self._folder = tempfile.TemporaryDirectory()
        self._outputs = [pathlib.Path(self._folder.name, name) for name in ("stdout", "stderr")]
        process = _context.Process(target=_become, args=(self.args, self._outputs, os.getcwd(), dict(os.environ)))
        process.start()
        self._process, self.pid = process, process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Waits for the end and returns standard output and standard error."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        with self._folder:
            return tuple(output.read_text("utf-8") for output in self._outputs)


def run(module: str, *arguments, timeout: float | None = None) -> subprocess.CompletedProcess:
    """Runs a command to its end, or kills it and raises `subprocess.TimeoutExpired`."""
    command = Command(module, *arguments)
    try:
        stdout, stderr = command.communicate(timeout)
    except subprocess.TimeoutExpired:
        command.send_signal(signal.SIGKILL)
        raise
    return subprocess.CompletedProcess(command.args, command.returncode, stdout, stderr)


def _become(arguments, outputs, folder, environment):
    for number, output in enumerate(outputs, start=1):
        with open(output, "wb") as file:
            os.dup2(file.fileno(), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
