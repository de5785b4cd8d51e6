import keras
import numpy as np
import pytest
from numpy_bert import log_likelihood

from keras_bert.models.losses import LossTerm, RatioOfSums, accuracy_term, cross_entropy_term


def test_cross_entropy_of_hand_made_logits():
    # Probabilities 3/4 and 1/2 for the right labels.
    logits = np.log(np.array([[3.0, 1.0], [5.0, 5.0]], "float32"))
    term = cross_entropy_term("loss", logits, np.array([0, 1]))
    assert float(term.numerator) == pytest.approx(-np.log(3 / 4) - np.log(1 / 2))
    assert float(term.weight) == 2.0
    assert float(term.value) == pytest.approx(float(term.numerator) / 2)


def test_weights_of_zero_take_part_in_nothing():
    generator = np.random.default_rng(0)
    logits, labels = generator.standard_normal((2, 3, 7)).astype("float32"), generator.integers(0, 7, (2, 3))
    weights = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    term = cross_entropy_term("masked_lm_loss", logits, labels, weights, epsilon=1e-5)
    numerator = -np.sum(weights * log_likelihood(logits, labels))
    assert float(term.numerator) == pytest.approx(numerator, rel=1e-5)
    assert float(term.value) == pytest.approx(numerator / (3 + 1e-5), rel=1e-6)


def test_terms_of_the_parts_of_a_batch_add_up_to_those_of_the_whole():
    generator = np.random.default_rng(0)
    logits, labels = generator.standard_normal((5, 4)).astype("float32"), generator.integers(0, 4, 5)
    weights = np.array([1.0, 0.0, 2.0, 1.0, 0.5])
    whole = cross_entropy_term("loss", logits, labels, weights)
    parts = [cross_entropy_term("loss", logits[rows], labels[rows], weights[rows]) for rows in ([0], [1, 2], [3, 4])]
    total = LossTerm("loss", sum(part.numerator for part in parts), sum(part.weight for part in parts))
    assert float(total.value) == pytest.approx(float(whole.value), rel=1e-6)


def test_a_batch_without_weight_has_loss_zero():
    term = cross_entropy_term("loss", np.zeros((2, 3), "float32"), np.array([0, 1]), np.zeros(2))
    assert float(term.value) == 0.0


def test_accuracy_counts_the_weighted_hits():
    logits = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], "float32")
    term = accuracy_term("accuracy", logits, np.array([1, 0, 0]), np.array([1.0, 1.0, 3.0]))
    assert (float(term.numerator), float(term.weight)) == (4.0, 5.0)


def test_ratio_of_sums_weighs_batches_by_their_weights_and_resets():
    metric = RatioOfSums(name="accuracy")
    assert float(metric.result()) == 0.0
    metric.update_state(1.0, 1.0)
    metric.update_state(0.0, 3.0)
    assert float(metric.result()) == 0.25
    metric.reset_state()
    metric.update_state(1.0, 2.0)
    assert float(metric.result()) == 0.5
    assert keras.metrics.deserialize(keras.metrics.serialize(metric)).name == "accuracy"


def test_a_ratio_of_nothing_is_what_was_asked_for():
    metric = RatioOfSums(name="accuracy", empty_value=np.nan)
    assert np.isnan(float(metric.result()))
    metric.update_state(0.0, 0.0)
    assert np.isnan(float(metric.result()))
    metric.update_state(0.0, 2.0)
    assert float(metric.result()) == 0.0
    assert np.isnan(keras.metrics.deserialize(keras.metrics.serialize(metric)).empty_value)
