"""The log and the reports of a run: speed, gradients, waiting for input, losses that are not numbers."""

import logging
import signal
import subprocess
import sys
import time
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from places import TESTS
from pretraining_runs import RUN, pretrain
from slow_parameters import slow_except
from tiny_pretraining import CONFIG, LENGTH, VOCABULARY, write_records

from keras_bert.optimization import AdamW
from keras_bert.program.errors import InputError
from keras_bert.records.datasets import pretraining_dataset
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.training import callbacks
from keras_bert.training.callbacks import TIMED, read_history
from keras_bert.training.input_probe import InputProbe
from keras_bert.training.resumable_fit import compile_for_training, resumable_fit
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.run_options import RunOptions
from keras_bert.training.throughput import measured_peak

STILL = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
RUN = {**RUN, "config": STILL, "learning_rate": 5e-5, "num_train_steps": 6, "num_warmup_steps": 0}


@pytest.fixture(scope="module")
def lines(records, tmp_path_factory):
    """The log lines of a run, one per update."""
    path = tmp_path_factory.mktemp("run") / "run"
    pretrain(path, records, **RUN)
    return read_history(path / "history.jsonl")


def test_every_line_has_all_values(lines):
    losses = {"loss", "masked_lm_loss", "next_sentence_loss", "masked_lm_accuracy", "next_sentence_accuracy"}
    for line in lines:
        assert set(line) == {"step", "learning_rate", "gradient_norm", *losses, *TIMED}
        assert 0 <= line["input_wait"] <= 1


def test_tokens_and_operations_are_those_of_the_formulas(lines):
    # Rows of 10 tokens without padding. A layer has four matrices of 16 x 16, two of 16 x 32, and attention over 10
    # columns. A row has two masked tokens; each takes a matrix of 16 x 16 and one of 16 x 13.
    layer, head = 4 * 16 * 16 + 2 * 16 * 32, 16 * 16 + 16 * len(VOCABULARY)
    of_row = 6 * (layer * LENGTH + head * 2) + 12 * 16 * LENGTH * LENGTH
    for line in lines:
        # The log has two digits behind the point.
        rows = pytest.approx(line["sequences_per_second"], rel=1e-3, abs=0.006)
        assert line["tokens_per_second"] / LENGTH == rows
        assert line["model_flops_per_second"] / of_row == rows
        share = line["model_flops_per_second"] / measured_peak("float32")
        assert line["share_of_measured_peak"] == pytest.approx(share, abs=1e-5)


def test_the_gradient_norm_is_that_before_clipping(records, lines):
    keras.utils.set_random_seed(7)
    model = BertPretrainer(STILL)
    batch = next(iter(pretraining_dataset(records, 16, seed=7)))
    with tf.GradientTape() as tape:
        loss = sum(term.value for term in model.loss_terms(batch, None, model(batch, training=True), None))
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_variables])
    squares = [np.square(tf.convert_to_tensor(gradient).numpy().astype(np.float64)).sum() for gradient in gradients]
    assert lines[0]["gradient_norm"] == pytest.approx(np.sqrt(sum(squares)), rel=1e-4)
    assert lines[0]["gradient_norm"] > 1.0, "otherwise clipping would have no effect"


def test_the_measured_peak_is_measured_once():
    assert measured_peak("float32") == measured_peak("float32") > 1e8


def test_a_run_above_the_measured_peak_says_so_once_and_logs_at_most_100_percent(
    eagerly, tmp_path, batch, monkeypatch, caplog
):
    monkeypatch.setattr(callbacks, "measured_peak", lambda dtype: 1000.0)
    caplog.set_level(logging.INFO)
    lines = fit(tmp_path / "run", tf.data.Dataset.from_tensors(batch).repeat())
    assert lines[0]["share_of_measured_peak"] == 1
    assert all(0 < line["share_of_measured_peak"] <= 1 for line in lines)
    assert caplog.text.count("own best speed is the peak") == 1


def fit(folder, dataset, num_train_steps=8, callbacks=(), steps_per_execution=1, **options):
    model = BertPretrainer(CONFIG)
    run = RunOptions(save_checkpoints_steps=100, steps_per_execution=steps_per_execution)
    compile_for_training(model, AdamW(1e-3), run, with_xla=False)
    resumable_fit(
        model,
        lambda start_step: dataset,
        RunFolder(folder, {"run": "test"}),
        run,
        num_train_steps=num_train_steps,
        batch_size=16,
        first_callbacks=callbacks,
        **options,
    )
    return read_history(folder / "history.jsonl")


@pytest.fixture(scope="module")
def batch(records):
    return next(iter(pretraining_dataset(records, 16)))


def slow(batch, seconds, only=None):
    """Endless batches. Each takes some time, or only the one with a given number does."""

    def give():
        for number in range(10_000):
            if only is None or number == only:
                time.sleep(seconds)
            yield batch

    signature = tf.nest.map_structure(tf.TensorSpec.from_tensor, batch)
    batches = tf.data.Dataset.from_generator(give, output_signature=signature)
    return batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))


class Work(keras.callbacks.Callback):
    """Spends time that is not spent waiting for a batch."""

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.1)


