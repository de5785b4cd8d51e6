"""Pre-training in two phases, short sequences and then long ones: one run, with one set of weights and moments."""

import json
import os
import types

import keras
import loaded_commands
import numpy as np
import pytest
import tiny
from pretraining_runs import RUN, Killed, assert_same_weights, callbacks_in_runs, pretrain, train_until_killed
from tiny_pretraining import CONFIG, VOCABULARY, write_records

from keras_bert.program.errors import InputError
from keras_bert.training import pretraining
from keras_bert.training.callbacks import read_history
from keras_bert.training.optimizer_choice import OptimizerChoice
from keras_bert.training.pretraining_options import PretrainingRunOptions
from keras_bert.training.pretraining_phase import PretrainingPhase, stages_of
from keras_bert.training.resumable_fit import resumable_fit

LONG = 14
# Six updates on rows of 10 tokens and four on rows of 14; checkpoints after 4, 6, 8 and 10.
RUN = {**RUN, "num_train_steps": 6, "num_warmup_steps": 2}


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    return write_records(tmp_path_factory.mktemp("records") / "long.tfrecord", seed=3, length=LONG)


@pytest.fixture(scope="module")
def second(long):
    return PretrainingPhase(long, 4, num_warmup_steps=1, train_batch_size=8, learning_rate=5e-3)


@pytest.fixture(scope="module")
def whole(records, second, tmp_path_factory):
    """The folder of a finished run, and after each update the number of updates, the weights and Adam's `v`."""
    path, seen = tmp_path_factory.mktemp("whole") / "run", []

    class See(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            optimizer = self.model.optimizer
            weights, _, velocities = zip(*optimizer.slots(), strict=True)
            arrays = ([variable.value.numpy() for variable in variables] for variables in (weights, velocities))
            seen.append((int(optimizer.iterations), *arrays))

    with pytest.MonkeyPatch.context() as patch, callbacks_in_runs(patch, See()):
        pretrain(path, records, **RUN, second_phase=second, optimizer=OptimizerChoice(ema_momentum=0.8))
    return path, seen


def rates_of(path):
    return {line["step"]: line["learning_rate"] for line in read_history(path / "history.jsonl")}


@pytest.mark.slow
def test_the_second_phase_has_its_own_rates_rows_and_batches(whole, records, second):
    path, seen = whole
    assert len(seen) == 10
    # The rate of the next update, as the log has it: the second phase begins with a warm-up of its own.
    line = [1e-2 * (1 - step / 6) for step in range(6)]
    expected = [5e-3, *line[2:], 0.0, 5e-3 * 3 / 4, 5e-3 * 2 / 4, 5e-3 / 4]
    found = rates_of(path)
    assert [found[step] for step in range(1, 10)] == pytest.approx(expected, rel=1e-5, abs=1e-9)
    assert found[10] == 0.0
    settings = json.loads((path / "run.json").read_text())
    assert settings["train_files_phase2"] == second.train_files
    assert (settings["train_batch_size"], settings["train_batch_size_phase2"]) == (16, 8)
    assert (settings["num_train_steps"], settings["num_train_steps_phase2"]) == (6, 4)


def test_the_second_phase_goes_on_with_weights_and_moments(whole):
    """Its first update has a rate of 0: the weights do not change. `0.999 v + 0.001 g^2` is never below `0.999 v`."""
    (updates, weights, velocities), (updates_after, weights_after, velocities_after) = whole[1][5:7]
    assert (updates, updates_after) == (6, 7)
    for left, right in zip(weights, weights_after, strict=True):
        np.testing.assert_array_equal(left, right)
    assert all(v.max() > 0 for v in velocities)
    for left, right in zip(velocities, velocities_after, strict=True):
        assert np.all(right >= 0.999 * left * (1 - 1e-6))


@pytest.mark.slow
def test_killed_in_either_phase_or_between_them_the_run_ends_with_the_same_weights(
    whole, records, second, tmp_path, monkeypatch, capsys
):
    run = {**RUN, "second_phase": second, "optimizer": OptimizerChoice(ema_momentum=0.8)}
    path = tmp_path / "killed"
    train_until_killed(monkeypatch, 5, path, records, **run)
    assert os.listdir(path / "checkpoints") == ["step-00000004"]

    # Continues in phase 1 and is killed between the phases.
    def between(model, *args, num_train_steps, **named):
        if num_train_steps == 10:
            raise Killed
        resumable_fit(model, *args, num_train_steps=num_train_steps, **named)

    with monkeypatch.context() as patch:
        patch.setattr(pretraining, "resumable_fit", between)
        with pytest.raises(Killed):
            pretrain(path, records, **run)
    assert sorted(os.listdir(path / "checkpoints")) == ["step-00000004", "step-00000006"]

    train_until_killed(monkeypatch, 3, path, records, **run)
    assert sorted(os.listdir(path / "checkpoints")) == ["step-00000006", "step-00000008"]
    assert not (path / "model").exists()
    capsys.readouterr()
    pretrain(path, records, **run)
    out = capsys.readouterr().out
    assert "phase 2: steps 6 to 10" in out
    assert "going on from step 8 of 10" in out
    assert_same_weights(whole[0] / "model", path / "model")
    assert rates_of(path) == rates_of(whole[0])


def test_the_second_phase_takes_missing_options_from_the_first():
    first = PretrainingPhase("short", 900, 90, 32, 1e-4, max_seq_length=128)
    assert PretrainingPhase("long", 100).like(first) == PretrainingPhase("long", 100, 10, 32, 1e-4)
    said = PretrainingPhase("long", 100, 0, 8, 5e-5, 512, 80)
    assert said.like(first) == said


def test_the_share_of_masks_falls_over_both_phases():
    model = types.SimpleNamespace(config=CONFIG, vocabulary=VOCABULARY, masking={})
    options = PretrainingRunOptions(masked_lm_prob_end=0.1, masking={"masked_lm_prob": 0.3})
    phases = [PretrainingPhase("short", 900, 0, 8), PretrainingPhase("long", 100, 0, 8)]
    makers = pretraining._dataset_makers(stages_of(phases), phases, model, options)
    rates = [maker.keywords["falling_rate"] for maker in makers]
    assert [rate.at(0.3, 50) for rate in rates] == pytest.approx([0.3 - 0.2 * 50 / 1000, 0.3 - 0.2 * 950 / 1000])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_warmup_steps": 5}, "Phase 2: num_warmup_steps must be a whole number .* Received: 5"),
        ({"max_seq_length": 16}, "input_ids has 14 numbers in its records, but 16 are expected"),
        ({"train_files": "none.tfrecord"}, "No file matches none.tfrecord"),
    ],
)
def test_an_impossible_second_phase_is_refused_before_the_first(records, second, tmp_path, changes, message):
    values = {**vars(second), **changes}
    with pytest.raises(InputError, match=message):
        pretrain(tmp_path / "run", records, **RUN, second_phase=PretrainingPhase(**values))
    assert not (tmp_path / "run").exists()


