"""Answers of several labels: thresholds that are given, chosen and kept, the most probable labels, probabilities."""

import pickle

import keras
import numpy as np
import pandas
import pytest
import tiny
from tiny_models import CONFIG, TEXTS, VOCABULARY, assert_same_answers, made_signatures

from keras_bert import InputError, SequenceClassifier
from keras_bert.serving import load
from keras_bert.tasks.classification.scores import f1_score
from keras_bert.tasks.classification.thresholds import THRESHOLD, as_thresholds, best_threshold, divided

ASKED = TEXTS[:7]
LABELS = ["a", "b", "c"]


def new_model(labels=LABELS, problem_type="multi_label", **arguments):
    config = CONFIG.replace(num_hidden_layers=1)
    return tiny.made(SequenceClassifier, config, VOCABULARY, labels, problem_type, seed=3, **arguments)


@pytest.fixture(scope="module")
def tuned():
    """A model with chosen thresholds, the right labels, and what `tune_thresholds` returned."""
    model = new_model()
    probabilities = model.predict_proba(ASKED)
    is_gold = probabilities > np.quantile(probabilities, [0.2, 0.7, 1.0], axis=0).diagonal()
    gold = [[label for label, is_one in zip(LABELS, row, strict=True) if is_one] for row in is_gold]
    return model, gold, model.tune_thresholds(ASKED, gold)


@pytest.mark.parametrize("seed", range(5))
def test_the_threshold_has_the_best_f1_and_is_the_closest_to_one_half(seed):
    draw = np.random.default_rng(seed)
    probabilities, gold = draw.integers(0, 20, 30) / 20, draw.integers(0, 2, 30)
    found = best_threshold(probabilities, gold)
    # Between two probabilities all thresholds are alike: the middle, or one half.
    tried = [THRESHOLD, *(np.arange(20) / 20 + 0.025)]
    scores = [f1_score(probabilities > threshold, gold) for threshold in tried]
    best = [threshold for threshold, score in zip(tried, scores, strict=True) if score == max(scores)]
    # Where a probability is missing, the middle of a wider gap counts.
    assert f1_score(probabilities > found, gold) == max(scores)
    same = [one for one in best if (probabilities > one).tolist() == (probabilities > found).tolist()]
    assert same
    assert min(abs(one - 0.5) for one in same) == pytest.approx(min(abs(one - 0.5) for one in best))


def test_ties_and_labels_without_examples_have_a_rule():
    assert best_threshold(np.array([0.2, 0.9]), np.array([0, 1])) == 0.5
    assert best_threshold(np.array([0.2, 0.9]), np.array([0, 0])) == 0.5
    assert best_threshold(np.array([0.2, 0.4]), np.array([1, 1])) == 0.1
    # F1 is 2/3 in two gaps, whose middles are as far from one half.
    assert best_threshold(np.array([0.25, 0.45, 0.55, 0.75]), np.array([1, 0, 0, 1])) == 0.65


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1.5, "threshold must be a number of at least 0 and at most 1. Received: 1.5"),
        ([0.1, 0.2], "one number, or a number for each of the 3 labels. Received: 2"),
        ({"d": 0.5}, "threshold has the unknown label 'd'. The labels are: a, b, c"),
        ({"a": 2}, "must be a number of at least 0 and at most 1. Received: 2"),
        ({"a": 0.2, 0: 0.3}, "threshold has two values for the label 'a'"),
        (pandas.Series([0.1, 0.2], index=["a", "a"]), "threshold has two values for 'a'"),
        (pandas.Series([0.1, 0.2, 0.3], index=[7, 8, 9]), "must be a name or a number from 0 to 2. Received: 7"),
        (pandas.DataFrame({0: [0.5], 1: [0.5], 2: [0.5]}), "must be a number of at least 0 and at most 1"),
        ({0.1, 0.2, 0.3}, "must be a number of at least 0 and at most 1"),
        (np.full((3, 1), 0.5), r"must be a number of at least 0 and at most 1. Received: \[0.5\]"),
    ],
)
def test_thresholds_that_are_none_are_refused(value, message):
    with pytest.raises(InputError, match=message):
        as_thresholds(value, LABELS)
    with pytest.raises(InputError, match=message.removeprefix("threshold ")):
        new_model(thresholds=value)


@pytest.mark.parametrize(
    "value",
    [
        pandas.Series([0.3, 0.1], index=["c", "a"]),
        pandas.Series([0.1, 0.3], index=[0, 2]),
        [0.1, 0.5, 0.3],
        np.array([0.1, 0.5, 0.3]),
        pandas.Index([0.1, 0.5, 0.3]),
    ],
)
def test_a_series_has_thresholds_by_its_index_and_other_columns_by_position(value):
    assert as_thresholds(value, LABELS) == (0.1, 0.5, 0.3)