def test_waiting_for_input_is_distinguished_from_computing(batch, tmp_path):
    waiting = fit(tmp_path / "waiting", slow(batch, 0.2), num_train_steps=4)
    assert all(line["input_wait"] > 0.5 for line in waiting[1:])
    endless = tf.data.Dataset.from_tensors(batch).repeat()
    computing = fit(tmp_path / "computing", endless, num_train_steps=4, callbacks=[Work()])
    assert all(line["input_wait"] < 0.2 for line in computing[1:])


def test_waiting_is_measured_where_operations_must_be_deterministic(batch, monkeypatch):
    def refuse():
        raise tf.errors.FailedPreconditionError(None, None, "Timestamp cannot be called when determinism is enabled")

    monkeypatch.setattr(tf, "timestamp", refuse)
    probe = InputProbe("nowhere")
    assert len(list(probe.measure(slow(batch, 0.1)).take(3))) == 3
    assert probe.sums()["batches"] == 3
    assert probe.sums()["wait_seconds"] > 0.25


@pytest.mark.parametrize("steps_per_execution", slow_except([1], [1, 2]))
def test_a_strategy_with_one_device_counts_a_batch_in_its_step(batch, tmp_path, steps_per_execution):
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        lines = fit(
            tmp_path / "run", tf.data.Dataset.from_tensors(batch).repeat(), steps_per_execution=steps_per_execution
        )
    assert [line["step"] for line in lines] == list(range(steps_per_execution, 9, steps_per_execution))
    for line in lines:
        assert line["tokens_per_second"] == pytest.approx(LENGTH * line["sequences_per_second"], rel=1e-3)


def test_a_slow_input_is_not_stuck(capsys):
    probe, batches = InputProbe("nowhere", stuck_seconds=1.2), iter(range(10))

    def look_again(interval):  # a batch is awaited at every look, but each time another one
        assert interval == 0.3
        number = next(batches, 10)
        if number < 10:
            probe._num_requested.assign_add(1.0)
            probe._sums.assign_add([float(number > 0), 0.0, 0.0, 0.0, 0.0])
        return number == 10

    probe._is_done = types.SimpleNamespace(wait=look_again)
    probe._report_waits()
    assert probe.pending_batch() == 10
    assert capsys.readouterr().err == ""


def test_a_stuck_input_is_reported_and_training_goes_on_waiting(eagerly, batch, tmp_path, capsys):
    options = {"stuck_input_seconds": 0.4, "source": "the records of this test"}
    assert len(fit(tmp_path / "run", slow(batch, 1.5, only=5), **options)) == 8
    err = capsys.readouterr().err
    assert "No batch for " in err
    assert "training waits for batch 6 since its start, from the records of this test. It goes on waiting." in err


STUCK = """
import pathlib, sys, threading
sys.path.insert(0, {tests!r})
from training import test_watching as own

batch = next(iter(own.pretraining_dataset({records!r}, 16)))
never = threading.Event()
three = iter(range(3))

def give():
    for number in three:
        yield batch
    print("stuck", flush=True)
    never.wait()

signature = own.tf.nest.map_structure(own.tf.TensorSpec.from_tensor, batch)
stuck = own.tf.data.Dataset.from_generator(give, output_signature=signature)
own.fit(pathlib.Path({run!r}), stuck.apply(own.tf.data.experimental.assert_cardinality(-1)))
"""


@pytest.mark.slow
def test_sigterm_ends_a_run_whose_input_is_stuck(records, tmp_path):
    run = tmp_path / "run"
    program = STUCK.format(tests=str(TESTS), records=records, run=str(run))
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout.readline() == "stuck\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 143
    assert out.endswith("Stopped by SIGTERM. The same command goes on from step 3.\n")
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-00000003"]


@pytest.mark.parametrize("steps_per_execution", slow_except([4], [1, 4]))
def test_the_batch_of_a_loss_that_is_not_a_number_can_be_replayed(tmp_path, steps_per_execution):
    path = tmp_path / "train.tfrecord"
    write_records(path)
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    broken = tf.train.Example.FromString(records[40])
    broken.features.feature["masked_lm_weights"].float_list.value[1] = 3e38  # finite, but its loss is not
    records[40] = broken.SerializeToString()
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    # The order of the records determines the step.
    dataset = pretraining_dataset(str(path), 16, seed=7)
    steps = [(batch["masked_lm_weights"] > 1e38).numpy().any() for batch in dataset.take(4)]
    step = steps.index(True) + 1

    with pytest.raises(InputError, match="The loss is (nan|inf) at step") as caught:
        pretrain(tmp_path / "run", str(path), **RUN, steps_per_execution=steps_per_execution)
    assert "Use a lower learning_rate, or a longer warm-up." in str(caught.value)
    assert f"at step {max(step, steps_per_execution)}." in str(caught.value)
    kept = tmp_path / "run" / f"batch_of_step_{step}.npz"
    assert str(kept) in str(caught.value)
    assert not (tmp_path / "run" / "model").exists()

    with np.load(kept) as arrays:
        batch = dict(arrays)
    model = BertPretrainer(STILL)
    model.compile(optimizer=None, run_eagerly=True)
    assert not np.isfinite(model.test_on_batch(batch, return_dict=True)["loss"])
    batch["masked_lm_weights"] = np.where(batch["masked_lm_weights"] > 1e38, 0, batch["masked_lm_weights"])
    model.reset_metrics()
    assert np.isfinite(model.test_on_batch(batch, return_dict=True)["loss"])
