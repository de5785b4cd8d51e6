"""`SentenceClassifier`, and its training on a few texts per label."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit, log_softmax
from sklearn.linear_model import LogisticRegression
from tiny_checkpoints import CONFIG, random_checkpoint
from tiny_models import made_signatures

from keras_bert import InputError, SentenceClassifier, SentenceEncoder, VectorIndex
from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.models.base import NewParts
from keras_bert.tasks.classification import sentence_classifier
from keras_bert.tasks.classification.examples import TextExamples
from keras_bert.tasks.classification.sentence_classifier import (
    few_shot_pairs,
    fit_dense_layer,
    held_out_temperature,
)
from keras_bert.training.fine_tuning import FineTuningOptions, train_few_shot
from keras_bert.training.starting_point import StartingPoint

pytestmark = pytest.mark.usefixtures("without_graphs")

TEXTS = ["the quick fox", "quick fox", "quick the quick", "brown the", "brown brown", "the brown"]
LABELS = ["fast", "fast", "fast", "dark", "dark", "dark"]


@pytest.fixture
def folder(tmp_path):
    keras.utils.set_random_seed(1)  # of the Dense module
    config = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    write_checkpoint(random_checkpoint(config=config), tmp_path / "plain", "huggingface")
    encoder = SentenceEncoder.from_pretrained(tmp_path / "plain", pooling=["cls", "mean"], dense=[{"units": 6}])
    encoder.new_parts.set_trained()
    encoder.save_pretrained(tmp_path / "folder", format="huggingface")
    return tmp_path / "folder"


def classifier(folder, labels=("dark", "fast", "unused"), **arguments):
    return SentenceClassifier.from_pretrained(folder, labels=list(labels), **arguments)


def test_the_encoder_is_trained_and_read_with_the_given_options(folder, monkeypatch):
    compiled, fitted, read = {}, {}, {}

    def vectors(model, texts, **options):
        read.update(options)
        return np.eye(len(texts))

    monkeypatch.setattr(SentenceEncoder, "compile", lambda model, optimizer, **_: compiled.update(optimizer=optimizer))
    monkeypatch.setattr(SentenceEncoder, "fit", lambda model, *columns, **options: fitted.update(options))
    monkeypatch.setattr(SentenceEncoder, "predict", vectors)
    monkeypatch.setattr(sentence_classifier, "fit_dense_layer", lambda *arguments: None)
    options = {"epochs": 3, "batch_size": 5, "max_seq_length": 6, "seed": 4}
    classifier(folder).fit_few_shot(TEXTS, LABELS, learning_rate=2e-3, **options)
    assert fitted == {"verbose": "auto", **options}
    assert read["max_seq_length"] == 6
    schedule = compiled["optimizer"].get_config()["learning_rate"]["config"]
    # 12 pairs with equal labels, as many others: 5 updates for 24 pairs, three times.
    assert (schedule["peak"], schedule["num_train_steps"], schedule["num_warmup_steps"]) == (2e-3, 15, 1)


def test_a_run_passes_its_options_on(folder, tmp_path, monkeypatch):
    found = {}
    monkeypatch.setattr(SentenceClassifier, "fit_few_shot", lambda model, *columns, **options: found.update(options))
    asked = {"train_batch_size": 5, "learning_rate": 3e-4, "max_seq_length": 7, "seed": 9}
    train_few_shot(
        tmp_path / "run",
        TextExamples(TEXTS, labels=LABELS),
        start=StartingPoint(init_checkpoint=folder),
        options=FineTuningOptions(num_train_epochs=2.6, **asked),
        model_arguments={"labels": ["dark", "fast"]},
    )
    asked["batch_size"] = asked.pop("train_batch_size")
    assert found == {"epochs": 3, **asked}


def test_a_few_texts_are_enough_and_the_model_is_saved_and_served(folder, tmp_path):
    model = classifier(folder)
    before = model.encoder.get_weights()
    model.fit_few_shot(TEXTS, LABELS, epochs=6, learning_rate=1e-2, verbose=0)
    answers = model.predict(TEXTS, verbose=0)
    assert [answer.label for answer in answers] == LABELS
    assert all(answer.probabilities["unused"] == 0 for answer in answers)
    assert any(np.abs(one - other).max() > 1e-3 for one, other in zip(before, model.encoder.get_weights(), strict=True))
    model.save_pretrained(tmp_path / "saved")
    loaded = SentenceClassifier.from_pretrained(tmp_path / "saved")
    expected = [answer.probability for answer in answers]
    found = [answer.probability for answer in loaded.predict(TEXTS, verbose=0)]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    served = made_signatures(loaded, {})["serving_default"]
    np.testing.assert_allclose(served(text=tf.constant(TEXTS))["probability"], expected, atol=1e-5)


def test_the_dense_layer_reads_the_vectors_of_the_sentence_encoder(folder):
    model, encoder = classifier(folder), SentenceEncoder.from_pretrained(folder)
    model.new_parts.set_trained()
    kernel, bias = model.classifier.get_weights()
    logits = encoder.encode(TEXTS) @ kernel + bias
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = [list(answer.probabilities.values()) for answer in model.predict(TEXTS, verbose=0)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def held_out_logits(vectors, ids):
    """Logits of each vector, by a regression without its part of up to five: of each label every n-th vector."""
    places = np.zeros(len(ids), int)
    for label in set(ids):
        own = np.where(ids == label)[0]
        places[own] = np.arange(len(own)) * 5 // len(own)
    logits = np.zeros((len(ids), len(set(ids))))
    for part in range(5):
        head = LogisticRegression().fit(vectors[places != part], ids[places != part])
        logits[places == part] = head.decision_function(vectors[places == part])
    return logits


def test_the_head_is_as_sure_as_it_is_right_on_held_out_texts():
    generator = np.random.default_rng(0)
    ids = np.repeat([0, 1, 2], 10)
    vectors = np.eye(3)[ids] + generator.normal(0, 0.4, (30, 3))
    logits = held_out_logits(vectors, ids)
    right = np.eye(3)[ids] * 30 / 32 + 2 / 32 / 3
    tried = np.linspace(0.05, 1.0, 951)
    losses = [-(right * log_softmax(logits / one, axis=1)).sum() for one in tried]
    found = held_out_temperature(vectors, ids)
    assert found == pytest.approx(tried[np.argmin(losses)], abs=2e-3)
    assert 0.1 < found < 0.9

    kernel, bias = np.zeros((3, 4), np.float32), np.zeros(4, np.float32)
    weights = [kernel, bias]
    dense = SimpleNamespace(weights=weights, set_weights=lambda new: weights.__setitem__(slice(None), new))
    fit_dense_layer(SimpleNamespace(classifier=dense, new_parts=NewParts()), vectors, ids, found)
    head = LogisticRegression().fit(vectors, ids)
    np.testing.assert_allclose(weights[0][:, :3], head.coef_.T / found, rtol=1e-5)
    np.testing.assert_allclose(weights[1][:3], head.intercept_ / found, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("ids", [[0, 0, 0, 1], [0, 1, 0, 1]])
def test_a_label_with_one_text_and_labels_by_chance_keep_the_temperature(ids):
    assert held_out_temperature(np.array([[1.0, 0.0], [0.9, 0.1], [0.1, 0.9], [0.0, 1.0]]), np.array(ids)) == 1.0


def test_a_few_texts_that_are_all_told_apart_are_answered_with_some_doubt():
    few = held_out_temperature(np.eye(2)[[0, 0, 1, 1]], np.array([0, 0, 1, 1]))
    assert held_out_temperature(np.eye(2)[[0, 0, 1, 1]], np.array([3, 3, 8, 8])) == few
    logit = LogisticRegression().fit(np.eye(2), [0, 1]).decision_function([[0.0, 1.0]])[0]
    assert expit(logit / few) == pytest.approx(5 / 6, abs=1e-4)  # two of six may be wrong by chance


def test_an_index_takes_the_vectors_of_a_classifier_too(folder, tmp_path):
    model = classifier(tmp_path / "plain")
    index = VectorIndex.build(model, TEXTS)
    assert index.search(model, TEXTS[0], top_k=1)[0][0].text == TEXTS[0]


def test_pairs_are_as_often_of_equal_as_of_different_labels():
    pairs, scores = few_shot_pairs(np.array([0, 0, 0, 1]), None, seed=0)
    assert scores.tolist() == [1.0] * 7 + [0.0] * 7  # 6 + 1 pairs of equal labels, and 3 of different ones, repeated
    equal, different = ({tuple(sorted(pair)) for pair in kind.tolist()} for kind in (pairs[:7], pairs[7:]))
    assert equal == {(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2), (3, 3)}
    assert different == {(0, 3), (1, 3), (2, 3)}
    assert len(few_shot_pairs(np.array([0, 0, 0, 1]), 4, seed=0)[0]) == 4


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda new: new().fit_few_shot(TEXTS, ["fast"] * 6), "two labels or more. Received: 6 texts .* 'fast'"),
        (lambda new: new().fit_few_shot(TEXTS, ["slow", *LABELS[1:]]), "slow"),
        (lambda new: new().fit_few_shot(TEXTS, LABELS[:5]), "6 texts"),
        (lambda new: new().fit_few_shot(TEXTS, [None, *LABELS[1:]]), "its label is None.* skip_missing=True"),
        (lambda new: new(problem_type="multi_label").fit_few_shot(TEXTS, LABELS), "Received: a model for multi_label"),
        (lambda new: new(pooling=["sum"]), "pooling must be one or more"),
        (lambda new: new().save_pretrained("x", format="huggingface"), "huggingface format has no place"),
        (lambda new: new().save_pretrained("x", format="google"), "google format has no place"),
    ],
)
def test_what_does_not_fit_is_refused(ask, message, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        ask(lambda **arguments: classifier(folder, **arguments))


def test_texts_with_a_gap_are_left_out_if_asked_for(folder, monkeypatch, capsys):
    found = []
    monkeypatch.setattr(SentenceEncoder, "fit", lambda model, *columns, **options: found.append(columns))
    given = [*TEXTS, None, "brown"], [*LABELS, "dark", None]
    classifier(folder).fit_few_shot(*given, skip_missing=True, verbose=0)
    classifier(folder).fit_few_shot(TEXTS, LABELS, verbose=0)
    assert found[0] == found[1]
    assert "2 of 8 rows were left out, because a value is missing" in capsys.readouterr().err
