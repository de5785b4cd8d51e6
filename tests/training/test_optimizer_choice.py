"""The update options of all runs: optimiser, learning rates, averaged weights, float16."""

import json

import classifier_runs
import keras
import numpy as np
import pytest
from classifier_command import from_scratch, write_files
from optimization.test_optimization import random_problem, to_numpy
from pretraining_runs import (
    RUN,
    assert_same_states,
    assert_same_weights,
    callbacks_in_runs,
    pretrain,
    train_until_killed,
)
from tiny_pretraining import CONFIG
from training.test_fine_tuning import CONFIG as TEXT_CONFIG
from training.test_fine_tuning import RUN as TEXT_RUN
from training.test_fine_tuning import VOCABULARY as TEXT_VOCABULARY
from training.test_fine_tuning import reviews

from keras_bert.optimization import (
    LAMB,
    AdamW,
    Muon,
    StableAdamW,
    WarmupConstant,
    WarmupCosineDecay,
    WarmupLinearDecay,
    WarmupPolynomialDecay,
    WarmupTrapezoid,
)
from keras_bert.program.errors import InputError
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.training.fine_tuning import FineTuningOptions
from keras_bert.training.optimizer_choice import OptimizerChoice, averaged_weights, take_averages
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.starting_point import StartingPoint
from run_scripts import run_classifier

RUN = {**RUN, "num_train_steps": 6, "save_checkpoints_steps": 2}


@pytest.fixture
def float16():
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({}, WarmupLinearDecay(1e-3, 40, 5)),
        ({"learning_rate_schedule": "polynomial"}, WarmupPolynomialDecay(1e-3, 40, 5)),
        ({"learning_rate_schedule": "polynomial", "decay_power": 0.5}, WarmupPolynomialDecay(1e-3, 40, 5, power=0.5)),
        ({"learning_rate_schedule": "cosine"}, WarmupCosineDecay(1e-3, 40, 5)),
        ({"learning_rate_schedule": "trapezoid"}, WarmupTrapezoid(1e-3, 40, 5, num_decay_steps=4)),
        (
            {"learning_rate_schedule": "trapezoid", "num_decay_steps": 9},
            WarmupTrapezoid(1e-3, 40, 5, num_decay_steps=9),
        ),
        ({"learning_rate_schedule": "constant"}, WarmupConstant(1e-3, 40, 5)),
    ],
)
def test_the_schedule_is_the_one_that_was_named(choice, expected):
    found = OptimizerChoice(**choice).schedule(1e-3, 40, 5)
    assert type(found) is type(expected)
    assert found.get_config() == expected.get_config()


def test_the_optimizer_is_the_one_that_was_named():
    adamw = OptimizerChoice().make(0.1, beta_2=0.98, bias_correction=False, layer_decay=0.9)
    assert type(adamw) is AdamW
    assert (adamw.beta_2, adamw.bias_correction, adamw.layer_decay, adamw.use_ema) == (0.98, False, 0.9, False)
    lamb = OptimizerChoice(optimizer="lamb", ema_momentum=0.9).make(0.1, beta_2=0.98)
    assert type(lamb) is LAMB
    assert (lamb.beta_2, lamb.use_ema, lamb.ema_momentum) == (0.98, True, 0.9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OptimizerChoice(decay_power=0.5), "is for the learning_rate_schedule polynomial, but it is linear"),
        (lambda: OptimizerChoice(learning_rate_schedule="cosine", num_decay_steps=3), "num_decay_steps is for .* trap"),
        (lambda: OptimizerChoice("lamb").make(0.1, layer_decay=0.9), "no place in the optimizer lamb.* Received: 0.9"),
    ],
)
def test_invalid_choices_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(("name", "expected"), [("stable_adamw", StableAdamW), ("muon", Muon)])
def test_the_other_optimizers_correct_the_bias_and_take_layer_decay(name, expected):
    made = OptimizerChoice(optimizer=name).make(0.1, beta_2=0.98, bias_correction=False, layer_decay=0.9)
    assert type(made) is expected
    assert (made.beta_2, made.bias_correction, made.layer_decay) == (0.98, True, 0.9)


