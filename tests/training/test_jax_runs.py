"""Runs on Keras' JAX backend resume, divide batches and cross over as runs on TensorFlow do."""

import json
import subprocess
import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from on_jax import command_on, needs_jax
from places import TESTS
from pretraining_runs import assert_same_states, state_of
from tiny_pretraining import VOCABULARY, write_records

from keras_bert.accelerate import backend
from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import listed_texts
from keras_bert.records import datasets
from keras_bert.records.token_rows import TokenRows
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.training import strategies
from keras_bert.training.host_batches import HostProbe
from keras_bert.training.run_folder import RunFolder

AVERAGED = {"optimizer": {"ema_momentum": 0.9}}


def test_nobody_looks_at_a_batch_before_the_first_step():
    batches = tf.data.Dataset.from_tensors({"input_mask": tf.ones([8, 4], tf.int32)})
    probe = HostProbe("nowhere")
    taken = probe.measure(batches, 1)
    with probe:
        assert listed_texts(taken) is taken
        assert probe.sums()["batches"] == 0
        assert taken[0]["input_mask"].shape == (8, 4)


def test_batches_are_read_before_the_steps_ask_for_them():
    num_read = threading.Semaphore(0)

    def batches():
        while True:
            yield {"input_mask": np.pad(np.ones([8, 100], np.int32), [(0, 0), (0, 28)])}
            num_read.release()

    spec = {"input_mask": tf.TensorSpec([8, 128], tf.int32)}
    probe = HostProbe("nowhere")
    taken = probe.measure(tf.data.Dataset.from_generator(batches, output_signature=spec), 3)
    with probe:
        taken[0]
        assert all(num_read.acquire(timeout=60) for _ in range(2))
        taken[1], taken[2]
    assert {name: total for name, total in probe.sums().items() if name != "wait_seconds"} == {
        "batches": 3,
        "tokens": 3 * 8 * 100,
        "attended_pairs": 3 * 8 * 100 * 128,
        "predictions": 0,
    }


def test_an_error_of_the_input_reaches_the_step_that_waits_for_the_batch():
    def batches():
        yield {"input_ids": np.ones([2, 3], np.int32)}
        raise InputError("the record is damaged")

    spec = {"input_ids": tf.TensorSpec([2, 3], tf.int32)}
    probe = HostProbe("nowhere")
    taken = probe.measure(tf.data.Dataset.from_generator(batches, output_signature=spec), 2)
    with probe:
        assert taken[0]["input_ids"].shape == (2, 3)
        assert probe.pending_batch() is None
        with pytest.raises(tf.errors.InvalidArgumentError, match="the record is damaged"):
            taken[1]
        assert probe.pending_batch() == 2


@pytest.mark.parametrize(
    ("on_tensorflow", "name", "known"),
    [(True, "data_parallel", ", ".join(strategies.STRATEGIES)), (False, "mirrored", "off, data_parallel")],
)
def test_a_strategy_of_the_other_backend_is_refused_in_one_line(monkeypatch, on_tensorflow, name, known):
    monkeypatch.setattr(backend, "on_tensorflow", lambda: on_tensorflow)
    with pytest.raises(InputError, match=f"^distribution_strategy must be one of {known} where .* Received: '{name}'$"):
        strategies.make_strategy(name)


