"""The focal and the asymmetric loss, against Keras' and against the published formulas in float64."""

import keras
import numpy as np
import pytest

from keras_bert.models.losses import binary_cross_entropy_term, cross_entropy_term
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.losses import AsymmetricLoss, FocalLoss, label_loss

_random = np.random.default_rng(3)
_LOGITS = (4 * _random.standard_normal((6, 5))).astype("float32")
_IDS = _random.integers(0, 5, 6)
_SEVERAL = _random.integers(0, 2, (6, 5))
_WEIGHTS = np.array([1.0, 0.0, 2.0, 0.5, 1.0, 3.0])


@pytest.mark.parametrize(("gamma", "alpha"), [(2.0, 0.25), (0.5, 1.0), (3.0, 2.0)])
def test_the_focal_loss_is_that_of_keras(gamma, alpha):
    keras_loss = keras.losses.CategoricalFocalCrossentropy(alpha, gamma, from_logits=True, reduction=None)
    expected = np.array(keras_loss(np.eye(5)[_IDS], _LOGITS))
    term = FocalLoss(gamma, alpha).term("loss", _LOGITS, _IDS, _WEIGHTS)
    assert float(term.numerator) == pytest.approx(np.sum(_WEIGHTS * expected), rel=1e-4)
    assert float(term.weight) == _WEIGHTS.sum()


@pytest.mark.parametrize("loss", [AsymmetricLoss(), AsymmetricLoss(2, 0, 0.2), AsymmetricLoss(0.5, 3, 0)], ids=str)
def test_the_asymmetric_loss_is_the_published_formula(loss):
    p = 1 / (1 + np.exp(-_LOGITS.astype(np.float64)))
    q = np.maximum(p - loss.clip, 0)
    of_labels, of_others = (1 - p) ** loss.gamma_pos * np.log(p), q**loss.gamma_neg * np.log(1 - q)
    expected = -np.where(_SEVERAL == 1, of_labels, of_others).mean(axis=1)
    term = loss.term("loss", _LOGITS, _SEVERAL, _WEIGHTS)
    assert float(term.numerator) == pytest.approx(np.sum(_WEIGHTS * expected), rel=1e-5)
    assert float(term.weight) == _WEIGHTS.sum()


def test_the_defaults_are_the_published_ones():
    assert label_loss("focal") == FocalLoss(gamma=2, alpha=0.25)
    assert label_loss("asymmetric", "multi_label") == AsymmetricLoss(gamma_neg=4, gamma_pos=1, clip=0.05)


def test_without_focus_both_are_the_cross_entropy():
    usual = float(cross_entropy_term("loss", _LOGITS, _IDS).value)
    assert float(FocalLoss(0, 1).term("loss", _LOGITS, _IDS).value) == pytest.approx(usual, rel=1e-6)
    usual = float(binary_cross_entropy_term("loss", _LOGITS, _SEVERAL).value)
    assert float(AsymmetricLoss(0, 0, 0).term("loss", _LOGITS, _SEVERAL).value) == pytest.approx(usual, rel=1e-6)


@pytest.mark.parametrize(
    ("loss", "labels"),
    [(FocalLoss(0.5), [0]), (AsymmetricLoss(0.5, 0.5, 0.05), [[1, 0]]), (AsymmetricLoss(0.5, 0.5, 0), [[0, 1]])],
    ids=str,
)
@pytest.mark.parametrize("size", [0.0, 1e3, -1e3])
def test_sure_predictions_have_finite_losses_and_gradients(loss, labels, size):
    import tensorflow as tf

    logits = tf.constant([[size, -size]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        value = loss.term("loss", logits, np.array(labels)).value
    assert np.isfinite(value)
    assert np.isfinite(tape.gradient(value, logits)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: label_loss("focal", "multi_label"), "FocalLoss is for .*classification, .*multi_label.*asymmetric"),
        (lambda: label_loss("asymmetric"), "AsymmetricLoss is for .*multi_label, .*classification. Give loss='focal'"),
        (lambda: label_loss("focal", "regression"), "for regression. Give no loss"),
        (lambda: label_loss("hinge"), "focal or asymmetric, .*Received: 'hinge'"),
        (lambda: FocalLoss(gamma=-1), "gamma must be a number of at least 0. Received: -1"),
        (lambda: FocalLoss(alpha=0), "alpha must be a number above 0"),
        (lambda: AsymmetricLoss(clip=1), "clip must be a number of at least 0 and below 1"),
    ],
)
def test_losses_that_do_not_fit_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
