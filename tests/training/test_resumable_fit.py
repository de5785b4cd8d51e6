"""Runs that are stopped and resumed end like undisturbed runs."""

import contextlib
import os
import random
import shutil
import signal
import threading
import time

import keras
import loaded_commands
import numpy as np
import pytest
import tiny
from full_disk import file_size_limit
from pretraining_runs import (
    RUN,
    At,
    Killed,
    assert_same_states,
    assert_same_weights,
    callbacks_in_runs,
    kill,
    pretrain,
    state_of,
)
from tiny_pretraining import CONFIG, VOCABULARY

from keras_bert.program.errors import InputError
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.training.callbacks import TIMED, read_history
from keras_bert.training.checkpointing import SigtermListener

RUN = {**RUN, "save_checkpoints_steps": 2}

# Few kills, since each needs the start of a process. `make kill-proofs` runs more.
NUM_KILLS = int(os.environ.get("KERAS_BERT_KILLS", "3"))
# The run of the command: below 200 steps, since from there on XLA would compile for longer than all steps take.
WHOLE = {"num_train_steps": 180, "num_warmup_steps": 20, "save_checkpoints_steps": 3}
FLAGS = ["--do_train", "--train_batch_size=16", "--learning_rate=1e-2", "--random_seed=7"]
FLAGS += [f"--{name}={value}" for name, value in WHOLE.items()]


@pytest.fixture(scope="module")
def finished(records, tmp_path_factory):
    """The folder of an undisturbed run."""
    path = tmp_path_factory.mktemp("finished") / "run"
    pretrain(path, records, **RUN)
    return path


def history_of(run):
    return [{k: v for k, v in line.items() if k not in TIMED} for line in read_history(run / "history.jsonl")]


def assert_same_run(left, right, last_step):
    """Checks that weights, optimiser, random states, metrics and logs are equal."""
    assert_same_states(left, right, last_step)
    assert history_of(left) == history_of(right)


def train(monkeypatch, path, records, first_callbacks=(), **changes):
    """Trains with callbacks that are called before a checkpoint is saved."""
    with callbacks_in_runs(monkeypatch, *first_callbacks, when="first_callbacks"):
        pretrain(path, records, **{**RUN, **changes})


def checkpoints(run):
    return sorted(os.listdir(run / "checkpoints"))


@pytest.mark.slow
def test_the_newest_checkpoints_are_kept(records, tmp_path, monkeypatch):
    train(monkeypatch, tmp_path / "run", records, num_train_steps=10, save_checkpoints_steps=2, keep_checkpoint_max=3)
    assert checkpoints(tmp_path / "run") == ["step-00000006", "step-00000008", "step-00000010"]
    train(monkeypatch, tmp_path / "all", records, num_train_steps=10, save_checkpoints_steps=2, keep_checkpoint_max=0)
    assert len(checkpoints(tmp_path / "all")) == 5


def test_a_killed_run_ends_as_an_undisturbed_one(eagerly, records, tmp_path, monkeypatch, capsys):
    # A line comes after every third update. The first of the resumed run counts the updates before it.
    monkeypatch.setattr("keras_bert.training.resumable_fit._MIN_LOG_LINES", 2)
    short = {"num_train_steps": 6, "save_checkpoints_steps": 1}
    train(monkeypatch, tmp_path / "whole", records, **short)
    with pytest.raises(Killed):
        train(monkeypatch, tmp_path / "killed", records, [At(3, kill)], **short)
    assert checkpoints(tmp_path / "killed") == ["step-00000001", "step-00000002"]
    assert not (tmp_path / "killed" / "model").exists()
    train(monkeypatch, tmp_path / "killed", records, **short)
    assert "going on from step 2 of 6" in capsys.readouterr().out
    assert [line["step"] for line in history_of(tmp_path / "whole")] == [3, 6]
    assert_same_run(tmp_path / "whole", tmp_path / "killed", 6)
    assert_same_weights(tmp_path / "whole" / "model", tmp_path / "killed" / "model")


DAMAGES = {
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "a wrong byte": lambda path: path.write_bytes(path.read_bytes()[:9000] + b"?" + path.read_bytes()[9001:]),
    "empty": lambda path: path.write_bytes(b""),
    "missing": lambda path: path.unlink(),
}