class Weights:
    """The part of a model that averaging needs."""

    def __init__(self, weights, optimizer):
        self.trainable_variables = [keras.Variable(weight, dtype="float64") for weight in weights]
        self.optimizer = optimizer
        optimizer.build(self.trainable_variables)

    def values(self):
        return [to_numpy(variable) for variable in self.trainable_variables]


@pytest.mark.parametrize("make", [AdamW, LAMB])
def test_the_average_is_that_of_the_weights_after_each_update(make):
    import tensorflow as tf

    weights, gradients = random_problem(num_steps=5)
    model = Weights(weights, make(0.1, use_ema=True, ema_momentum=0.8))
    step = tf.function(lambda values: model.optimizer.apply(values, model.trainable_variables))
    averages = None
    for step_gradients in gradients:
        step([tf.constant(gradient) for gradient in step_gradients])
        after = model.values()
        # The average starts with the weights after the first update.
        averages = after if averages is None else [0.8 * a + 0.2 * w for a, w in zip(averages, after, strict=True)]

    with averaged_weights(model):
        inside = model.values()
    for left, right in zip(model.values(), after, strict=True):
        np.testing.assert_array_equal(left, right)
    take_averages(model)
    for one, other, expected in zip(inside, model.values(), averages, strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-7)
        np.testing.assert_array_equal(one, other)
    assert not np.allclose(inside[0], after[0])


@pytest.mark.parametrize(("num_train_steps", "num_decay_steps"), [(100, 10), (109, 10), (19, 1), (9, 1)])
def test_a_trapezoid_falls_in_the_last_tenth_of_the_run(num_train_steps, num_decay_steps):
    choice = OptimizerChoice(learning_rate_schedule="trapezoid")
    assert choice.schedule(1.0, num_train_steps, 0).num_decay_steps == num_decay_steps


