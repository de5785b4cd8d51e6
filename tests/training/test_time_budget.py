"""A run with a budget of hours: the learning rate follows the clock, which checkpoints keep."""

import functools
import itertools
import json
import os
import types

import keras
import numpy as np
import pytest
from pretraining_runs import RUN, Killed, kill, pretrain, train_until_killed

from keras_bert.optimization import AdamW, WarmupLinearDecay
from keras_bert.program.errors import InputError
from keras_bert.training import pretraining
from keras_bert.training.callbacks import read_history
from keras_bert.training.optimizer_choice import OptimizerChoice
from keras_bert.training.pretraining_evaluation import PretrainingEvaluation
from keras_bert.training.pretraining_options import PretrainingRunOptions
from keras_bert.training.pretraining_phase import PretrainingPhase
from keras_bert.training.time_budget import TimeBudget

# Ten readings of the clock take an hour.
RUN = {**RUN, "num_train_steps": 100, "num_warmup_steps": 20, "save_checkpoints_steps": 2, "max_train_hours": 1.0}


def six_minutes_more():
    return functools.partial(next, itertools.count(5000.0, 360.0))


def budget_of(schedule, num_train_steps, max_hours=1.0):
    """Returns a budget, its model and the list of the steps at which a checkpoint was saved."""
    saved, model = [], types.SimpleNamespace(optimizer=AdamW(0.0), stop_training=False)
    model.optimizer.build([keras.Variable(np.ones(2), name="kernel")])
    folder = types.SimpleNamespace(save_checkpoint=lambda model, step: saved.append(step))
    budget = TimeBudget(folder, model, schedule, num_train_steps, max_hours, clock=six_minutes_more())
    budget.set_model(model)
    return budget, model, saved


def test_the_rate_is_that_of_the_share_of_the_hours_and_the_run_ends_with_them():
    schedule = WarmupLinearDecay(1.0, 1000, 200)
    budget, model, saved = budget_of(schedule, 1000)
    budget.start_at(0, None)
    budget.on_train_begin()
    rates = []
    while not model.stop_training:
        budget.on_train_batch_end(len(rates), {})
        rates.append(float(keras.ops.convert_to_numpy(model.optimizer.learning_rate)))
    assert rates == pytest.approx([0.5, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0], abs=1e-6)
    assert (saved, budget.is_used_up) == ([10], True)


def test_the_hours_of_a_checkpoint_count():
    budget, model, saved = budget_of(WarmupLinearDecay(1.0, 1000, 200), 1000)
    (hours,) = (variable for variable in model.optimizer.variables if variable.name == "trained_hours")
    hours.assign(0.5)  # as restoring a checkpoint does
    budget.start_at(5, None)
    budget.on_train_begin()
    for batch in itertools.takewhile(lambda _: not model.stop_training, itertools.count()):
        budget.on_train_batch_end(batch, {})
    assert saved == [10]


def test_updates_end_the_schedule_if_they_are_made_before():
    budget, model, _ = budget_of(WarmupLinearDecay(1.0, 10), 10, max_hours=1000.0)
    budget.start_at(0, None)
    budget.on_train_begin()
    for step in range(10):
        budget.on_train_batch_end(step, {})
        rate = float(keras.ops.convert_to_numpy(model.optimizer.learning_rate))
        assert rate == pytest.approx(1 - (step + 1) / 10, abs=1e-5)
    assert not model.stop_training


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_warmup_steps": 100}, "shorter than the warm-up, .* Received: 100 / 100. About a tenth"),
        ({"second_phase": PretrainingPhase("long", 1)}, "max_train_hours is for a run of one phase"),
        ({"extend_to": 200}, "max_train_hours is for a run of one phase that is not extended"),
    ],
)
def test_an_impossible_budget_is_refused(changes, message):
    options = {"num_train_steps": 100, "num_warmup_steps": 20, "max_train_hours": 1.0}
    with pytest.raises(InputError, match=message):
        PretrainingRunOptions(**options | changes)


@pytest.mark.slow
def test_a_resumed_run_goes_on_with_the_hours_that_are_left(records, tmp_path, monkeypatch, capsys):
    run = {**RUN, "optimizer": OptimizerChoice("stable_adamw"), "batch_growth": (8,), "batch_growth_steps": 3}
    run["keep_best"] = PretrainingEvaluation(records, max_eval_steps=1)
    path = tmp_path / "run"

    def with_clock():
        monkeypatch.setattr(pretraining, "TimeBudget", functools.partial(TimeBudget, clock=six_minutes_more()))

    with_clock()
    train_until_killed(monkeypatch, 2, path, records, **run)
    assert os.listdir(path / "checkpoints") == ["step-00000002"]

    with_clock()
    with monkeypatch.context() as patch:
        patch.setattr(pretraining, "save_trained", lambda *arguments: kill())
        with pytest.raises(Killed):
            pretrain(path, records, **run)
    assert "1 hours are used up: training ends at step 10." in capsys.readouterr().err
    last = read_history(path / "history.jsonl")[-1]
    assert (last["step"], last["learning_rate"]) == (10, pytest.approx(1e-3, rel=0.1))  # that of the last update
    assert json.loads((path / "evaluations.jsonl").read_text().splitlines()[-1])["step"] == 10
    pretrain(path, records, **run)
    assert "training ends" not in capsys.readouterr().err
    assert (path / "model").is_dir()
    with pytest.raises(InputError, match="max_train_hours was 1.0 and is now 2.0"):
        pretrain(path, records, **{**run, "max_train_hours": 2.0})
