"""Extractive summaries."""

import numpy as np
import pytest
from tiny_checkpoints import CONFIG

from keras_bert.embeddings import summarization
from keras_bert.embeddings.summarization import packed_sentence_embeddings, summarize
from keras_bert.embeddings.text_vectors import sentence_embeddings
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.program.errors import InputError

pytestmark = pytest.mark.usefixtures("without_graphs")

SENTENCES = ["the quick fox", "fox", "the brown fox the quick brown fox the quick", "quickest", "the the brown"] * 3


@pytest.fixture
def with_vectors(monkeypatch):
    """Gives sentences the vectors of a test: word -> vector."""

    def use(vectors):
        def embed(model, sentences, **options):
            found = np.array([vectors[sentence.rstrip(".")] for sentence in sentences], "float32")
            return found / np.linalg.norm(found, axis=1, keepdims=True)

        monkeypatch.setattr(summarization, "packed_sentence_embeddings", embed)

    return use


def test_sentences_packed_in_rows_have_the_vectors_that_they_have_alone(encoder):
    expected = sentence_embeddings(encoder, SENTENCES)
    for batch_size in (1, 16):
        found = packed_sentence_embeddings(encoder, SENTENCES, batch_size=batch_size)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert len(summarization._pack([4, 9, 5], 10)) == 2
    assert sorted(sum(summarization._pack([3] * 7, 9), [])) == list(range(7))


def test_all_sentences_of_a_text_take_one_pass(encoder, monkeypatch):
    calls, call = [], BertEncoder.call
    monkeypatch.setattr(BertEncoder, "call", lambda *args, **options: calls.append(1) or call(*args, **options))
    summarize(encoder, ". ".join(SENTENCES) + ".", 2)
    assert calls == [1]


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
