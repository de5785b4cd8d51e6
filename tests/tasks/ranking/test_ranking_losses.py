"""Losses of cross-encoders as formulas in NumPy, and how `fit` takes them."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import softmax
from tiny_checkpoints import CONFIG, random_checkpoint

from keras_bert import AdamW, CrossEncoder, InputError
from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.pretrained import model_of
from keras_bert.tasks.embedding.examples import DataSets, SentenceExamples
from keras_bert.tasks.ranking.loss_table import RANKING_LOSSES
from keras_bert.tasks.ranking.losses import LambdaLoss, ListNet, RankingMarginMSE, RankNet, as_ranking_loss

pytestmark = pytest.mark.usefixtures("without_graphs")

SCORES = np.array([[0.3, -1.2, 2.0, 0.1], [1.5, 0.2, -0.4, 0.9]])
LABELS = np.array([[3.0, 0.0, 1.0, 1.0], [0.0, 2.0, 0.5, 0.5]])
QUERIES, TEXTS, OTHERS = ["quick", "brown", "fox"], ["the quick fox", "brown fox", "the fox"], ["brown", "the", "quick"]


def margin_mse():
    return np.mean((SCORES[:, :1] - SCORES[:, 1:] - LABELS[:, :1] + LABELS[:, 1:]) ** 2)


def list_net():
    return -np.mean(np.sum(softmax(LABELS, axis=1) * np.log(softmax(SCORES, axis=1)), axis=1))


def mean_of_pairs(weight, k=4):
    """The mean over pairs of texts, the first more relevant and one of the first k, of a weight and the pair's loss."""
    found = []
    for scores, labels in zip(SCORES, LABELS, strict=True):
        ranks = np.argsort(np.argsort(-scores)) + 1
        ideal = np.sum(((2 ** np.sort(labels)[::-1] - 1) / np.log2(np.arange(2, 6)))[:k])
        for one, other in itertools.permutations(range(4), 2):
            if labels[one] > labels[other] and min(ranks[one], ranks[other]) <= k:
                gain = (2 ** labels[one] - 2 ** labels[other]) / ideal
                loss = np.log2(1 + np.exp(scores[other] - scores[one]))
                found.append(weight(gain, ranks[one], ranks[other]) * loss)
    return np.mean(found)


def discount(rank):
    return 1 / np.log2(1 + rank)


def lambda_rank(gain, one, other):
    return abs(discount(one) - discount(other)) * gain


def ndcg_loss2(gain, one, other):
    return abs(discount(abs(one - other)) - discount(abs(one - other) + 1)) * gain