def test_without_averages_or_updates_the_weights_stay():
    weights, _ = random_problem(num_steps=1)
    for optimizer in (AdamW(0.1), LAMB(0.1, use_ema=True), keras.optimizers.LossScaleOptimizer(AdamW(use_ema=True))):
        model = Weights(weights, optimizer)
        take_averages(model)
        for left, right in zip(model.values(), weights, strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.slow
def test_a_run_ends_with_the_averaged_weights_and_a_kill_changes_nothing(records, tmp_path, monkeypatch):
    run = {**RUN, "optimizer": OptimizerChoice("lamb", "polynomial", decay_power=0.5, ema_momentum=0.8)}
    seen = []

    class See(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append([variable.value.numpy() for variable in self.model.trainable_variables])

    with callbacks_in_runs(monkeypatch, See()):
        model = pretrain(tmp_path / "whole", records, **run)
    averages = seen[0]
    for weights in seen[1:]:
        averages = [0.8 * average + 0.2 * weight for average, weight in zip(averages, weights, strict=True)]
    saved = BertPretrainer.from_pretrained(tmp_path / "whole" / "model")
    for variable, copy, average in zip(model.trainable_variables, saved.trainable_variables, averages, strict=True):
        np.testing.assert_allclose(variable.value.numpy(), average, atol=1e-6)
        np.testing.assert_array_equal(variable.value.numpy(), copy.value.numpy())

    train_until_killed(monkeypatch, 3, tmp_path / "killed", records, **run)
    pretrain(tmp_path / "killed", records, **run)
    assert_same_weights(tmp_path / "whole" / "model", tmp_path / "killed" / "model")

    # Killed before the model folder was written: the last checkpoint has the trained weights, not the averages.
    (tmp_path / "killed" / "model").rename(tmp_path / "lost")
    pretrain(tmp_path / "killed", records, **run)
    assert_same_weights(tmp_path / "lost", tmp_path / "killed" / "model")
    run["optimizer"] = OptimizerChoice("lamb", "polynomial", 0.5, None, 0.9)
    with pytest.raises(InputError, match="ema_momentum was 0.8 and is now 0.9"):
        pretrain(tmp_path / "killed", records, **run)


def test_the_scale_of_float16_is_part_of_the_checkpoint(tmp_path, float16):
    def compiled(scale):
        model = BertPretrainer(CONFIG)
        model.compile(keras.optimizers.LossScaleOptimizer(AdamW(0.1), initial_scale=scale, dynamic_growth_steps=3))
        return model

    model, run_folder = compiled(8.0), RunFolder(tmp_path / "run", {})
    model.optimizer.build(model.trainable_variables)
    model.optimizer.apply([keras.ops.ones(variable.shape) for variable in model.trainable_variables])
    infinite = [keras.ops.full(variable.shape, float("inf")) for variable in model.trainable_variables]
    model.optimizer.apply(infinite)
    before = [to_numpy(variable) for variable in model.trainable_variables]
    assert all(np.isfinite(value).all() for value in before)
    model.optimizer.apply([keras.ops.ones(variable.shape) for variable in model.trainable_variables])
    num_variables = len(model.optimizer.variables)
    for step in (1, 2):
        run_folder.save_checkpoint(model, step)
    assert len(model.optimizer.variables) == num_variables

    other = compiled(1.0)
    assert run_folder.restore_checkpoint(other) == 2
    assert (float(other.optimizer.dynamic_scale), int(other.optimizer.step_counter)) == (4.0, 1)
    assert int(other.optimizer.iterations) == 2  # the skipped update does not count


@pytest.mark.slow
def test_the_averaged_weights_are_evaluated_and_kept_and_training_does_not_notice(tmp_path, capsys):
    options = {name: value for name, value in TEXT_RUN.items() if name not in ("config", "vocabulary")}
    options |= {"learning_rate": 1e-2, "optimizer": OptimizerChoice(ema_momentum=0.5)}
    train, dev, start = reviews(), reviews(24, seed=1), StartingPoint(TEXT_CONFIG, TEXT_VOCABULARY)
    watched = {"keep_best": True, "eval_steps": 4, "main_score": "matthews"}
    classifier_runs.train_classifier(tmp_path / "kept", train, start, FineTuningOptions(**options, **watched), dev=dev)
    assert "The averaged weights are evaluated and kept" in capsys.readouterr().out
    classifier_runs.train_classifier(tmp_path / "plain", train, start, FineTuningOptions(**options))
    assert_same_states(tmp_path / "kept", tmp_path / "plain", 12)

    lines = [json.loads(line) for line in (tmp_path / "kept" / "evaluations.jsonl").read_text().splitlines()]
    best = json.loads((tmp_path / "kept" / "best.json").read_text())
    results = classifier_runs.evaluate_classifier(tmp_path / "kept", dev, max_seq_length=16)
    assert results["eval_loss"] == pytest.approx(best["loss"], rel=1e-5)
    # The last evaluation has the scores of the averages that the other run has written.
    assert lines[-1]["step"] == 12
    results = classifier_runs.evaluate_classifier(tmp_path / "plain", dev, max_seq_length=16)
    assert results["eval_loss"] == pytest.approx(lines[-1]["loss"], rel=1e-5)


def test_fine_tuning_commands_have_the_flags(tmp_path, done_here, refused_here, eagerly, float16):
    folder = write_files(tmp_path)
    flags = [f"--data_dir={folder}", *from_scratch(folder), "--do_train", "--num_train_epochs=0.3"]
    flags += ["--optimizer=lamb", "--learning_rate_schedule=trapezoid", "--num_decay_steps=1"]
    run = ["--ema_momentum=0.5", "--precision=bfloat16", f"--output_dir={folder}/out"]
    printed = done_here(run_classifier, *flags, *run)
    settings = json.loads((folder / "out" / "run.json").read_text())
    found = {name: settings[name] for name in OptimizerChoice().settings()}
    assert found == OptimizerChoice("lamb", "trapezoid", num_decay_steps=1, ema_momentum=0.5).settings()
    assert settings["dtype"] == "mixed_bfloat16"
    printed = refused_here(run_classifier, *flags, "--decay_power=0.5", f"--output_dir={folder}/other")
    assert printed.err.splitlines()[-1].startswith("error: decay_power is for the learning_rate_schedule polynomial")
    assert not (folder / "other").exists()
