"""The launcher of workers on one machine, tested with small programs instead of training."""

import json
import os
import signal
import subprocess
import sys

import pytest

LAUNCHER = [sys.executable, "-m", "run_scripts.launch_workers"]


def launch(program, *flags, num_workers=2):
    command = [*LAUNCHER, f"--num_workers={num_workers}", *flags, "--", sys.executable, "-c", program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines_of(process):
    output, errors = process.communicate(timeout=60)
    return sorted(output.splitlines()), errors


INDEX = "import json, os, sys, time, signal; task = json.loads(os.environ['TF_CONFIG']); n = task['task']['index']\n"


def test_every_worker_knows_all_and_itself():
    process = launch("import os; print(os.environ['TF_CONFIG'])", num_workers=3)
    lines, _ = lines_of(process)
    assert process.returncode == 0
    configs = [json.loads(line.removeprefix(f"[worker {index}] ")) for index, line in enumerate(lines)]
    assert [config["task"] for config in configs] == [{"type": "worker", "index": index} for index in range(3)]
    addresses = configs[0]["cluster"]["worker"]
    assert len(set(addresses)) == 3
    assert all(config["cluster"] == {"worker": addresses} for config in configs)


def test_a_progress_line_is_shown_as_it_moves():
    process = launch("import time; print('1 of 2', end='\\r', flush=True); time.sleep(600)", num_workers=1)
    assert process.stdout.readline() == "[worker 0] 1 of 2\n"
    process.terminate()
    lines_of(process)


def test_ports_can_be_chosen():
    lines, _ = lines_of(launch("import os; print(os.environ['TF_CONFIG'])", "--first_port=23456"))
    assert '"localhost:23456", "localhost:23457"' in lines[0]


def test_a_worker_that_fails_ends_all():
    process = launch(INDEX + "sys.exit(7) if n == 1 else time.sleep(600)")
    _, errors = lines_of(process)
    assert process.returncode == 7
    assert "Worker 1 ended with 7: stopping 1 other(s)." in errors


def test_a_worker_that_is_killed_ends_all_and_one_that_does_not_stop_is_killed():
    program = INDEX + "signal.signal(15, signal.SIG_IGN) if n else os.kill(os.getpid(), 9)\ntime.sleep(600)"
    process = launch(program, "--seconds_to_stop=1")
    lines_of(process)
    assert process.returncode == 128 + signal.SIGKILL


def test_a_signal_that_comes_while_workers_start_ends_all():
    # The launcher gets the signal as soon as the first worker runs.
    program = (
        "import os, signal\n"
        "from run_scripts import launch_workers\n"
        "class Worker(launch_workers.Worker):\n"
        "    def __init__(self, command, addresses, index):\n"
        "        super().__init__(command, addresses, index)\n"
        "        if index == 0: os.kill(os.getpid(), signal.SIGTERM)\n"
        "launch_workers.Worker = Worker\n"
        "launch_workers.command()\n"
    )
    worker = [sys.executable, "-c", "import time; time.sleep(600)"]
    command = [sys.executable, "-c", program, "--num_workers=2", "--", *worker]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines_of(process)
    assert process.returncode == 128 + signal.SIGTERM  # of a worker; the signal itself would be -15


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_come_to_all_workers_once(number):
    program = (
        INDEX + f"signal.signal({number:d}, lambda *_: (print('got it', flush=True), time.sleep(0.5), sys.exit(5)))\n"
        "print('ready', flush=True); time.sleep(600)"
    )
    process = launch(program)
    assert sorted(process.stdout.readline() for _ in range(2)) == ["[worker 0] ready\n", "[worker 1] ready\n"]
    os.kill(process.pid, number)
    lines, _ = lines_of(process)
    assert lines == ["[worker 0] got it", "[worker 1] got it"]
    assert process.returncode == 5


def test_what_cannot_be_started_is_named():
    process = subprocess.run([*LAUNCHER, "--num_workers=1", "--", "no-such-program"], capture_output=True, text=True)
    assert process.returncode == 1
    assert "The command no-such-program cannot be started" in process.stderr
    process = subprocess.run([*LAUNCHER, "--num_workers=1"], capture_output=True, text=True)
    assert process.returncode == 1
    assert "There is no command of a worker" in process.stderr
