"""Losses over MaxSim: equal to their formulas in NumPy, with gradients by differences."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax

from keras_bert.program.errors import InputError
from keras_bert.tasks.multi_vector.losses import MaxSimDistillation, MaxSimInBatchNegatives, MaxSimMarginMSE, as_loss

DRAW = np.random.default_rng(0)
# 3 queries of 4 tokens at most, each with 2 documents of 5 tokens at most.
QUERIES, DOCUMENTS = DRAW.normal(size=(3, 4, 6)), DRAW.normal(size=(3, 2, 5, 6))
QUERIES[1, 2:] = DOCUMENTS[0, 1, 3:] = DOCUMENTS[2, 0, 1:] = 0  # no tokens
TEACHER = DRAW.normal(size=(3, 2)) * 3


def tokens(vectors):
    return vectors[vectors.any(axis=-1)]


def max_sim(query, document):
    return (tokens(query) @ tokens(document).T).max(axis=1).sum()


def in_batch(queries, documents, scale=1.0):
    scores = [[max_sim(query, text) for texts in documents for text in texts] for query in queries]
    return -log_softmax(axis=-1, x=scale * np.array(scores))[np.arange(3), np.arange(3) * 2].mean()


def own_scores(queries, documents):
    return np.array([[max_sim(query, text) for text in texts] for query, texts in zip(queries, documents, strict=True)])


def distillation(queries, documents):
    own, teacher = log_softmax(axis=-1, x=own_scores(queries, documents) / 2), log_softmax(axis=-1, x=TEACHER / 2)
    return 4 * (np.exp(teacher) * (teacher - own)).sum(axis=1).mean()


def margin_mse(queries, documents):
    scores = own_scores(queries, documents) - TEACHER
    return np.square(scores[:, 0] - scores[:, 1]).mean()


LOSSES = {
    "in batch": (MaxSimInBatchNegatives(), in_batch),
    "scaled": (MaxSimInBatchNegatives(scale=0.3), lambda *vectors: in_batch(*vectors, 0.3)),
    "distillation": (MaxSimDistillation(temperature=2.0), distillation),
    "margins": (MaxSimMarginMSE(), margin_mse),
}


def loss_and_gradients(loss, **others):
    vectors = [tf.constant(QUERIES), tf.constant(DOCUMENTS)]
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        value = loss(*vectors, labels=tf.constant(TEACHER), **others)
    return float(value), [gradient.numpy() for gradient in tape.gradient(value, vectors)]


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_and_its_gradients_are_those_of_its_formula(name):
    loss, formula = LOSSES[name]
    value, gradients = loss_and_gradients(loss)
    np.testing.assert_allclose(value, formula(QUERIES, DOCUMENTS), rtol=1e-9)
    for number, gradient in enumerate(gradients):
        vectors = [QUERIES, DOCUMENTS]
        change = np.where(vectors[number] == 0, 0, DRAW.normal(size=vectors[number].shape) * 1e-6)
        values = [
            formula(*(v + sign * change if n == number else v for n, v in enumerate(vectors))) for sign in (1, -1)
        ]
        np.testing.assert_allclose((gradient * change).sum(), (values[0] - values[1]) / 2, atol=1e-12)
        assert not gradient[vectors[number] == 0].any()


def test_scores_can_be_divided_by_the_number_of_tokens_of_a_query():
    value, _ = loss_and_gradients(MaxSimMarginMSE(), is_mean=True)
    scores = own_scores(QUERIES, DOCUMENTS) / np.array([[4], [2], [4]]) - TEACHER
    np.testing.assert_allclose(value, np.square(scores[:, 0] - scores[:, 1]).mean(), rtol=1e-9)


def test_equal_texts_are_no_negatives_of_each_other():
    # The first query has the document of the second one, and the third has the query of the second one.
    numbers = np.array([[0, 1, 2], [3, 1, 4], [3, 5, 0]])
    value, _ = loss_and_gradients(MaxSimInBatchNegatives(), text_numbers=numbers)
    scores = np.array([[max_sim(query, text) for texts in DOCUMENTS for text in texts] for query in QUERIES])
    for row, columns in ((0, [2, 5]), (1, [0, 4, 5]), (2, [2, 3])):
        scores[row, columns] = -np.inf
    np.testing.assert_allclose(value, -log_softmax(axis=-1, x=scores)[np.arange(3), np.arange(3) * 2].mean(), rtol=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_an_example_of_weight_2_counts_twice(name):
    loss = LOSSES[name][0]
    single = [loss_and_gradients(loss, weights=np.eye(3)[number])[0] for number in range(3)]
    weighted, _ = loss_and_gradients(loss, weights=np.array([2.0, 1.0, 0.0]))
    np.testing.assert_allclose(weighted, (2 * single[0] + single[1]) / 3, rtol=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_a_document_without_tokens_has_a_finite_gradient(name):
    vectors = [tf.constant(QUERIES), tf.constant(np.where(np.arange(2)[:, None, None] == 1, 0, DOCUMENTS))]
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        value = LOSSES[name][0](*vectors, labels=tf.constant(TEACHER))
    assert all(np.isfinite(gradient).all() for gradient in tape.gradient(value, vectors))


def test_losses_have_names():
    assert as_loss("margin_mse") == MaxSimMarginMSE()
    assert as_loss(None) is None
    with pytest.raises(
        InputError, match="loss must be a MaxSimLoss or one of: in_batch_negatives, distillation, margin"
    ):
        as_loss("hinge")
