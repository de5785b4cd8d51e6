"""Keeping the best model does not change pre-training, and a run that is killed and resumed keeps the same model."""

import json

import pytest
from pretraining_runs import RUN, pretrain
from tiny_pretraining import write_records
from training.test_resumable_fit import assert_same_run

from keras_bert.program.errors import InputError
from keras_bert.training.callbacks import read_history
from keras_bert.training.pretraining import evaluate_pretrainer
from keras_bert.training.pretraining_evaluation import PretrainingEvaluation

STEPS = 12
RUN = {**RUN, "learning_rate": 0.3, "num_warmup_steps": 12}  # so high that the loss rises


@pytest.fixture(scope="module")
def records(records, tmp_path_factory):
    return records, write_records(tmp_path_factory.mktemp("records") / "eval.tfrecord", seed=1)


def train(path, records, **changes):
    evaluation = PretrainingEvaluation(records[1], eval_batch_size=24)
    return pretrain(path, records[0], **RUN, keep_best=evaluation, eval_steps=3, **changes)


@pytest.fixture(scope="module")
def whole(records, tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run"
    train(path, records)
    return path


def evaluations(path):
    return read_history(path / "evaluations.jsonl")


def test_the_model_with_the_lowest_loss_is_kept(whole, records):
    lines = evaluations(whole)
    assert [line["step"] for line in lines] == [3, 6, 9, 12]
    best = min(lines, key=lambda line: line["loss"])
    assert best["step"] < STEPS
    results = evaluate_pretrainer(whole, records[1], eval_batch_size=24)
    assert results["global_step"] == best["step"]
    for name in ("loss", "masked_lm_accuracy", "next_sentence_loss"):
        assert results[name] == pytest.approx(best[name], abs=1e-6)
    assert not (whole / "best_weights.npz").exists()


def test_evaluating_changes_nothing_in_the_training(whole, records, tmp_path):
    pretrain(tmp_path / "run", records[0], **RUN)
    assert_same_run(whole, tmp_path / "run", STEPS)


def test_other_records_to_evaluate_on_are_another_run(whole, records):
    others = PretrainingEvaluation(records[0], eval_batch_size=24)
    with pytest.raises(InputError, match="keep_best was"):
        pretrain(whole, records[0], **RUN, keep_best=others, eval_steps=3)


def test_evaluating_without_keeping_the_best_changes_nothing_and_tensorboard_gets_the_scores(
    eagerly, records, tmp_path
):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    path = tmp_path / "run"
    evaluation = PretrainingEvaluation(records[1], eval_batch_size=24)
    pretrain(path, records[0], **RUN, evaluation=evaluation, tensorboard=True)
    lines = evaluations(path)
    assert [line["step"] for line in lines] == [4, 8, 12]
    assert json.loads((path / "run.json").read_text())["keep_best"] is None
    results = evaluate_pretrainer(path, records[1], eval_batch_size=24)
    assert results["loss"] == pytest.approx(lines[-1]["loss"], abs=1e-6)
    events = accumulator.EventAccumulator(str(path / "tensorboard"), size_guidance={"tensors": 0})
    events.Reload()
    # The last number is that of `evaluate_pretrainer`.
    assert [event.step for event in events.Tensors("eval_masked_lm_loss")] == [4, 8, 12, 12]
    card = (path / "model" / "README.md").read_text()
    assert "| train records | 64 |" in card
    assert f"| masked\\_lm\\_loss | {results['masked_lm_loss']:.4f} |" in card