def test_options_of_answers_that_a_model_does_not_have_are_refused():
    model = new_model(problem_type="classification")
    with pytest.raises(InputError, match="threshold is for the problem type multi_label.*Received: classification"):
        model.predict(ASKED, threshold=0.3)
    with pytest.raises(InputError, match="top_k must be a whole number of at least 1. Received: 0"):
        model.predict(ASKED, top_k=0)
    with pytest.raises(InputError, match="predict on features has no option top_k"):
        model.predict({"input_ids": [[1]]}, top_k=2)
    with pytest.raises(InputError, match="tune_thresholds is for the problem type multi_label"):
        model.tune_thresholds(ASKED, ["a"] * 7)
    score = new_model(["score"], "regression")
    for call in (lambda: score.predict_proba(ASKED), lambda: score.predict(ASKED, top_k=1)):
        with pytest.raises(InputError, match="regression"):
            call()


def test_the_most_probable_labels_and_the_probabilities_are_those_of_all_labels():
    model = new_model(problem_type="classification")
    answers, probabilities = model.predict(ASKED, verbose=0), model.predict_proba(ASKED, verbose=0)
    assert (probabilities.dtype, probabilities.shape) == (np.float32, (7, 3))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
    for all_labels, two, row in zip(answers, model.predict(ASKED, top_k=2), probabilities, strict=True):
        assert np.allclose(list(all_labels.probabilities.values()), row)
        assert list(two.probabilities) == [LABELS[number] for number in np.argsort(-row)[:2]]
        assert (two.label, two.probability) == (all_labels.label, all_labels.probability)


def test_thresholds_of_a_call_replace_those_of_the_model(tuned):
    model, _, _ = tuned
    probabilities = model.predict_proba(ASKED)
    for threshold, limits in ((0.3, [0.3] * 3), ([0.9, 0, 1], [0.9, 0, 1]), ({"b": 1}, [model.thresholds[0], 1, 0.5])):
        for answer, row in zip(model.predict(ASKED, threshold=threshold), probabilities, strict=True):
            assert set(answer.labels) == {label for label, is_one in zip(LABELS, row > limits, strict=True) if is_one}
    assert all(len(answer.labels) <= 1 for answer in model.predict(ASKED, threshold=0, top_k=1))


def test_chosen_thresholds_have_a_better_f1_and_are_used_in_evaluations(tuned):
    model, gold, found = tuned
    assert list(found.thresholds.values()) == list(model.thresholds)
    assert model.thresholds[2] == 0.5
    assert found.f1_after == {"a": 1.0, "b": 1.0, "c": 0.0}
    assert found.f1_before["a"] < 1
    assert model.evaluate(ASKED, gold, verbose=0)["micro_f1"] < 1
    before = model.thresholds
    model.thresholds = {"a": before[0], "b": before[1], "c": 1.0}
    assert model.evaluate(ASKED, gold, verbose=0)["micro_f1"] == 1
    model.thresholds = before


def test_every_kind_of_file_keeps_thresholds(tuned, tmp_path):
    model, _, _ = tuned
    model.save_pretrained(tmp_path / "folder")
    model.save(tmp_path / "model.keras")
    folder, pickled = SequenceClassifier.from_pretrained(tmp_path / "folder"), pickle.loads(pickle.dumps(model))
    for other in (folder, pickled, keras.saving.load_model(tmp_path / "model.keras")):
        assert other.thresholds == model.thresholds
    assert_same_answers(folder.predict(ASKED), model.predict(ASKED))
    others = SequenceClassifier.from_pretrained(tmp_path / "folder", labels=["d", "e"])
    assert others.thresholds is None


def test_an_export_answers_with_the_same_thresholds(tuned, tmp_path):
    model, _, _ = tuned
    loaded = load(model.export_for_serving(tmp_path / "onnx", format="onnx"))
    assert_same_answers(loaded.predict(ASKED), model.predict(ASKED))
    options = {"threshold": 0.9, "top_k": 2}
    assert_same_answers(loaded.predict(ASKED, **options), model.predict(ASKED, **options))
    np.testing.assert_allclose(loaded.predict_proba(ASKED), model.predict_proba(ASKED), atol=1e-5)
    with pytest.raises(InputError, match="threshold must be a number of at least 0 and at most 1. Received: 7"):
        loaded.predict(ASKED, threshold=7)


def test_the_graph_of_a_saved_model_has_the_thresholds(tuned):
    model, _, _ = tuned
    given = made_signatures(model, {})["serving_default"](text=np.array(ASKED))["is_given"].numpy()
    assert given.tolist() == (model.predict_proba(ASKED) > model.thresholds).tolist()


def test_calibration_changes_no_answer():
    before, logits = (0.0, 0.1, 0.5, 0.9, 1.0), np.linspace(-3, 3, 50)[:, None]
    is_given = [
        1 / (1 + np.exp(-logits / divisor)) > limits for divisor, limits in ((1, before), (2.5, divided(before, 2.5)))
    ]
    assert (is_given[0] == is_given[1]).all()
    model = new_model(thresholds=0.2)
    model.divide_logits(2.0)
    assert model.thresholds == pytest.approx((1 / 3,) * 3)
