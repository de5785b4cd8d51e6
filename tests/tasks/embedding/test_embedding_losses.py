"""Losses of sentence embeddings: equal to those of sentence-transformers, and independent of how a batch is cut."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from places import TESTS

from keras_bert.program.errors import InputError
from keras_bert.tasks.embedding.losses import (
    CoSENT,
    CosineRegression,
    InBatchNegatives,
    LabelTriplets,
    Matryoshka,
    Triplet,
    as_loss,
)

# Recorded with sentence-transformers in float64: vectors, labels, and the loss and its gradient.
GOLDEN = json.loads((TESTS / "embedding_golden" / "losses.json").read_text())
LOSSES = {
    "in_batch_negatives": (InBatchNegatives(), 3),
    "symmetric": (InBatchNegatives(symmetric=True), 2),
    "cosent": (CoSENT(), 2),
    "cosine": (CosineRegression(), 2),
    "triplet": (Triplet(), 3),
    "label_triplets": (LabelTriplets(), 1),
    "matryoshka": (Matryoshka(InBatchNegatives(), [6, 4, 2]), 3),
}


def loss_and_gradient(loss, vectors, **others):
    vectors = tf.constant(vectors, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        value = loss(vectors, **others)
    return float(value), tape.gradient(value, vectors).numpy()


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_and_its_gradient_are_those_of_sentence_transformers(name):
    loss, num_texts = LOSSES[name]
    labels = {"scores": np.array(GOLDEN["scores"]), "labels": np.array(GOLDEN["labels"])}.get(loss.learns_from)
    vectors = np.array(GOLDEN["vectors"])
    value, gradient = loss_and_gradient(loss, vectors[:, :num_texts], labels=labels)
    expected = GOLDEN["losses"][name]
    np.testing.assert_allclose(value, expected["loss"], rtol=1e-7)
    expected_gradient = np.array(expected["gradient"])
    np.testing.assert_allclose(gradient, expected_gradient[:, :num_texts], atol=1e-6)
    assert not expected_gradient[:, num_texts:].any()


def test_equal_texts_are_no_negatives_of_each_other():
    vectors = np.array(GOLDEN["vectors"])[:4, :2]
    vectors[2, 1] = vectors[0, 1]
    numbers = np.array([[0, 1], [2, 3], [4, 1], [5, 6]])  # examples 0 and 2 have the same positive
    found, _ = loss_and_gradient(InBatchNegatives(), vectors, text_numbers=numbers)
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    scores = units[:, 0] @ units[:, 1].T / 0.05
    scores[0, 2] = scores[2, 0] = -np.inf
    expected = np.mean(np.log(np.exp(scores).sum(axis=1)) - np.diag(scores))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_an_equal_anchor_and_an_equal_hard_negative_are_left_out_too():
    vectors = np.array(GOLDEN["vectors"])[:3]
    numbers = np.array([[0, 1, 2], [0, 3, 1], [4, 5, 6]])  # anchors 0 and 1; the negative of 1 is the positive of 0
    found, _ = loss_and_gradient(InBatchNegatives(), vectors, text_numbers=numbers)
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    scores = units[:, 0] @ np.concatenate([units[:, 1], units[:, 2]]).T / 0.05
    for row, column in ((0, 1), (1, 0), (0, 4)):
        scores[row, column] = -np.inf
    expected = np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(3), np.arange(3)])
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_candidate_equal_to_an_anchor_is_no_negative_of_it():
    vectors = np.array(GOLDEN["vectors"])[:3]
    # The anchor of example 0 is the positive of example 1, and that of example 2 the hard negative of example 0.
    numbers = np.array([[0, 1, 5], [2, 0, 3], [5, 6, 7]])
    found, _ = loss_and_gradient(InBatchNegatives(), vectors, text_numbers=numbers)
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    scores = units[:, 0] @ np.concatenate([units[:, 1], units[:, 2]]).T / 0.05
    scores[0, 1] = scores[2, 3] = -np.inf
    expected = np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(3), np.arange(3)])
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["in_batch_negatives", "cosine", "triplet"])
def test_an_example_of_weight_2_counts_twice(name):
    loss, num_texts = LOSSES[name]
    vectors = np.array(GOLDEN["vectors"])[:3, :num_texts]
    scores = np.array([0.1, 0.5, 0.9])
    single = [loss_and_gradient(loss, vectors, labels=scores, weights=np.eye(3)[number])[0] for number in range(3)]
    weighted, _ = loss_and_gradient(loss, vectors, labels=scores, weights=np.array([2.0, 1.0, 0.0]))
    np.testing.assert_allclose(weighted, (2 * single[0] + single[1]) / 3, rtol=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_vectors_of_zeros_have_a_finite_gradient(name):
    loss, num_texts = LOSSES[name]
    _, gradient = loss_and_gradient(loss, np.zeros((3, num_texts, 6)), labels=np.array([0, 1, 0]))
    assert np.isfinite(gradient).all()


def test_losses_have_names_and_checked_arguments():
    assert as_loss("cosent") == CoSENT()
    assert as_loss(None) is None
    for make, message in (
        (lambda: as_loss("hinge"), "loss must be an EmbeddingLoss or one of: in_batch_negatives, .*'hinge'"),
        (lambda: Matryoshka(CoSENT(), []), "one or more whole numbers"),
        (lambda: Matryoshka(CoSENT(), [4, 0]), "one or more whole numbers"),
    ):
        with pytest.raises(InputError, match=message):
            make()


def test_losses_work_on_every_backend_operation():
    # float32, as in training.
    vectors = keras.ops.convert_to_tensor(np.array(GOLDEN["vectors"], "float32")[:, :2])
    np.testing.assert_allclose(
        float(InBatchNegatives(symmetric=True)(vectors)), GOLDEN["losses"]["symmetric"]["loss"], rtol=1e-5
    )
