"""The options of fine-tuning: the best model, class weights, frozen parts, LoRA, a teacher."""

import json

import classifier_runs
import numpy as np
import pytest
from pretraining_runs import At, Killed, callbacks_in_runs, kill
from training.test_fine_tuning import CONFIG, RUN, VOCABULARY, reviews

from keras_bert.models.distiller import Distiller
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.examples import TextExamples
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.distillation import distill, teacher_logits
from keras_bert.training import fine_tuning
from keras_bert.training.callbacks import read_history
from keras_bert.training.distillation import Distillation
from keras_bert.training.fine_tuning import FineTuningOptions
from keras_bert.training.starting_point import StartingPoint

TRAIN, DEV = reviews(), reviews(24, seed=1)
OPTIONS = {name: value for name, value in RUN.items() if name not in ("config", "vocabulary")}
START = StartingPoint(CONFIG.replace(num_hidden_layers=2), VOCABULARY)


def train(path, dev=None, examples=TRAIN, start=START, **changes):
    return classifier_runs.train_classifier(path, examples, start, FineTuningOptions(**{**OPTIONS, **changes}), dev=dev)


def weights(model):
    return [weight.value.numpy() for weight in model.weights]


def train_until_killed(monkeypatch, step, *arguments, **changes):
    with callbacks_in_runs(monkeypatch, At(step, kill), module="fine_tuning"), pytest.raises(Killed):
        train(*arguments, **changes)


@pytest.mark.slow
def test_the_best_model_is_kept_and_a_kill_changes_nothing(eagerly, tmp_path, monkeypatch, capsys):
    keep_best = {"keep_best": True, "eval_steps": 2, "num_train_epochs": 3.0, "learning_rate": 1e-2}
    kept = train(tmp_path / "whole", DEV, **keep_best)
    evaluations = read_history(tmp_path / "whole" / "evaluations.jsonl")
    assert [line["step"] for line in evaluations] == [2, 4, 6, 8, 10, 12, 14, 16, 18]
    best = max(evaluations, key=lambda line: line["accuracy"])
    assert json.loads((tmp_path / "whole" / "best.json").read_text())["step"] == best["step"]
    assert not (tmp_path / "whole" / "best_weights.npz").exists()

    train_until_killed(monkeypatch, 8, tmp_path / "killed", DEV, **keep_best)
    again = train(tmp_path / "killed", DEV, **keep_best)
    assert "going on from step 6 of 18" in capsys.readouterr().out
    assert read_history(tmp_path / "killed" / "evaluations.jsonl") == evaluations
    for one, other in zip(weights(kept), weights(again), strict=True):
        np.testing.assert_array_equal(one, other)

    results = classifier_runs.evaluate_classifier(tmp_path / "whole", DEV, max_seq_length=16)
    assert results["eval_accuracy"] == best["accuracy"]
    assert results["eval_loss"] == pytest.approx(best["loss"], rel=1e-5)
    assert results["global_step"] == best["step"]


def test_a_finished_run_is_not_trained_again(eagerly, tmp_path, monkeypatch, capsys):
    first = train(tmp_path / "run", num_train_epochs=0.5)
    monkeypatch.setattr(fine_tuning, "_train_and_save", None)
    again = train(tmp_path / "run", num_train_epochs=0.5)
    assert "the training is finished" in capsys.readouterr().out
    np.testing.assert_array_equal(weights(first)[0], weights(again)[0])


@pytest.mark.slow
def test_frozen_layers_stay_and_lora_is_merged(eagerly, tmp_path, capsys):
    start = SequenceClassifier(START.config, labels=["negative", "positive"])
    start.save_pretrained(tmp_path / "start", VOCABULARY)
    start_at = StartingPoint(init_checkpoint=tmp_path / "start")
    frozen = train(tmp_path / "frozen", start=start_at, freeze_layers=1, layer_decay=0.9)
    assert "numbers are trained" in capsys.readouterr().out
    for one, other in zip(start.encoder.blocks[0].weights, frozen.encoder.blocks[0].weights, strict=True):
        np.testing.assert_array_equal(one.value.numpy(), other.value.numpy())
    train(tmp_path / "lora", start=start_at, lora_rank=2)
    merged = SequenceClassifier.from_pretrained(tmp_path / "lora" / "model")
    one, other = (model.encoder.blocks[0].attention.query.kernel.numpy() for model in (start, merged))
    assert np.linalg.matrix_rank(other - one, tol=1e-5) == 2


def test_balanced_classes_weight_the_examples(tmp_path, monkeypatch):
    rare = TextExamples(["good film"] * 15 + ["bad film"], labels=["positive"] * 15 + ["negative"])
    found = []
    monkeypatch.setattr(fine_tuning, "_train_and_save", lambda model, task, rows, *others: found.append(rows.labels))
    train(tmp_path / "balanced", examples=rare, class_weight="balanced")
    train(tmp_path / "given", examples=rare, class_weight={"negative": 3.0})
    np.testing.assert_allclose(found[0]["example_weights"], [16 / 30] * 15 + [8.0], rtol=1e-6)
    np.testing.assert_array_equal(found[1]["example_weights"], [1.0] * 15 + [3.0])


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    path = tmp_path_factory.mktemp("teacher") / "run"
    train(path, num_train_epochs=25.0)
    return path / "model"


@pytest.mark.slow
def test_a_student_learns_from_its_teacher_and_asks_it_once(teacher, tmp_path, monkeypatch):
    asked = []

    def counted(*arguments):
        asked.append(1)
        return teacher_logits(*arguments)

    monkeypatch.setattr(fine_tuning, "teacher_logits", counted)
    start = StartingPoint(init_checkpoint=teacher, keep_layers=[1])
    distillation = Distillation(teacher, ["soft_targets:0.9", "labels:0.1"])
    options = {"distillation": distillation, "num_train_epochs": 10.0}
    train_until_killed(monkeypatch, 7, tmp_path / "student", start=start, **options)
    student = train(tmp_path / "student", start=start, **options)
    assert len(asked) == 1
    assert student.config.num_hidden_layers == 1
    assert student.evaluate(list(DEV.texts), list(DEV.labels))["accuracy"] > 0.9
    loaded = SequenceClassifier.from_pretrained(tmp_path / "student" / "model")
    assert type(loaded) is SequenceClassifier


def test_a_teacher_of_other_labels_and_texts_without_the_labels_of_a_term_are_refused():
    labels = ("negative", "neutral", "negative")
    teacher, student, alike = (SequenceClassifier(CONFIG, labels=[label, "positive"]) for label in labels)
    teacher.vocabulary = student.vocabulary = alike.vocabulary = VOCABULARY
    with pytest.raises(InputError, match="must have the same labels. The teacher has negative, positive"):
        distill(student, teacher, ["good"], ["positive"])
    with pytest.raises(InputError, match="The term labels needs labels. Received: none"):
        distill(alike, teacher, ["good"])
    assert not isinstance(student, Distiller)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keep_best": True}, "keep_best needs dev examples"),
        ({"patience": 2}, "Add keep_best or leave them out"),
        ({"lora_rank": 2, "freeze_layers": 1}, "LoRA freezes the encoder already"),
        ({"freeze_layers": 3}, "Between 0 and 2 layers can be frozen, the layers of the encoder. Received: 3"),
        ({"class_weight": {"neutral": 2.0}}, "class_weight has the unknown label 'neutral'"),
        (
            {"gradient_accumulation_steps": 3},
            r"A batch of 8 cannot be divided evenly among 1 device\(s\), 3 part\(s\)",
        ),
    ],
)
def test_invalid_options_are_refused(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        train(tmp_path / "run", **changes)