@pytest.fixture(scope="module")
def killed(records, tmp_path_factory):
    """The folder of a run that was killed after 5 updates; to be copied."""
    path = tmp_path_factory.mktemp("killed") / "run"
    with pytest.MonkeyPatch.context() as monkeypatch, pytest.raises(Killed):
        train(monkeypatch, path, records, [At(5, kill)])
    return path


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_reported_and_the_one_before_it_is_used(
    records, finished, killed, tmp_path, monkeypatch, capsys, damage
):
    run = shutil.copytree(killed, tmp_path / "run")
    DAMAGES[damage](run / "checkpoints" / "step-00000004" / "state.npz")
    capsys.readouterr()
    train(monkeypatch, run, records)
    out, err = capsys.readouterr()
    assert "step-00000004 is damaged (" in err
    assert "It is now called step-00000004.damaged. Training goes on from the one before it." in err
    assert "going on from step 2 of 12" in out
    assert_same_run(finished, run, 12)


def test_an_only_checkpoint_that_is_damaged_or_of_another_model_is_an_error(records, killed, tmp_path, monkeypatch):
    run = shutil.copytree(killed, tmp_path / "run")
    shutil.rmtree(run / "checkpoints" / "step-00000002")
    state = run / "checkpoints" / "step-00000004" / "state.npz"
    smaller = {name: values[:1] for name, values in state_of(run, 4).items() if values.ndim}
    np.savez(state, **smaller)
    with pytest.raises(InputError, match=r"step-00000004 belongs to another model: it has no .* of shape \(13, 16\)"):
        train(monkeypatch, run, records)
    DAMAGES["cut off"](state)
    with pytest.raises(InputError, match=r"step-00000004 is damaged .* there is none before it. Remove it to start"):
        train(monkeypatch, run, records)


def test_training_goes_on_when_a_checkpoint_cannot_be_written(records, finished, tmp_path, monkeypatch, capsys):
    with contextlib.ExitStack() as full:
        begin, end = At(1, lambda: full.enter_context(file_size_limit(20_000))), At(7, full.close)
        train(monkeypatch, tmp_path / "run", records, [begin, end])
    lines = [line for line in capsys.readouterr().err.splitlines() if "is not saved" in line]
    assert len(lines) == 3
    assert "The checkpoint of step 2 is not saved. Cannot write " in lines[0]
    assert "a file grew over the size limit" in lines[0]
    assert "Training goes on; the next is due at step 4." in lines[0]
    assert checkpoints(tmp_path / "run") == ["step-00000010", "step-00000012"]
    assert_same_run(finished, tmp_path / "run", 12)


def test_the_last_checkpoint_must_be_written(eagerly, records, tmp_path, monkeypatch):
    message = "its last checkpoint is not saved. Cannot write .*: a file grew over the"
    with file_size_limit(20_000), pytest.raises(InputError, match=message):
        train(monkeypatch, tmp_path / "run", records, num_train_steps=2)
    assert checkpoints(tmp_path / "run") == []
    assert not (tmp_path / "run" / "model").exists()


def test_sigterm_ends_a_run_after_the_step_and_the_same_call_goes_on(records, finished, tmp_path, monkeypatch, capsys):
    handler = signal.getsignal(signal.SIGTERM)
    # It would end this process if a batch took long on a busy machine.
    monkeypatch.setattr("keras_bert.training.resumable_fit.ExitWhileWaiting", lambda *arguments: lambda: None)
    with pytest.raises(SystemExit) as caught:
        train(monkeypatch, tmp_path / "run", records, [At(7, lambda: os.kill(os.getpid(), signal.SIGTERM))])
    assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is handler
    assert checkpoints(tmp_path / "run")[-1] == "step-00000007"
    assert "Stopped by SIGTERM. The same command goes on from step 7.\n" in capsys.readouterr().out
    train(monkeypatch, tmp_path / "run", records)
    assert signal.getsignal(signal.SIGTERM) is handler
    assert_same_run(finished, tmp_path / "run", 12)


