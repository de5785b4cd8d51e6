"""Losses of embeddings as formulas in NumPy, and what their weights and equal texts do."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.program.errors import InputError
from keras_bert.tasks.embedding.contrastive_losses import Contrastive, OnlineContrastive
from keras_bert.tasks.embedding.examples import LISTS, SCORES
from keras_bert.tasks.embedding.loss_table import LOSSES, loss_of_name
from keras_bert.tasks.embedding.losses import AnglE, BatchHardTriplet, as_loss
from keras_bert.tasks.embedding.teacher_losses import DistillKLDiv, GISTEmbed, MarginMSE

generator = np.random.default_rng(1)
VECTORS, GUIDE = generator.normal(size=(6, 3, 4)), generator.normal(size=(6, 3, 5))
SIMILAR, NAMES = np.array([1, 0, 1, 1, 0, 0]), np.array([0, 1, 0, 2, 1, 1])
TEACHER = generator.normal(size=(6, 2))


def units(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def cosines():
    return np.sum(units(VECTORS[:, 0]) * units(VECTORS[:, 1]), axis=-1)


def contrastive():
    distances = 1 - cosines()
    return np.mean(np.where(SIMILAR, distances**2, np.maximum(0.5 - distances, 0) ** 2)) / 2


def online_contrastive():
    distances = 1 - cosines()
    similar, others = distances[SIMILAR == 1], distances[SIMILAR == 0]
    hard, too_near = similar[similar > others.min()], others[others < similar.max()]
    return np.sum(hard**2) + np.sum(np.maximum(0.5 - too_near, 0) ** 2)


def angle():
    first, second = (units(VECTORS[:, number]).reshape(6, 2, 2) for number in (0, 1))
    complex_first, complex_second = (one[:, 0] + 1j * one[:, 1] for one in (first, second))
    product = np.sum(complex_first * np.conj(complex_second), axis=1)
    found = 20 * np.abs(product.real + product.imag)
    pairs = [(one, two) for one in range(6) for two in range(6) if SIMILAR[one] < SIMILAR[two]]
    return np.log(1 + sum(np.exp(found[one] - found[two]) for one, two in pairs))


def batch_hard():
    texts = VECTORS[:, 0]
    distances, losses = np.linalg.norm(texts[:, None] - texts, axis=-1), []
    for number, name in enumerate(NAMES):
        farthest = max(
            [distances[number, other] for other in range(6) if NAMES[other] == name and other != number] or [0]
        )
        losses.append(max(farthest - distances[number, name != NAMES].min() + 5, 0))
    return np.mean(losses)


def margin_mse():
    scores = np.sum(VECTORS[:, :1] * VECTORS[:, 1:], axis=-1)
    return np.mean((scores[:, 0] - scores[:, 1] - TEACHER[:, 0] + TEACHER[:, 1]) ** 2)


def distill_kl_div():
    def probabilities(scores):
        return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)

    found, taught = probabilities(np.sum(VECTORS[:, :1] * VECTORS[:, 1:], axis=-1) / 2), probabilities(TEACHER / 2)
    return 4 * np.mean(np.sum(taught * np.log(taught / found), axis=1))


def gist_embed():
    own, guide, losses = units(VECTORS), units(GUIDE), []
    for number in range(6):
        limit = guide[number, 0] @ guide[number, 1] - 0.1
        right, total = own[number, 0] @ own[number, 1] / 0.01, 0.0
        for other in range(6):
            for anchor, text in ((0, (other, 1)), (0, (other, 2)), (0, (other, 0)), (1, (other, 1))):
                is_own = anchor == 0 and text == (number, 1)
                if is_own or guide[number, anchor] @ guide[text] <= limit:
                    total += np.exp(own[number, anchor] @ own[text] / 0.01 - right)
        losses.append(np.log(total))
    return np.mean(losses)


FORMULAS = {
    "contrastive": (Contrastive(), 2, SIMILAR, contrastive),
    "online_contrastive": (OnlineContrastive(), 2, SIMILAR, online_contrastive),
    "angle": (AnglE(), 2, SIMILAR, angle),
    "batch_hard_triplet": (BatchHardTriplet(), 1, NAMES, batch_hard),
    "margin_mse": (MarginMSE(), 3, TEACHER, margin_mse),
    "distill_kl_div": (DistillKLDiv(temperature=2.0), 3, TEACHER, distill_kl_div),
    "gist_embed": (GISTEmbed(guide="a folder", margin=0.1), 3, GUIDE, gist_embed),
}


def value(loss, vectors, labels, **others):
    return float(loss(tf.constant(vectors, tf.float64), tf.constant(labels), **others))


@pytest.mark.parametrize("name", FORMULAS)
def test_a_loss_is_its_formula(name):
    loss, num_texts, labels, formula = FORMULAS[name]
    np.testing.assert_allclose(value(loss, VECTORS[:, :num_texts], labels), formula(), rtol=1e-9)


def test_the_teachers_margins_teach_as_much_as_its_scores():
    margins = TEACHER[:, :1] - TEACHER[:, 1:]
    np.testing.assert_allclose(value(MarginMSE(), VECTORS, margins), margin_mse(), rtol=1e-9)


@pytest.mark.parametrize("name", ["contrastive", "online_contrastive", "angle", "batch_hard_triplet", "margin_mse"])
def test_examples_of_weight_0_change_nothing(name):
    loss, num_texts, labels, formula = FORMULAS[name]
    vectors = np.concatenate([VECTORS, 3 * VECTORS[:2, ::-1]])[:, :num_texts]
    found = value(
        loss, vectors, np.concatenate([labels, labels[1:3]]), weights=tf.constant([1.0] * 6 + [0.0] * 2, tf.float64)
    )
    np.testing.assert_allclose(found, formula(), rtol=1e-9)


@pytest.mark.parametrize("name", FORMULAS)
def test_equal_vectors_have_a_finite_gradient(name):
    loss, num_texts, labels, _ = FORMULAS[name]
    vectors = tf.zeros((6, num_texts, 4), tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        found = loss(vectors, tf.constant(labels))
    assert np.isfinite(tape.gradient(found, vectors)).all()


def test_a_guide_and_equal_numbers_leave_out_equal_texts():
    # No candidate is nearer to the guide than the positive, so only numbers leave texts out.
    guide = np.eye(3)[:, None] * [[1.0], [1.0], [-1.0]]
    vectors, numbers = VECTORS[:3], np.array([[0, 1, 2], [3, 1, 4], [5, 6, 0]])
    loss = GISTEmbed("a folder", temperature=1.0, contrast_anchors=False, contrast_positives=False)
    own = units(vectors)
    scores = own[:, 0] @ np.concatenate([own[:, 1], own[:, 2]]).T
    for row, column in ((0, 1), (1, 0), (0, 5)):
        scores[row, column] = -np.inf
    expected = np.mean(np.log(np.exp(scores).sum(axis=1)) - np.diag(scores))
    found = value(loss, vectors, guide, text_numbers=tf.constant(numbers))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_every_loss_of_the_table_has_its_name_and_that_of_sentence_transformers():
    for name, entry in LOSSES.items():
        made = as_loss(name)
        assert loss_of_name(LOSSES, "a loss", entry.published) is type(made)
        assert f"`{entry.published}`" in type(made).__doc__ + MarginMSE.__doc__
        assert (made.learns_from in (SCORES, LISTS)) == ("score" in entry.needs or "margins" in entry.needs)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: as_loss("GISTLoss"), "one of: in_batch_negatives, .*'GISTLoss'"),
    ],
)
def test_arguments_that_are_not_valid_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
