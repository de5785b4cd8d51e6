"""Losses of sentence embeddings equal those of sentence-transformers, recorded, or their formulas in NumPy."""

import json

import numpy as np
import pytest
import tensorflow as tf
from places import TESTS

from keras_bert import InputError
from keras_bert.tasks.embedding.contrastive_losses import Contrastive, OnlineContrastive
from keras_bert.tasks.embedding.examples import LISTS, SCORES
from keras_bert.tasks.embedding.loss_table import LOSSES, loss_of_name
from keras_bert.tasks.embedding.losses import (
    AnglE,
    BatchHardTriplet,
    CoSENT,
    CosineRegression,
    InBatchNegatives,
    LabelTriplets,
    Matryoshka,
    Triplet,
    as_loss,
)
from keras_bert.tasks.embedding.teacher_losses import DistillKLDiv, GISTEmbed, MarginMSE

# Recorded with sentence-transformers in float64: vectors, labels, and the loss and its gradient.
GOLDEN = json.loads((TESTS / "embedding_golden" / "losses.json").read_text())
RECORDED = {
    "in_batch_negatives": (InBatchNegatives(), 3),
    "symmetric": (InBatchNegatives(symmetric=True), 2),
    "cosent": (CoSENT(), 2),
    "cosine": (CosineRegression(), 2),
    "triplet": (Triplet(), 3),
    "label_triplets": (LabelTriplets(), 1),
    "matryoshka": (Matryoshka(InBatchNegatives(), [6, 4, 2]), 3),
}
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


def loss_and_gradient(loss, vectors, **others):
    vectors = tf.constant(vectors, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        value = loss(vectors, **others)
    return float(value), tape.gradient(value, vectors).numpy()


@pytest.mark.parametrize("name", RECORDED)
def test_a_loss_and_its_gradient_are_those_of_sentence_transformers(name):
    loss, num_texts = RECORDED[name]
    labels = {"scores": np.array(GOLDEN["scores"]), "labels": np.array(GOLDEN["labels"])}.get(loss.learns_from)
    vectors = np.array(GOLDEN["vectors"])
    value, gradient = loss_and_gradient(loss, vectors[:, :num_texts], labels=labels)
    expected = GOLDEN["losses"][name]
    np.testing.assert_allclose(value, expected["loss"], rtol=1e-7)
    expected_gradient = np.array(expected["gradient"])
    np.testing.assert_allclose(gradient, expected_gradient[:, :num_texts], atol=1e-6)
    assert not expected_gradient[:, num_texts:].any()


@pytest.mark.parametrize("name", FORMULAS)
def test_a_loss_is_its_formula(name):
    loss, num_texts, labels, formula = FORMULAS[name]
    value, _ = loss_and_gradient(loss, VECTORS[:, :num_texts], labels=labels)
    np.testing.assert_allclose(value, formula(), rtol=1e-9)


def test_the_teachers_margins_teach_as_much_as_its_scores():
    value, _ = loss_and_gradient(MarginMSE(), VECTORS, labels=TEACHER[:, :1] - TEACHER[:, 1:])
    np.testing.assert_allclose(value, margin_mse(), rtol=1e-9)


@pytest.mark.parametrize(
    ("numbers", "left_out"),
    [
        # Examples 0 and 2 have the same positive.
        ([[0, 1], [2, 3], [4, 1], [5, 6]], [(0, 2), (2, 0)]),
        # Anchors 0 and 1 are equal, and the negative of 1 is the positive of 0.
        ([[0, 1, 2], [0, 3, 1], [4, 5, 6]], [(0, 1), (1, 0), (0, 4)]),
        # The anchor of example 0 is the positive of example 1, and that of example 2 the hard negative of example 0.
        ([[0, 1, 5], [2, 0, 3], [5, 6, 7]], [(0, 1), (2, 3)]),
    ],
)
def test_equal_texts_are_no_negatives_of_each_other(numbers, left_out):
    size, num_texts = np.shape(numbers)
    vectors = np.array(GOLDEN["vectors"])[:size, :num_texts]
    found, _ = loss_and_gradient(InBatchNegatives(), vectors, text_numbers=np.array(numbers))
    scores = units(vectors)[:, 0] @ np.concatenate([*np.moveaxis(units(vectors)[:, 1:], 1, 0)]).T / 0.05
    for place in left_out:
        scores[place] = -np.inf
    np.testing.assert_allclose(found, np.mean(np.log(np.exp(scores).sum(axis=1)) - np.diag(scores)), rtol=1e-9)


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
    found, _ = loss_and_gradient(loss, vectors, labels=guide, text_numbers=numbers)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["in_batch_negatives", "cosine", "triplet"])