FORMULAS = {
    "margin_mse": (RankingMarginMSE(), margin_mse),
    "list_net": (ListNet(), list_net),
    "rank_net": (RankNet(), lambda: mean_of_pairs(lambda *_: 1.0)),
    "lambda_rank": (LambdaLoss(weighting_scheme="lambda_rank"), lambda: mean_of_pairs(lambda_rank)),
    "lambda_rank_of_2": (LambdaLoss(weighting_scheme="lambda_rank", k=2), lambda: mean_of_pairs(lambda_rank, k=2)),
    "rank_net_of_1": (RankNet(k=1), lambda: mean_of_pairs(lambda *_: 1.0, k=1)),
    "lambda_loss": (LambdaLoss(), lambda: mean_of_pairs(lambda *pair: 10 * ndcg_loss2(*pair) + lambda_rank(*pair))),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_a_loss_is_its_formula(name):
    loss, formula = FORMULAS[name]
    term = loss(tf.constant(SCORES), tf.constant(LABELS))
    np.testing.assert_allclose(float(term.value), formula(), rtol=1e-9)


@pytest.mark.parametrize("name", FORMULAS)
def test_two_parts_of_a_batch_add_up_to_the_whole(name):
    loss, _ = FORMULAS[name]
    whole, *parts = (
        loss(tf.constant(SCORES[one]), tf.constant(LABELS[one])) for one in (slice(2), slice(1), slice(1, 2))
    )
    for sums in ("numerator", "weight"):
        np.testing.assert_allclose(sum(getattr(part, sums) for part in parts), getattr(whole, sums), rtol=1e-9)
    weighted = loss(tf.constant(SCORES), tf.constant(LABELS), tf.constant([2.0, 0.0], tf.float64))
    np.testing.assert_allclose(weighted.numerator, 2 * parts[0].numerator, rtol=1e-9)


def test_the_accuracy_is_the_share_of_queries_whose_most_relevant_text_leads():
    for scores, expected in (([[3.0, 2.0], [0.0, 1.0]], 1.0), ([[3.0, 3.0], [0.0, 1.0]], 0.5)):
        term = ListNet().accuracy(tf.constant(scores), tf.constant([[0.9, 0.1], [0.2, 0.4]]))
        assert float(term.value) == expected


@pytest.fixture
def model():
    keras.utils.set_random_seed(0)
    config = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    checkpoint = random_checkpoint(form.CLASSIFIER, config=config, labels=("score",))
    model = model_of(CrossEncoder, checkpoint.replace(problem_type="regression"), activation="linear")
    model.compile(AdamW(0.0), jit_compile=False)
    return model


def loss_of(model, *arguments, **options):
    return model.fit(*arguments, batch_size=4, verbose=0, **options).history["loss"][0]


def test_fit_takes_scores_of_each_text_or_those_of_a_teacher(eagerly, model):
    columns = (QUERIES, TEXTS, OTHERS)
    scores, labels = model.predict(columns, verbose=0), [[1.0, 0.0], [0.5, 2.0], [0.0, 1.0]]
    expected = -np.mean(np.sum(softmax(labels, axis=1) * np.log(softmax(scores, axis=1)), axis=1))
    np.testing.assert_allclose(loss_of(model, columns, labels, loss="list_net"), expected, rtol=1e-5)
    margins = [0.5, -1.0, 2.0]
    expected = np.mean((scores[:, 0] - scores[:, 1] - margins) ** 2)
    np.testing.assert_allclose(loss_of(model, columns, margins, loss="margin_mse"), expected, rtol=1e-5)
    # Without scores, the first text is the relevant one.
    expected = np.mean(np.log2(1 + np.exp(scores[:, 1] - scores[:, 0])))
    np.testing.assert_allclose(loss_of(model, columns, loss="RankNetLoss"), expected, rtol=1e-5)
    # A model is its own teacher.
    np.testing.assert_allclose(loss_of(model, columns, loss=RankingMarginMSE(teacher=model)), 0.0, atol=1e-10)
    assert model.evaluate(columns, labels, verbose=0)["mrr@10"] == pytest.approx(
        np.mean([1.0 if np.argmax(one) == np.argmax(two) else 0.5 for one, two in zip(scores, labels, strict=True)])
    )


def test_data_sets_train_with_the_loss_of_each(eagerly, model):
    parts = [
        SentenceExamples([QUERIES, TEXTS], [1, 0, 0.5]),
        SentenceExamples([QUERIES, TEXTS, OTHERS], loss="lambda_loss"),
    ]
    alone = [model.fit(part, batch_size=4, verbose=0).history for part in parts]
    history = model.fit(DataSets(parts), batch_size=4, verbose=0).history
    # Both count three times: binary cross-entropy by texts, and LambdaLoss by pairs of a query's texts.
    for name in ("loss", "accuracy"):
        np.testing.assert_allclose(history[name][0], np.mean([one[name][0] for one in alone]), rtol=1e-5)


@pytest.mark.parametrize(
    ("x", "y", "loss", "message"),
    [
        ((QUERIES, TEXTS, OTHERS), None, "list_mle", "RankingLoss or one of: binary_cross_entropy, .*'list_mle'"),
        ((QUERIES, TEXTS, OTHERS), None, "margin_mse", "learns from lists of scores.*Give the scores of a teacher"),
        ((QUERIES, TEXTS, OTHERS), [1.0, 0.2, 0.1], "list_net", "needs a score for each text after the query"),
        ((QUERIES, TEXTS), [1.0, 0.2, 0.1], "rank_net", "RankNet learns from lists of scores or pairs, with 3"),
        ((QUERIES, TEXTS, OTHERS), [[1, 0]] * 3, None, "no loss, and for lists of scores one must be named"),
        ((QUERIES, TEXTS, OTHERS), [[1, 0]] * 2, "list_net", "equally long. .* 3 texts in column 1, 2 in scores"),
    ],
)
def test_examples_that_do_not_fit_are_refused(x, y, loss, message, model):
    with pytest.raises(InputError, match=message):
        model.fit(x, y, loss=loss, verbose=0)


def test_every_loss_of_the_table_has_its_name():
    for name, entry in RANKING_LOSSES.items():
        assert type(as_ranking_loss(name)) is type(as_ranking_loss(entry.published))