def test_a_second_thread_is_told_about_sigterm_again_and_again_and_about_no_other_signal():
    told = threading.Semaphore(0)
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        with SigtermListener(told.release) as listener:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert not told.acquire(timeout=0.6)
            os.kill(os.getpid(), signal.SIGTERM)
            assert told.acquire(timeout=60)
            assert told.acquire(timeout=60)
        assert listener.is_received
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_while_a_run_trains_its_folder_is_refused_to_others(eagerly, records, tmp_path, monkeypatch):
    run, refused = tmp_path / "run", []
    run.mkdir()
    (run / ".lock").touch()  # as a process that was killed leaves it: it locks nothing

    def start_another():
        with monkeypatch.context() as patch:
            patch.setattr("keras_bert.training.pretraining.resumable_fit", None)  # must be refused before training
            with pytest.raises(InputError) as caught:
                pretrain(run, records, **RUN)
        refused.append(str(caught.value))

    train(monkeypatch, run, records, [At(1, start_another)], num_train_steps=2, save_checkpoints_steps=1)
    assert refused == [f"Another process is writing to {run}. Wait for it, or use another folder."]
    assert checkpoints(run) == ["step-00000001", "step-00000002"]
    assert [line["step"] for line in history_of(run)] == [1, 2]
    assert (run / "model").exists()
    assert ".lock" not in os.listdir(run)


@pytest.fixture(params=["bfloat16", "float16", "mixed_bfloat16"])
def precision(request):
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy("float32")


@pytest.mark.slow
def test_a_run_in_16_bits_goes_on_and_ends_as_one_that_was_not_stopped(records, tmp_path, monkeypatch, precision):
    short = {"num_train_steps": 6, "save_checkpoints_steps": 2}
    train(monkeypatch, tmp_path / "whole", records, **short)
    with pytest.raises(Killed):
        train(monkeypatch, tmp_path / "killed", records, [At(5, kill)], **short)
    train(monkeypatch, tmp_path / "killed", records, **short)
    assert_same_states(tmp_path / "whole", tmp_path / "killed", 6)
    state = state_of(tmp_path / "whole", 6)
    assert ("bfloat16" in {array.dtype.name for array in state.values()}) == (precision == "bfloat16")
    assert all(np.isfinite(array.astype("float64")).all() for array in state.values())
    model = BertPretrainer.from_pretrained(tmp_path / "whole" / "model", dtype="float32")
    weights = [array for name, array in state.items() if name.startswith("model/") and array.dtype.kind in "fV"]
    for variable, array in zip(model.trainable_variables, weights, strict=True):
        np.testing.assert_array_equal(variable.numpy(), array.astype("float32"))


@pytest.fixture
def command(records, tmp_path):
    """Starts a run in a folder."""
    flags = [f"--input_file={records}", *tiny.flags_from_scratch(tmp_path, VOCABULARY, CONFIG), *FLAGS]
    return lambda run: loaded_commands.Command("run_scripts.run_pretraining", *flags, f"--output_dir={run}")


def start_and_wait(command, run, num_steps):
    """Starts a process and returns it when it has made `num_steps` updates or more, or when it is done."""
    first = newest_step(run)
    process = command(run)
    deadline = time.monotonic() + 600
    while newest_step(run) < first + num_steps and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return process


def newest_step(run):
    folder = run / "checkpoints"
    names = os.listdir(folder) if folder.is_dir() else []
    return max([int(name[5:]) for name in names if name.startswith("step-")], default=0)


@pytest.mark.slow
def test_a_run_that_is_killed_several_times_and_asked_to_stop_once_ends_as_one_that_is_not(records, command, tmp_path):
    run = tmp_path / "killed"
    draw = random.Random(0)
    for _ in range(NUM_KILLS):
        process = start_and_wait(command, run, draw.randrange(1, 13))
        # The kill may hit a step, the log or the next checkpoint.
        time.sleep(draw.random() * 0.03)
        assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL

    process = start_and_wait(command, run, 6)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 143, err
    step = newest_step(run)
    assert 3 * NUM_KILLS < step < 180
    assert out.splitlines()[-1] == f"Stopped by SIGTERM. The same command goes on from step {step}."
    assert "Traceback" not in err

    process = command(run)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert f"going on from step {step} of 180" in out
    assert "sequences/s" in err
    assert not [name for name in os.listdir(run / "checkpoints") if name.startswith(".")], "half-written"

    pretrain(tmp_path / "whole", records, **{**RUN, **WHOLE})
    assert_same_run(tmp_path / "whole", run, 180)
    assert (run / "model" / "vocab.txt").read_bytes() == (tmp_path / "vocab.txt").read_bytes()
