"""The official scores equal numbers checked by hand, and files of the GLUE leaderboard have its form."""

import logging
import math

import numpy as np
import pytest

from data_prep.finetuning.glue import GLUE_TASKS
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.glue_submission import SUBMISSIONS, submission_name, write_submission
from keras_bert.tasks.classification.scores import (
    GLUE_MAIN_SCORES,
    multi_label_scores,
    regression_scores,
    single_label_scores,
)

pytestmark = pytest.mark.usefixtures("without_graphs")


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        # Label 1: 2 found, 1 missed, 1 wrongly found; label 0: 2 found.
        ([1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0], {"accuracy": 4 / 6, "matthews": 3 / 9, "f1": 4 / 6}),
        # F1 is that of label 1.
        ([1, 0, 0, 0], [0, 0, 0, 0], {"accuracy": 0.75, "matthews": 0.0, "f1": 0.0}),
    ],
)
def test_scores_of_two_labels_by_hand(gold, predicted, expected):
    both = {"accuracy_and_f1": (expected["accuracy"] + expected["f1"]) / 2}
    assert single_label_scores(gold, predicted, num_labels=2) == pytest.approx(expected | both)


def test_scores_of_three_labels_by_hand():
    # F1 is 2/3, 1/2 and 0. Gorodkin's generalisation of Matthews' coefficient:
    # (c * s - sum p_k t_k) / sqrt((s^2 - sum p_k^2)(s^2 - sum t_k^2))
    matthews = (2 * 4 - (1 * 2 + 3 * 1)) / math.sqrt((16 - 10) * (16 - 6))
    expected = {"accuracy": 2 / 4, "matthews": matthews, "macro_f1": (2 / 3 + 1 / 2) / 3}
    assert single_label_scores([0, 0, 1, 2], [0, 1, 1, 1], num_labels=3) == pytest.approx(expected)


NONE, MSE, CORRELATIONS = np.zeros((2, 3), int), "mean_squared_error", "pearson pearson_and_spearman"


@pytest.mark.parametrize(
    ("score", "undefined", "defined", "message"),
    [
        (lambda: single_label_scores([1, 1], [1, 0], 2), "matthews", {}, "undefined: all examples have the label 1"),
        (lambda: single_label_scores([1, 0], [1, 1], 2), "", {"matthews": 0}, "0 by convention: label 1 was predicted"),
        (lambda: single_label_scores([0, 0], [0, 0], 2), "f1 accuracy_and_f1", {"accuracy": 1}, "f1 is undefined"),
        (lambda: multi_label_scores(NONE, NONE), "micro_f1 macro_f1", {"subset_accuracy": 1}, "no text has a label"),
        (lambda: regression_scores([2.0, 2.0], [1.0, 3.0]), CORRELATIONS, {MSE: 1}, "all gold scores are 2"),
        (lambda: regression_scores([1.0, 3.0], [0.5, 0.5]), CORRELATIONS, {MSE: 3.25}, "all predicted scores are 0.5"),
    ],
)
def test_undefined_scores_are_not_numbers_and_it_is_said_why(score, undefined, defined, message, caplog):
    scores = score()
    assert all(math.isnan(scores[name]) for name in undefined.split())
    assert {name: scores[name] for name in defined} == defined
    assert message in caplog.text


def test_nothing_is_said_where_all_is_defined(caplog):
    caplog.set_level(logging.INFO)
    single_label_scores([0, 1], [0, 1], num_labels=2)
    assert not caplog.text


def test_scores_of_several_labels_by_hand():
    gold = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0]])
    predicted = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0]])
    scores = multi_label_scores(gold, predicted)
    # found 2, missed 1, wrong 1; F1 by label: 1, 2/3, 0
    assert scores["micro_f1"] == pytest.approx(2 / 3)
    assert scores["macro_f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert scores["subset_accuracy"] == pytest.approx(1 / 3)


def test_labels_that_are_nowhere_are_left_out_of_the_mean_and_counted(caplog):
    scores = multi_label_scores(np.array([[1, 0], [1, 0]]), np.array([[1, 0], [0, 0]]))
    assert scores["macro_f1"] == scores["micro_f1"] == pytest.approx(2 / 3)
    assert "macro_f1 leaves 1 labels out" in caplog.text


def test_correlations_by_hand():
    scores = regression_scores([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, 3.0])
    found = [scores[name] for name in ("pearson", "spearman", "pearson_and_spearman", "mean_squared_error")]
    assert found == pytest.approx([0.8, 0.8, 0.8, 0.5])
    assert regression_scores([1.0, 2.0, 3.0], [1.0, 10.0, 1000.0])["spearman"] == pytest.approx(1)  # of ranks only


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda: regression_scores([1.0, float("nan")], [1.0, 2.0]), "gold score of example 2 is nan"),
        (lambda: regression_scores([1.0, 2.0], [float("inf"), 2.0]), "predicted score of example 1 is inf.*diverged"),
        (lambda: regression_scores([1.0], [1.0, 2.0]), r"as many predictions as right answers.*\(2,\) and \(1,\)"),
        (lambda: single_label_scores([], [], 2), "and one at least"),
        (lambda: single_label_scores([0, 2], [0, 1], 2), "gold labels must be whole numbers from 0 to 1. Received"),
        (lambda: single_label_scores([0, 1], [0, -1], 2), "predicted labels must be whole numbers"),
        (lambda: multi_label_scores([[1, 0]], [[0.2, 0.9]]), "must be 0 or 1. .* Apply a threshold"),
        (lambda: multi_label_scores([[1, 0]], [[1, 0], [1, 0]]), r"\(1, 2\), \(2, 2\)"),
        (lambda: write_submission("none", "MNLI", ["neutral"]), "no submission 'MNLI'"),
        (lambda: write_submission("none", "RTE", ["1"]), "entailment, not_entailment. Received from the model: 1"),
    ],
)
def test_what_cannot_be_scored_is_refused(score, message):
    with pytest.raises(InputError, match=message):
        score()


def test_every_task_of_glue_has_a_main_score_that_there_is():
    assert set(GLUE_MAIN_SCORES) == set(GLUE_TASKS)
    scores = {
        "classification": single_label_scores([0, 1, 1], [0, 1, 0], num_labels=2),
        "regression": regression_scores([1, 2, 3], [1, 2, 4]),
    }
    for name, task in GLUE_TASKS.items():
        assert GLUE_MAIN_SCORES[name] in scores[task.kind]


@pytest.mark.parametrize(
    ("name", "answers", "rows"),
    [
        ("MNLI-mm", ["neutral", "entailment"], "0\tneutral\n1\tentailment\n"),
        ("STS-B", [5.2, -0.1, 2.34567], "0\t5.000\n1\t0.000\n2\t2.346\n"),  # cut to their range
    ],
)
def test_a_submission_has_labels_or_similarities_and_their_numbers(name, answers, rows, tmp_path):
    assert write_submission(tmp_path, name, answers).endswith(f"{name}.tsv")
    assert (tmp_path / f"{name}.tsv").read_text() == f"index\tprediction\n{rows}"


def test_every_task_has_its_submissions_with_its_labels():
    names = {submission_name(task, part): task for task in GLUE_TASKS for part in ("predict", "predict_mismatched")}
    assert set(names) == set(SUBMISSIONS)
    for name, task in names.items():
        assert set(SUBMISSIONS[name]) == set(GLUE_TASKS[task].labels)
