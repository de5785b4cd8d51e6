"""The losses of `SparseEncoder`: equal to those of sentence-transformers, with weights that warm up."""

import json

import numpy as np
import pytest
import tensorflow as tf
from places import TESTS

from keras_bert.program.errors import InputError
from keras_bert.tasks.sparse.losses import SpladeLoss, as_splade_loss, flops

# Recorded with sentence-transformers in float64 (parity/sentence_transformers_sparse.py).
GOLDEN = json.loads((TESTS / "embedding_golden" / "sparse.json").read_text())
VECTORS = np.array(GOLDEN["vectors"])


def loss_and_gradient(loss, vectors, **others):
    vectors = tf.constant(vectors, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        value = loss(vectors, **others)
    return float(value), np.asarray(tape.gradient(value, vectors))


@pytest.mark.parametrize("name", GOLDEN["cases"])
def test_a_loss_and_its_gradient_are_those_of_sentence_transformers(name):
    texts, teacher, arguments = GOLDEN["cases"][name]
    if teacher is not None:
        teacher = np.array(teacher)
    loss = SpladeLoss(**{"query_regularizer_weight": 0.0, **arguments})
    value, gradient = loss_and_gradient(loss, VECTORS[:, :texts], teacher=teacher)
    expected = GOLDEN["losses"][name]
    np.testing.assert_allclose(value, expected["loss"], rtol=1e-9)
    np.testing.assert_allclose(gradient, np.array(expected["gradient"])[:, :texts], atol=1e-8)


def test_an_example_of_weight_0_does_not_count():
    loss = SpladeLoss(document_regularizer_weight=0.2, query_regularizer_weight=0.1)
    teacher = np.array([[1.0, -2.0], [0.5, 0.0], [3.0, 1.0]])
    found, gradient = loss_and_gradient(loss, VECTORS[:3], teacher=teacher, weights=np.array([1.0, 1.0, 0.0]))
    expected, _ = loss_and_gradient(loss, VECTORS[:2], teacher=teacher[:2])
    assert found == pytest.approx(expected)
    np.testing.assert_array_equal(gradient[2], 0)


def test_equal_texts_are_no_negatives_of_each_other():
    vectors, loss = VECTORS[:3, :2].copy(), SpladeLoss("in_batch_negatives", 0.0, 0.0)
    vectors[2] = vectors[0]
    found, _ = loss_and_gradient(loss, vectors, text_numbers=np.array([[0, 1], [2, 3], [0, 1]]))
    scores = vectors[:2, 0] @ vectors[:2, 1].T
    one, other = np.log(np.exp(scores).sum(axis=1)) - np.diag(scores)
    own = scores[1, 0]  # the first document is twice a negative of the second query
    other = np.log(np.exp(scores[1]).sum() + np.exp(own)) - scores[1, 1]
    assert found == pytest.approx((2 * one + other) / 3)


def test_a_share_of_the_weights_counts_for_both_regularisers():
    loss = SpladeLoss(document_regularizer_weight=0.2, query_regularizer_weight=0.1)
    none, quarter, whole = (loss_and_gradient(loss, VECTORS, share=share)[0] for share in (0.0, 0.25, 1.0))
    assert none == pytest.approx(loss_and_gradient(SpladeLoss(None, 0.0, 0.0), VECTORS)[0])
    assert quarter - none == pytest.approx((whole - none) / 4)


def test_only_vectors_with_more_numbers_than_the_threshold_count():
    vectors = tf.constant([[1.0, 2.0, 0.0], [3.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    values = [float(flops(vectors, threshold)) for threshold in (None, 1, 2, 3)]
    assert values == pytest.approx([(25 + 9 + 1) / 9, (4 + 9 + 1) / 9, 3 / 9, 0])


def test_static_queries_are_not_regularised():
    loss = SpladeLoss(query_regularizer_weight=1e6)
    found, _ = loss_and_gradient(loss, VECTORS, static_queries=True)
    assert found == pytest.approx(loss_and_gradient(SpladeLoss(query_regularizer_weight=0), VECTORS)[0])


def test_a_teacher_without_its_loss_is_refused():
    with pytest.raises(InputError, match="A teacher is for margin_mse"):
        SpladeLoss(ranking="in_batch_negatives", teacher="folder")


def test_a_loss_is_named_or_refused():
    assert as_splade_loss("margin_mse") == SpladeLoss("margin_mse")
    with pytest.raises(
        InputError, match="loss must be a SpladeLoss, 'in_batch_negatives' or 'margin_mse'. Received: 3"
    ):
        as_splade_loss(3)
