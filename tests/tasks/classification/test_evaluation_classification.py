"""The official scores equal numbers checked by hand, and those of the libraries that GLUE uses."""

import logging
import math

import numpy as np
import pytest

from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.scores import (
    GLUE_MAIN_SCORES,
    multi_label_scores,
    regression_scores,
    single_label_scores,
)

pytestmark = pytest.mark.usefixtures("without_graphs")


def test_scores_of_two_labels_by_hand():
    # label 1: 2 found, 1 missed, 1 wrongly found; label 0: 2 found
    scores = single_label_scores([1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0], num_labels=2)
    assert scores["accuracy"] == pytest.approx(4 / 6)
    assert scores["f1"] == pytest.approx(4 / 6)
    assert scores["matthews"] == pytest.approx((2 * 2 - 1 * 1) / math.sqrt(3 * 3 * 3 * 3))
    assert scores["accuracy_and_f1"] == pytest.approx(4 / 6)


def test_f1_of_two_labels_is_that_of_label_1_and_not_of_label_0():
    scores = single_label_scores([1, 0, 0, 0], [0, 0, 0, 0], num_labels=2)
    assert scores["f1"] == 0.0
    assert scores["accuracy"] == 0.75


def test_scores_of_three_labels_by_hand():
    scores = single_label_scores([0, 0, 1, 2], [0, 1, 1, 1], num_labels=3)
    assert set(scores) == {"accuracy", "matthews", "macro_f1"}
    # F1 is 2/3, 1/2 and 0
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 1 / 2) / 3)
    # Gorodkin's generalisation: (c * s - sum p_k t_k) / sqrt((s^2 - sum p_k^2)(s^2 - sum t_k^2))
    assert scores["matthews"] == pytest.approx((2 * 4 - (1 * 2 + 3 * 1)) / math.sqrt((16 - 10) * (16 - 6)))


def test_matthews_is_undefined_when_all_examples_have_one_label(caplog):
    scores = single_label_scores([1, 1], [1, 0], num_labels=2)
    assert math.isnan(scores["matthews"])
    assert "matthews is undefined: all examples have the label 1" in caplog.text


def test_matthews_is_zero_and_says_so_when_one_label_is_always_predicted(caplog):
    assert single_label_scores([1, 0], [1, 1], num_labels=2)["matthews"] == 0.0
    assert "matthews is 0 by convention: label 1 was predicted for all" in caplog.text


def test_f1_is_undefined_when_its_label_is_nowhere(caplog):
    scores = single_label_scores([0, 0], [0, 0], num_labels=2)
    assert math.isnan(scores["f1"])
    assert math.isnan(scores["accuracy_and_f1"])
    assert scores["accuracy"] == 1.0
    assert "f1 is undefined: label 1 neither occurs nor was it predicted" in caplog.text


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


def test_no_labels_at_all_have_no_f1(caplog):
    scores = multi_label_scores(np.zeros((2, 3), int), np.zeros((2, 3), int))
    assert math.isnan(scores["micro_f1"])
    assert math.isnan(scores["macro_f1"])
    assert scores["subset_accuracy"] == 1.0
    assert "no text has a label, and none was predicted" in caplog.text


def test_correlations_by_hand():
    scores = regression_scores([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, 3.0])
    assert scores["pearson"] == pytest.approx(0.8)
    assert scores["spearman"] == pytest.approx(0.8)
    assert scores["pearson_and_spearman"] == pytest.approx(0.8)
    assert scores["mean_squared_error"] == 0.5


def test_spearman_sees_ranks_only():
    scores = regression_scores([1.0, 2.0, 3.0], [1.0, 10.0, 1000.0])
    assert scores["spearman"] == pytest.approx(1.0)
    assert scores["pearson"] < 0.95


@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [([2.0, 2.0], [1.0, 3.0], "all gold scores are 2"), ([1.0, 3.0], [0.5, 0.5], "all predicted scores are 0.5")],
)
def test_correlations_with_a_constant_are_undefined(gold, predicted, message, caplog):
    scores = regression_scores(gold, predicted)
    assert math.isnan(scores["pearson"])
    assert math.isnan(scores["pearson_and_spearman"])
    assert math.isfinite(scores["mean_squared_error"])
    assert message in caplog.text


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
    ],
)
def test_what_cannot_be_scored_is_refused(score, message):
    with pytest.raises(InputError, match=message):
        score()


def test_every_task_of_glue_has_a_main_score_that_there_is():
    from data_prep.finetuning.glue import GLUE_TASKS

    assert set(GLUE_MAIN_SCORES) == set(GLUE_TASKS)
    scores = {
        "classification": single_label_scores([0, 1, 1], [0, 1, 0], num_labels=2),
        "regression": regression_scores([1, 2, 3], [1, 2, 4]),
    }
    for name, task in GLUE_TASKS.items():
        assert GLUE_MAIN_SCORES[name] in scores[task.kind]