def test_an_example_of_weight_2_counts_twice(name):
    loss, num_texts = RECORDED[name]
    vectors = np.array(GOLDEN["vectors"])[:3, :num_texts]
    scores = np.array([0.1, 0.5, 0.9])
    single = [loss_and_gradient(loss, vectors, labels=scores, weights=np.eye(3)[number])[0] for number in range(3)]
    weighted, _ = loss_and_gradient(loss, vectors, labels=scores, weights=np.array([2.0, 1.0, 0.0]))
    np.testing.assert_allclose(weighted, (2 * single[0] + single[1]) / 3, rtol=1e-9)


@pytest.mark.parametrize("name", ["contrastive", "online_contrastive", "angle", "batch_hard_triplet", "margin_mse"])
def test_examples_of_weight_0_change_nothing(name):
    loss, num_texts, labels, formula = FORMULAS[name]
    vectors = np.concatenate([VECTORS, 3 * VECTORS[:2, ::-1]])[:, :num_texts]
    weights, labels = np.array([1.0] * 6 + [0.0] * 2), np.concatenate([labels, labels[1:3]])
    found, _ = loss_and_gradient(loss, vectors, labels=labels, weights=weights)
    np.testing.assert_allclose(found, formula(), rtol=1e-9)


@pytest.mark.parametrize(
    ("loss", "num_texts", "labels"),
    [*((*row, SIMILAR) for row in RECORDED.values()), *(row[:3] for row in FORMULAS.values())],
)
def test_equal_vectors_have_a_finite_gradient(loss, num_texts, labels):
    assert np.isfinite(loss_and_gradient(loss, np.zeros((6, num_texts, 6)), labels=labels)[1]).all()


def test_every_loss_of_the_table_has_its_name_and_that_of_sentence_transformers():
    for name, entry in LOSSES.items():
        made = as_loss(name)
        assert loss_of_name(LOSSES, "a loss", entry.published) is type(made)
        assert f"`{entry.published}`" in type(made).__doc__ + MarginMSE.__doc__
        assert (made.learns_from in (SCORES, LISTS)) == ("score" in entry.needs or "margins" in entry.needs)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InBatchNegatives(temperature=0), "temperature must be a number above 0. Received: 0"),
        (lambda: Triplet(margin=-1), "margin must be a number above 0"),
        (lambda: Matryoshka(CoSENT(), []), "one or more whole numbers"),
        (lambda: Matryoshka(CoSENT(), [4, 0]), "one or more whole numbers"),
        (lambda: Contrastive(margin=0), "margin must be a number above 0"),
        (lambda: DistillKLDiv(teacher_temperature=-1), "teacher_temperature must be a number above 0. Received: -1"),
        (lambda: GISTEmbed(margin_strategy="none"), "one of absolute, relative. Received: 'none'"),
        (lambda: as_loss("GISTLoss"), "an EmbeddingLoss or one of: in_batch_negatives, .*'GISTLoss'"),
    ],
)
def test_arguments_that_are_not_valid_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_loss_is_given_by_its_name():
    assert as_loss("cosent") == CoSENT()
    assert as_loss(None) is None
