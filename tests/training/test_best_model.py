"""The best weights are kept, also after ties and NaN. Patience ends training. A kill loses neither."""

import functools
import math

import keras
import numpy as np
import pytest

from keras_bert.program.errors import InputError
from keras_bert.training.evaluations import BestModel, remove_best_weights
from keras_bert.training.finished_runs import best_step, write_eval_results
from keras_bert.training.run_folder import RunFolder


class Weights:
    """A model of one weight, which is its step."""

    def __init__(self):
        self.weights = [keras.Variable(0.0)]
        self.stop_training = False


def run(folder, scores, *, start_step=0, num_steps=None, every=1, **options):
    """Trains `len(scores)` updates whose evaluations give these scores."""
    model = Weights()
    num_steps = num_steps or start_step + len(scores)
    found = ({"f1": score, "loss": 0.5} for score in scores)
    evaluate = functools.partial(next, found)
    best = BestModel(folder, start_step, num_steps, model, evaluate, "f1", evaluate_steps=every, **options)
    best.set_model(model)
    for batch in range(num_steps - start_step):
        model.weights[0].assign(start_step + batch + 1)
        best.on_train_batch_end(batch)
        if model.stop_training:
            break
    return best, model


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run", {"a": 1})


def test_an_extended_run_counts_no_evaluation_before_its_extension(folder):
    run(folder, [0.9, 0.8])
    best, model = run(folder, [0.1, 0.3, 0.2, 0.1, 0.4], start_step=2, after_step=2, patience=2)
    assert (best.restore(), best.best["f1"]) == (4, 0.3)
    assert model.stop_training
    assert [line["step"] for line in best.evaluations] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("scores", "less_is_better", "step"),
    [
        ([0.1, 0.3, 0.2], False, 2),
        ([0.3, 0.3], False, 1),
        ([math.nan, -0.5, math.nan], False, 2),
        ([math.nan, math.nan], False, 1),
        ([0.5, math.nan, 0.3, 0.4, 0.3], True, 3),
    ],
)
def test_the_first_of_the_best_is_kept(folder, scores, less_is_better, step):
    best, model = run(folder, scores, less_is_better=less_is_better)
    assert best.restore() == step
    assert float(model.weights[0].value) == step
    assert best_step(folder) == step


def test_evaluations_run_at_intervals_and_after_the_last_update(folder):
    best, _ = run(folder, [0.1, 0.2, 0.3], num_steps=7, every=3)
    assert [line["step"] for line in best.evaluations] == [3, 6, 7]


def test_training_ends_when_the_score_stops_improving(folder, capsys):
    best, model = run(folder, [0.1, 0.5, 0.4, 0.5, 0.9], num_steps=9, patience=2)
    assert model.stop_training
    assert [line["step"] for line in best.evaluations] == [1, 2, 3, 4]
    assert best.restore() == 2
    assert "No better f1 in 2 evaluations: training ends." in capsys.readouterr().err


def test_a_run_that_goes_on_knows_its_best_score_and_its_patience(folder):
    run(folder, [0.1, 0.5, 0.4, 0.6], num_steps=4)
    # The newest checkpoint is that of step 3: step 4 comes again.
    best, model = run(folder, [0.3], start_step=3, num_steps=9, patience=2)
    assert model.stop_training
    assert [line["f1"] for line in best.evaluations] == [0.1, 0.5, 0.4, 0.3]


def test_a_run_that_was_killed_after_its_end_does_not_go_on(folder):
    run(folder, [0.5, 0.4, 0.4], num_steps=9, patience=2)
    best = BestModel(folder, 3, 9, Weights(), dict, "f1", evaluate_steps=1, patience=2)
    assert best.is_exhausted
    assert not BestModel(folder, 3, 9, Weights(), dict, "f1", evaluate_steps=1).is_exhausted


def test_results_name_the_step_of_the_weights_that_are_evaluated(folder, capsys):
    assert write_eval_results(folder, {"f1": 0.5})["global_step"] == 0  # no checkpoint
    best, _ = run(folder, [0.1, 0.5, 0.4])
    assert best.restore() == write_eval_results(folder, {"f1": 0.5})["global_step"] == 2
    assert "global_step = 2" in capsys.readouterr().out


def test_missing_weights_are_reported(folder):
    best, _ = run(folder, [0.5])
    remove_best_weights(folder)
    with pytest.raises(InputError, match="best_weights.npz does not hold the best weights"):
        best.restore()


def test_an_unknown_score_is_named(folder):
    best = BestModel(folder, 0, 1, Weights(), lambda: {"f1": np.float32(1)}, "f2", evaluate_steps=1)
    with pytest.raises(InputError, match="There is no score 'f2'. Use one of: f1"):
        best.on_train_batch_end(0)
