"""The formulas of answers on arrays and on tensors: equal numbers, types and names, also for equal logits."""

import numpy as np
import pytest
import tensorflow as tf
from toys.urgency.answers import urgency_arrays

from keras_bert.serving.graph import answer_operations as graph_operations
from keras_bert.tasks import answer_operations
from keras_bert.tasks.classification.answers import label_answers, label_arrays
from keras_bert.tasks.masked_lm.answers import best_tokens
from keras_bert.tasks.multiple_choice.answers import choice_arrays
from keras_bert.tasks.ranking.answers import SCORE_ACTIVATIONS
from keras_bert.tasks.text_to_text.answers import writing_arrays

RNG = np.random.default_rng(5)
WIDTH = 4
TIED = RNG.integers(-2, 3, (60, WIDTH)).astype(np.float32)  # whole numbers: many rows have two largest ones
FAR = RNG.normal(0, 200, (60, WIDTH)).astype(np.float32)
COUNTED = np.arange(WIDTH) < RNG.integers(0, WIDTH + 1, (60, 1))
LABELS = ("a", "b", "c", "é")


def labels(problem_type):
    return lambda logits, ops: label_arrays(logits, LABELS, problem_type, (0.1, 0.5, 0.88079707, 0.99), ops)


def tokens(logits, ops):
    return dict(zip(("probabilities", "ids"), best_tokens(ops.log_softmax(logits), 3, ops), strict=True))


FORMULAS = {
    **{problem_type: labels(problem_type) for problem_type in ("classification", "multi_label", "regression")},
    **{name: lambda logits, ops, name=name: {"score": getattr(ops, name)(logits)} for name in SCORE_ACTIVATIONS},
    "one score": lambda logits, ops: label_arrays(logits[:, :1], ("size",), "regression", (0.5,), ops),
    "choices": lambda logits, ops: choice_arrays(logits, COUNTED, ops),
    "tokens": tokens,
    "toy": urgency_arrays,
}


@pytest.mark.parametrize("logits", [TIED, FAR], ids=["tied", "far"])
@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_gives_the_same_on_arrays_and_on_tensors(name, logits):
    formula = FORMULAS[name]
    found, exact = formula(logits, answer_operations), formula(logits.astype(np.float64), answer_operations)
    for compute in (formula, tf.function(formula, autograph=False)):
        tensors = compute(tf.constant(logits), graph_operations)
        assert tensors.keys() == found.keys() == exact.keys()
        for key, tensor in tensors.items():
            values = tensor.numpy()
            assert values.shape == found[key].shape == exact[key].shape
            if values.dtype == np.float32:
                assert found[key].dtype == np.float32
                np.testing.assert_allclose(found[key], values, rtol=1e-6, atol=1e-7)
                np.testing.assert_allclose(exact[key], values, rtol=2e-6, atol=1e-7)
            elif values.dtype == object:
                assert (np.strings.decode(values.astype("S"), "utf-8") == found[key].astype(str)).all()
            else:
                assert values.dtype == found[key].dtype
                np.testing.assert_array_equal(found[key], values)


def test_of_equal_logits_the_first_one_is_taken():
    logits = np.array([[0.0, 2.0, 2.0, 1.0]], np.float32)
    assert label_arrays(logits, LABELS, "classification", ())["label"].tolist() == ["b"]
    assert choice_arrays(logits, np.ones((1, 4), bool))["choice"].tolist() == [1]
    assert answer_operations.top_k(logits, 4)[1].tolist() == [[1, 2, 3, 0]]


def test_choices_that_do_not_count_have_no_probability():
    found = choice_arrays(np.array([[3.0, 1.0, 9.0], [3.0, 1.0, 9.0]]), np.array([[True, True, False], [False] * 3]))
    assert found["choice"].tolist() == [0, -1]
    np.testing.assert_allclose(found["probability"], [1 / (1 + np.exp(-2)), 0])
    np.testing.assert_allclose(found["probabilities"][:, 1:], [[1 / (1 + np.exp(2)), 0], [0, 0]])


def test_labels_that_are_numbers_or_truth_values_stay_so():
    arrays = label_arrays(np.array([[0.0, 2.0]]), (False, True), "classification", ())
    [answer] = label_answers(arrays, {})
    assert answer.label is True
    assert list(answer.probabilities) == [False, True]


@pytest.mark.parametrize("count", [1, 2])
def test_alternatives_are_given_if_there_are_several(count):
    texts, scores = np.array([["a", "b"]], object)[:, :count], np.array([[0.5, 0.25]])[:, :count]
    found = writing_arrays(texts, scores)
    assert (found["written"].tolist(), found["score"].tolist()) == (["a"], [0.5])
    assert ("alternatives" in found) == (count > 1)
