"""A finished pre-training run goes on with its moments; the rate rises to its peak again and falls to the new end."""

import json
import os
import shutil

import keras
import numpy as np
import pytest
from pretraining_runs import RUN, assert_same_weights, callbacks_in_runs, pretrain, train_until_killed

from keras_bert.optimization import WarmupLinearDecay
from keras_bert.program.errors import InputError
from keras_bert.training.callbacks import read_history
from keras_bert.training.extension import ends_of_run, extended_schedule
from keras_bert.training.optimizer_choice import OptimizerChoice
from keras_bert.training.pretraining_evaluation import PretrainingEvaluation

RUN = {**RUN, "num_train_steps": 4, "num_warmup_steps": 1, "save_checkpoints_steps": 2}


@pytest.fixture(scope="module")
def finished(records, tmp_path_factory):
    """A finished run without `facts.json`."""
    path = tmp_path_factory.mktemp("finished") / "run"
    pretrain(path, records, **RUN)
    os.remove(path / "facts.json")
    return path


def test_the_rate_rises_over_a_hundredth_of_the_new_updates_and_falls_to_the_new_end():
    for kind in ("linear", "cosine", "trapezoid", "polynomial"):
        choice = OptimizerChoice(learning_rate_schedule=kind)
        schedule = extended_schedule(choice.schedule(0.5, 1000, 100), choice, 0.5, [1000, 1400, 2400])
        rates = {step: float(schedule(step)) for step in (50, 1000, 1002, 1004, 1399, 1400, 1405, 1410, 1411, 2400)}
        assert rates[50] == float(choice.schedule(0.5, 1000, 100)(50))
        assert rates[1000] == rates[1400] == rates[2400] == 0.0
        assert (rates[1002], rates[1405]) == (0.25, 0.25)
        assert rates[1004] == pytest.approx(0.5, rel=0.011)
        assert rates[1410] == pytest.approx(0.5, rel=1e-6 if kind != "polynomial" else 0.011)
        assert 0 < rates[1399] < 0.1
        assert rates[1411] <= rates[1410]
    constant = OptimizerChoice(learning_rate_schedule="constant")
    schedule = extended_schedule(constant.schedule(0.5, 10, 0), constant, 0.5, [10, 20])
    assert {float(schedule(step)) for step in range(20)} == {0.5}
    one_step = extended_schedule(WarmupLinearDecay(0.5, 10), OptimizerChoice(), 0.5, [10, 11])
    assert float(one_step(10)) == 0.5


def test_an_extended_run_keeps_the_moments_and_ends_with_the_same_weights_when_killed(
    eagerly, records, finished, tmp_path, monkeypatch, capsys
):
    whole, killed = (shutil.copytree(finished, tmp_path / name) for name in ("whole", "killed"))
    seen = {}

    class See(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            optimizer = self.model.optimizer
            seen[int(optimizer.iterations)] = max(float(v.value.numpy().max()) for _, _, v in optimizer.slots())

    with callbacks_in_runs(monkeypatch, See()):
        pretrain(whole, records, **RUN, extend_to=10)
    assert seen.keys() == {4}
    assert seen[4] > 0
    assert [line["step"] for line in read_history(whole / "history.jsonl")] == list(range(1, 11))
    assert read_history(whole / "history.jsonl")[4]["learning_rate"] == pytest.approx(1e-2)
    assert json.loads((whole / "run.json").read_text())["extended_to"] == [10]
    assert_same_weights(whole / "model-step-4", finished / "model")

    train_until_killed(monkeypatch, 3, killed, records, **RUN, extend_to=10)
    assert not (killed / "model").exists()
    pretrain(killed, records, **RUN)  # the end is stored
    assert "going on from step 6 of 10" in capsys.readouterr().out
    assert_same_weights(whole / "model", killed / "model")
    pretrain(killed, records, **RUN, extend_to=10)
    assert sorted(name for name in os.listdir(killed) if name.startswith("model")) == ["model", "model-step-4"]


@pytest.mark.slow
def test_a_run_that_keeps_the_best_keeps_the_best_of_the_new_updates(records, tmp_path):
    run = {**RUN, "keep_best": PretrainingEvaluation(records, eval_batch_size=64), "learning_rate": 0.3}
    pretrain(tmp_path / "run", records, **run)
    pretrain(tmp_path / "run", records, **run, extend_to=6)
    steps = [line["step"] for line in read_history(tmp_path / "run" / "evaluations.jsonl")]
    assert steps == [2, 4, 6]
    assert json.loads((tmp_path / "run" / "best.json").read_text())["step"] == 6
    assert np.isfinite(json.loads((tmp_path / "run" / "best.json").read_text())["loss"])


def test_what_cannot_be_extended_is_refused(records, finished, tmp_path):
    for end in (2, 4):
        with pytest.raises(InputError, match=f"--extend_to={end} is not above step 4, which the run in .* has reached"):
            pretrain(finished, records, **RUN, extend_to=end)
    with pytest.raises(InputError, match="--extend_to goes on with a finished run, and .*new holds none"):
        pretrain(tmp_path / "new", records, **RUN, extend_to=10)
    with pytest.raises(InputError, match="num_train_steps was 4 and is now 6.*is made longer by --exten"):
        pretrain(finished, records, **{**RUN, "num_train_steps": 6}, extend_to=6)
    begun = shutil.copytree(finished, tmp_path / "begun")
    shutil.rmtree(begun / "checkpoints" / "step-00000004")
    with pytest.raises(InputError, match="has checkpoints up to step 2 of 4.* without --extend_to first"):
        ends_of_run(begun, 4, 10)
    (begun / "run.json").write_text('{"extended_to": "x"}')
    with pytest.raises(InputError, match="extended_to must be a"):
        ends_of_run(begun, 4, None)