def test_on_jax_rows_have_few_widths_and_are_no_longer_than_the_longest(monkeypatch):
    rows = TokenRows.of([[7] * length for length in (3, 31, 33, 40)], pad_id=1)
    monkeypatch.setattr(datasets, "on_tensorflow", lambda: False)
    batches = {int(batch["input_mask"].sum()): batch for batch in datasets.rows_dataset(rows, 1).as_numpy_iterator()}
    assert {tokens: batch["input_ids"].shape for tokens, batch in batches.items()} == {
        3: (1, 32),
        31: (1, 32),
        33: (1, 40),
        40: (1, 40),
    }
    assert batches[3]["input_ids"][0].tolist() == [7] * 3 + [1] * 29


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with `records`, `unmasked` records, and model folders to start from: `start`, and one with dropout."""
    folder = tmp_path_factory.mktemp("jax")
    write_records(folder / "records", num_records=40)
    write_records(folder / "unmasked", num_records=40, masked=False)
    for name, dropout in (("start", 0.0), ("dropout", 0.1)):
        keras.utils.set_random_seed(3)
        model = BertPretrainer(tiny.config(VOCABULARY, dropout=dropout))
        model.vocabulary = VOCABULARY
        model.save_pretrained(folder / name)
    return folder


def run(place, name, start="dropout", records="records", **changes):
    """Returns a run of `jax_runs.py`: 12 updates, unless `changes` say otherwise."""
    options = {"train_batch_size": 8, "num_train_steps": 12, "num_warmup_steps": 2, "learning_rate": 1e-3, "seed": 7}
    places = {"output": str(place / name), "start": str(place / start), "records": str(place / records)}
    return {**places, **options, "save_checkpoints_steps": 5, **changes}


def carry_out(place, backend, runs):
    """Carries out runs in one process and returns what it printed."""
    file = place / f"{backend}-{time.monotonic_ns()}.json"
    file.write_text(json.dumps(runs))
    devices = "--xla_force_host_platform_device_count=2"
    command = command_on(backend, TESTS / "jax_runs.py", file, XLA_FLAGS=devices)
    done = subprocess.run(**command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def newest_state(run):
    return state_of(run, RunFolder(run).latest_step())


def assert_close_weights(place, left, right, atol):
    one, other = newest_state(place / left), newest_state(place / right)
    assert list(one) == list(other)
    for name in one:
        if name.startswith("model/"):
            np.testing.assert_allclose(one[name], other[name], rtol=0, atol=atol, err_msg=name)


def losses(place, name):
    return [json.loads(line)["loss"] for line in (place / name / "history.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def printed(place):
    """What the runs on JAX printed, and those on TensorFlow; then both go on with a run of the other."""
    half = {"num_train_steps": 12, "num_warmup_steps": 2}
    phase = {"train_files": str(place / "unmasked"), "num_train_steps": 6}
    bits = {"dtype": "mixed_bfloat16"}
    fifty = {"start": "start", "num_train_steps": 50, "num_warmup_steps": 5, "save_checkpoints_steps": 50}
    on_jax = [
        run(place, "whole", **AVERAGED),
        run(place, "stopped", stop_at=7, **AVERAGED),
        run(place, "stopped", **AVERAGED),
        run(place, "best", keep_best=True, eval_steps=3, **AVERAGED),
        run(place, "four_at_once", steps_per_execution=4, **AVERAGED),
        run(place, "16_bits", **bits),
        run(place, "16_bits_stopped", stop_at=6, **bits),
        run(place, "16_bits_stopped", **bits),
        run(place, "phases", records="unmasked", phase2=phase, **half),
        run(place, "phases_stopped", records="unmasked", phase2=phase, stop_at=15, **half),
        run(place, "phases_stopped", records="unmasked", phase2=phase, **half),
        run(place, "fifty", **fifty),
        run(place, "fifty_parts", gradient_accumulation_steps=4, **fifty),
        run(place, "fifty_devices", devices="data_parallel", **fifty),
        run(place, "odd", devices="data_parallel", train_batch_size=7),
        run(place, "from_jax", start="start", stop_at=7),
    ]
    printed = carry_out(place, "jax", on_jax)
    on_tensorflow = [
        run(place, "fifty_tensorflow", **fifty),
        run(place, "tensorflow", start="start"),
        run(place, "from_jax", start="start"),
        run(place, "from_tensorflow", start="start", stop_at=7),
    ]
    printed += carry_out(place, "tensorflow", on_tensorflow)
    other = run(place, "from_tensorflow", start="start", optimizer={"optimizer": "lamb"})
    return printed + carry_out(place, "jax", [other, run(place, "from_tensorflow", start="start")])


@needs_jax
@pytest.mark.slow
@pytest.mark.parametrize(
    ("whole", "other"),
    [("whole", "stopped"), ("whole", "best"), ("whole", "four_at_once"), ("16_bits", "16_bits_stopped")]
    + [("phases", "phases_stopped")],
)
def test_a_run_that_is_stopped_evaluated_or_called_less_often_ends_bit_equal(place, printed, whole, other):
    assert_same_states(place / whole, place / other, RunFolder(place / whole).latest_step())


@needs_jax
@pytest.mark.slow
def test_sigterm_ends_a_run_with_its_code_and_the_best_weights_are_kept(place, printed):
    assert "stopped with 143" in printed
    assert "going on from step 7 of 12" in printed
    assert json.loads((place / "best" / "best.json").read_text())["step"] == 12
    assert not (place / "best" / "best_weights.npz").exists()


@needs_jax
@pytest.mark.slow
def test_two_devices_and_four_parts_give_the_losses_and_weights_of_one(place, printed):
    for name in ("fifty_devices", "fifty_parts"):
        np.testing.assert_allclose(losses(place, name), losses(place, "fifty"), rtol=0, atol=2e-6)
        assert_close_weights(place, name, "fifty", 2e-6)
    assert "A batch of 7 cannot be divided evenly among 2 device(s)" in printed


@needs_jax
@pytest.mark.slow
def test_fifty_losses_are_those_of_tensorflow(place, printed):
    np.testing.assert_allclose(losses(place, "fifty"), losses(place, "fifty_tensorflow"), rtol=0, atol=1e-4)


@needs_jax
@pytest.mark.slow
def test_each_backend_goes_on_with_a_run_of_the_other(place, printed):
    for name in ("from_jax", "from_tensorflow"):
        assert printed.count(f"{name}: going on from step 7 of 12") == 1
        assert_close_weights(place, name, "tensorflow", 1e-6)
    assert "optimizer was 'adamw' and is now 'lamb'" in printed