def test_another_second_phase_is_refused_in_the_folder_of_a_run(whole, records, second):
    choice = OptimizerChoice(ema_momentum=0.8)
    with pytest.raises(InputError, match="num_train_steps_phase2 was 4 and is now None"):
        pretrain(whole[0], records, **RUN, optimizer=choice)


@pytest.mark.slow
def test_the_command_trains_in_two_phases_with_lamb_in_float16(records, long, tmp_path):
    flags = [f"--input_file={records}", f"--output_dir={tmp_path / 'run'}", "--do_train", "--do_eval"]
    flags += [*tiny.flags_from_scratch(tmp_path, VOCABULARY, CONFIG), "--optimizer=lamb", "--precision=float16"]
    flags += ["--max_seq_length=10", "--num_train_steps=4", "--num_warmup_steps=1"]
    flags += ["--learning_rate_schedule=polynomial", "--decay_power=0.5"]
    flags += [f"--input_file_phase2={long}", "--max_seq_length_phase2=14"]
    second = ["--num_train_steps_phase2=2", "--train_batch_size_phase2=8"]
    done = loaded_commands.run("run_scripts.run_pretraining", *flags, *second)
    assert done.returncode == 0, done.stderr
    assert "phase 2: steps 4 to 6" in done.stdout
    assert "global_step = 6\n" in done.stdout
    settings = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (settings["optimizer"], settings["decay_power"], settings["dtype"]) == ("lamb", 0.5, "mixed_float16")
    assert (settings["train_batch_size_phase2"], settings["num_warmup_steps_phase2"]) == (8, 0)
    done = loaded_commands.run("run_scripts.run_pretraining", *flags)
    assert (done.returncode, "error: A second phase needs" in done.stderr) == (1, True)
