"""`run_pretraining` in several processes gives the weights of one, also after kills and with other worker counts."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tiny_pretraining
from pretraining_runs import assert_same_states, state_of

from keras_bert.training.run_folder import RunFolder

pytestmark = pytest.mark.slow
NUM_STEPS = 30
# Only one kill, since all processes have to start again. `make kill-proofs` runs more kills.
NUM_KILLS = int(os.environ.get("KERAS_BERT_KILLS", "1"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    for number in range(2):
        tiny_pretraining.write_records(folder / f"{number}.tfrecord", num_records=40, seed=number)
    (folder / "bert_config.json").write_text(json.dumps(tiny_pretraining.CONFIG.to_dict()))
    return folder


def command(files, output, *flags, num_workers=2, **changed):
    options = {"input_file": files / "*.tfrecord", "bert_config_file": files / "bert_config.json", "output_dir": output}
    options |= {"train_batch_size": 8, "num_train_steps": NUM_STEPS, "num_warmup_steps": 3, "learning_rate": 1e-3}
    options |= {"save_checkpoints_steps": 3, **changed}
    flags = ["--do_train", *(f"--{name}={value}" for name, value in options.items()), *flags]
    run = [sys.executable, "-m", "run_scripts.run_pretraining", *flags]
    if num_workers == 1:
        return run
    launcher = [sys.executable, "-m", "run_scripts.launch_workers", f"--num_workers={num_workers}"]
    return [*launcher, "--seconds_to_stop=20", "--", *run, "--distribution_strategy=multi_worker_mirrored"]


def start(files, output, *flags, **options):
    """Starts a run; its process gets an attribute `log`, the path of its output."""
    log = output.with_name(f"{output.name}-{time.monotonic_ns()}.log")
    with open(log, "w") as file:  # an unread pipe would block it
        arguments = command(files, output, *flags, **options)
        process = subprocess.Popen(arguments, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
    process.log = log
    return process


def finish(process, code=0):
    process.wait(timeout=300)
    output = process.log.read_text()
    assert process.returncode == code, output[-3000:]
    return output


@pytest.fixture(scope="module")
def uninterrupted(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "two"
    finish(start(files, folder))
    return folder


def wait_for_step(process, folder, step):
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and process.poll() is None:
        if (folder / "run.json").is_file() and RunFolder(folder).latest_step() >= step:
            return
        time.sleep(0.05)


def test_two_workers_train_what_one_process_trains(files, tmp_path):
    # Without dropout, since each device draws its own random numbers.
    config = tiny_pretraining.CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    (tmp_path / "bert_config.json").write_text(json.dumps(config.to_dict()))
    # One file of records: there are fewer than workers.
    changed = {"bert_config_file": tmp_path / "bert_config.json", "input_file": files / "0.tfrecord"}
    two = start(files, tmp_path / "two", **changed)
    finish(start(files, tmp_path / "one", num_workers=1, **changed))
    output = finish(two)
    one, two = (state_of(tmp_path / name, NUM_STEPS) for name in ("one", "two"))
    weights = [name for name in one if name.startswith("model/") and one[name].dtype == np.float32]
    assert len(weights) > 20
    assert max(np.abs(one[name] - two[name]).max() for name in weights) <= 1e-6
    assert "[worker 0] " in output
    assert (tmp_path / "two" / "model" / "model.weights.h5").is_file()


def test_killed_workers_go_on_to_the_same_weights(files, uninterrupted, tmp_path):
    draw = random.Random(7)
    for number in range(NUM_KILLS):
        process = start(files, tmp_path / "run")
        wait_for_step(process, tmp_path / "run", 3 * draw.randrange(1, NUM_STEPS // 3 - 1) * (number + 1) // NUM_KILLS)
        time.sleep(draw.random() * 0.5)
        # One worker is killed, alternately the first and the second; the launcher stops the others.
        workers = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
        if len(workers) == 2:
            os.kill(int(workers[number % 2]), signal.SIGKILL)
        process.wait(timeout=300)
    finish(start(files, tmp_path / "run"))
    assert_same_states(uninterrupted, tmp_path / "run", NUM_STEPS)


def test_sigterm_ends_all_workers_at_one_step_and_one_process_goes_on(files, tmp_path):
    run = tmp_path / "run"
    endless = {"save_checkpoints_steps": 10, "num_train_steps": 100_000}
    process = start(files, run, **endless)
    wait_for_step(process, run, 10)
    os.kill(process.pid, signal.SIGTERM)
    output = finish(process, code=143)
    stopped = RunFolder(run).latest_step()
    assert stopped > 0, output
    assert f"goes on from step {stopped}" in output
    # One process continues the run of two.
    alone = start(files, run, num_workers=1, **endless)
    wait_for_step(alone, run, stopped + 10)
    assert f"going on from step {stopped}" in alone.log.read_text()
    os.killpg(alone.pid, signal.SIGKILL)
    alone.wait()


def test_workers_with_other_settings_are_refused_at_the_start(files, tmp_path):
    worker = [str(part) for part in command(files, tmp_path / "run", num_workers=1)]
    worker.append("--distribution_strategy=multi_worker_mirrored")
    program = f"""
import json, os, subprocess, sys
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
sys.exit(subprocess.run({worker!r} + [f"--learning_rate={{(index + 1) / 1000}}"]).returncode)
"""
    launcher = [sys.executable, "-m", "run_scripts.launch_workers", "--num_workers=2", "--"]
    done = subprocess.run([*launcher, sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "The workers were started with different settings" in done.stdout
    assert "0.002" in done.stdout


def test_a_batch_that_the_devices_cannot_share_is_refused(files, tmp_path):
    process = start(files, tmp_path / "run", train_batch_size=9)
    assert "A batch of 9 cannot be divided evenly among 2 device(s)" in finish(process, code=1)
