"""Extractive summaries."""

import numpy as np
import pytest
from tiny_checkpoints import CONFIG, random_checkpoint

from keras_bert.checkpoints.pretrained import model_of
from keras_bert.embeddings import summarization
from keras_bert.embeddings.summarization import summarize
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.embedding.model import SentenceEncoder

pytestmark = pytest.mark.usefixtures("without_graphs")


@pytest.fixture
def with_vectors(monkeypatch):
    """Gives sentences the vectors of a test: word -> vector."""

    def use(vectors):
        def embed(model, sentences, **options):
            found = np.array([vectors[sentence.rstrip(".")] for sentence in sentences], "float32")
            return found / np.linalg.norm(found, axis=1, keepdims=True)

        monkeypatch.setattr(summarization, "sentence_embeddings", embed)

    return use


@pytest.mark.parametrize("method", ["centrality", "centroid"])
def test_the_sentences_that_resemble_most_others_are_chosen_in_the_order_of_the_text(method, with_vectors):
    # Three sentences about the fox are nearly equal; the others are unrelated.
    of_foxes = {"A fox": [1, 0.2, 0], "Foxes": [1, 0, 0.1], "Fox": [1, 0, 0]}
    with_vectors({"It rains": [0, 0, 1], "Ice": [0, 1, 0], **of_foxes})
    text = "It rains.\nA fox. Foxes.\n\nIce. Fox."
    found = summarize(None, text, 2, method=method, diversity=0.0)
    assert {sentence.text for sentence in found.chosen} <= {"A fox.", "Foxes.", "Fox."}
    assert found.chosen[0].number < found.chosen[1].number
    assert found.text == f"{found.chosen[0].text} {found.chosen[1].text}"
    parts = [text[sentence.start : sentence.end] for sentence in found.sentences]
    assert parts == ["It rains.", "A fox.", "Foxes.", "Ice.", "Fox."]
    assert sum(sentence.score for sentence in found.sentences) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", [SentenceEncoder, SequenceClassifier])
def test_other_models_summarise_by_the_vectors_of_their_encoder(encoder, kind):
    model = model_of(kind, random_checkpoint(), **({"labels": ["no", "yes"]} if kind is SequenceClassifier else {}))
    text = "the quick fox. fox. the brown fox the quick brown fox. the the brown."
    scores = [[one.score for one in summarize(of, text, 2).sentences] for of in (encoder, model)]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-3)


def test_diversity_leaves_out_what_has_been_said(with_vectors):
    with_vectors({"A fox": [1, 0.1], "Foxes": [1, 0], "Fox": [1, 0.05], "Ice": [0.3, 1]})
    for diversity, has_ice in ((0.7, True), (0.0, False)):
        chosen = summarize(None, "A fox. Foxes. Fox. Ice.", 2, diversity=diversity).chosen
        assert ("Ice." in {sentence.text for sentence in chosen}) == has_ice


def test_a_sentence_costs_its_likeness_to_the_one_that_is_most_like_it():
    # The last one repeats the second but not the first, so a mean over both would select it before the third.
    similarities = np.array([[1, 0.1, 0.6, 0.1], [0.1, 1, 0.6, 1], [0.6, 0.6, 1, 0.6], [0.1, 1, 0.6, 1.0]])
    assert summarization._choose(np.array([1.0, 0.9, 0.8, 0.8]), similarities, 3, 0.5) == [0, 1, 2]


def test_centrality_is_the_stationary_distribution_of_the_walk():
    similarities = np.array([[1.0, 0.9, 0.8, 0.1], [0.9, 1.0, 0.2, 0.1], [0.8, 0.2, 1.0, 0.1], [0.1, 0.1, 0.1, 1.0]])
    scores = summarization._centrality(similarities)
    weights = similarities - np.eye(4)
    weights = np.maximum(weights - weights.sum() / 12, 0)
    steps = np.array([row / row.sum() if row.sum() else np.full(4, 0.25) for row in weights])
    np.testing.assert_allclose(scores, 0.15 / 4 + 0.85 * scores @ steps, atol=1e-12)
    assert scores.argmax() == 0


def test_a_text_of_fewer_sentences_is_its_own_summary(encoder):
    for text in ("the fox.", "the fox. the brown fox."):
        assert summarize(encoder, text, 3).text == text


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (" \n ", {}, "The text has no sentence"),
        ("a.", {"num_sentences": 0}, "num_sentences must be a whole number of at least 1. Received: 0"),
        ("a.", {"method": "lead"}, "method must be one of centrality, centroid. Received: 'lead'"),
        ("a.", {"diversity": 1.5}, "diversity must be a number of at least 0 and at most 1. Received: 1.5"),
        ("a. b.", {"sentences": ["b.", "a."]}, "Sentence 2 is empty, or is not in the text behind .* 'a.'"),
        ("a.", {"model": BertEncoder(CONFIG)}, "The model has no vocabulary"),
    ],
)
def test_what_cannot_be_summarised_is_said(encoder, text, arguments, message):
    with pytest.raises(InputError, match=message):
        summarize(**{"model": encoder, "text": text, **arguments})
