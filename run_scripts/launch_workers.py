"""Starts several workers of one training run on this machine, and stops all of them when one fails.

Example:
  python -m run_scripts.launch_workers --num_workers=2 -- python -m run_scripts.run_pretraining
      --distribution_strategy=multi_worker_mirrored --input_file=records --output_dir=run

The command of a worker follows after --. Each worker gets the environment variable TF_CONFIG, which lists all workers
and the index of this one. Their output is prefixed with the worker's number. SIGTERM and Ctrl-C are passed on to all.

Exit code: 0 if all workers end with 0, otherwise that of the worker that failed first. The same command resumes the
run. On several machines, use Slurm or Kubernetes instead: docs/training.md.
"""

import contextlib
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_flag

FLAGS = flags.FLAGS


def define_flags() -> None:
    define_flag("num_workers", None, "The number of workers to start.", required=True, at_least=1)
    flags.DEFINE_integer("first_port", 0, "The first port of the workers. 0 selects free ports.")
    flags.DEFINE_integer("seconds_to_stop", 60, "Seconds after which stopping workers are killed.")


def main(command: list[str]) -> None:
    if not command:
        raise InputError("There is no command of a worker. Give it after --: -- python -m run_scripts.run_pretraining")
    addresses = [f"localhost:{port}" for port in _ports(FLAGS.num_workers, FLAGS.first_port)]
    # From the first worker on, no signal may end the launcher alone.
    received: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: received.append(number))
    workers: list[Worker] = []
    try:
        for index in range(FLAGS.num_workers):
            workers.append(Worker(command, addresses, index))
    except OSError as error:
        for worker in workers:
            worker.process.kill()
        raise InputError(f"The command {command[0]} cannot be started: {error.strerror}") from None
    sys.exit(_wait(workers, received))


class Worker:
    """A worker's process, whose output is printed line by line with its number."""

    def __init__(self, command: list[str], addresses: list[str], index: int):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        self.index = index
        self.process = subprocess.Popen(
            command,
            env=os.environ | {"TF_CONFIG": json.dumps(config), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # A Ctrl-C of the terminal reaches this process only, which passes it on once.
            start_new_session=True,
        )
        self.reader = threading.Thread(target=self._print_lines, daemon=True)
        self.reader.start()

    def _print_lines(self) -> None:
        rest = b""
        while chunk := self.process.stdout.read1(65536):
            # A progress line ends with a carriage return.
            *lines, rest = re.split(rb"[\r\n]", rest + chunk)
            self._print(lines)
        self._print([rest])

    def _print(self, lines: list[bytes]) -> None:
        texts = [f"[worker {self.index}] {line.decode('utf-8', 'replace')}\n" for line in lines if line]
        print("".join(texts), end="", flush=True)


def _ports(count: int, first: int) -> list[int]:
    if first:
        return list(range(first, first + count))
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("localhost", 0))) for _ in range(count)]
        return [opened.getsockname()[1] for opened in sockets]


def _wait(workers: list[Worker], received: list[int]) -> int:
    """Waits for all workers, passes signals on, stops the others if one fails, and returns the exit code."""
    failed, deadline = None, math.inf
    while True:
        failed = failed or _failed(workers)
        running = [worker for worker in workers if worker.process.poll() is None]
        if not running:
            break
        if failed is not None and deadline == math.inf:
            # Without the failed worker, the others would wait in their next collective operation forever.
            code = failed.process.returncode
            print(f"Worker {failed.index} ended with {code}: stopping {len(running)} other(s).", file=sys.stderr)
            received.append(signal.SIGTERM)
            deadline = time.monotonic() + FLAGS.seconds_to_stop
        elif time.monotonic() > deadline:
            received.append(signal.SIGKILL)
        while received:
            number = received.pop(0)
            for worker in running:
                worker.process.send_signal(number)
        time.sleep(0.1)
    for worker in workers:
        worker.reader.join(timeout=5)
    failed = failed or _failed(workers)
    code = failed.process.returncode if failed else 0
    return 128 - code if code < 0 else code  # a shell's exit code for a signal


def _failed(workers: list[Worker]) -> Worker | None:
    return next((worker for worker in workers if worker.process.poll() not in (None, 0)), None)


command = command_of(main, define_flags, passes_on=True)
if __name__ == "__main__":
    command()
