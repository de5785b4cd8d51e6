"""Pairs and groups of similar vectors: what sentence-transformers' algorithms find, in a defined order."""

import itertools

import numpy as np
import pytest

from keras_bert.embeddings import vector_search
from keras_bert.embeddings.similar_pairs import SimilarPair, communities, paraphrase_mining, similar_pairs
from keras_bert.program.errors import InputError


def at_angles(*degrees):
    return np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=1)


@pytest.fixture(params=[1, 40, 1 << 24], ids="{} at once".format)
def chunk(request, monkeypatch):
    monkeypatch.setattr(vector_search, "MOST_AT_ONCE", request.param)


@pytest.mark.usefixtures("chunk")
def test_the_most_similar_pairs_come_first_each_once():
    vectors = np.random.default_rng(1).normal(size=(12, 3))
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    every = sorted(((units[a] @ units[b], a, b) for a, b in itertools.combinations(range(12), 2)), reverse=True)
    for max_pairs in (5, 500):
        found = similar_pairs(vectors, max_pairs=max_pairs)
        assert [(pair.first, pair.second) for pair in found] == [(a, b) for _, a, b in every[:max_pairs]]
        scores = [score for score, *_ in every[:max_pairs]]
        np.testing.assert_allclose([pair.score for pair in found], scores, atol=1e-6)


@pytest.mark.usefixtures("chunk")
def test_a_pair_must_be_among_the_nearest_of_one_of_its_vectors_and_ties_go_to_the_lowest_numbers():
    vectors = at_angles(0, 10, 25, 90)
    assert [pair[1:] for pair in similar_pairs(vectors, top_k=1)] == [(0, 1), (1, 2), (2, 3)]
    equal = np.ones((3, 4))
    assert [pair[1:] for pair in similar_pairs(equal, top_k=5)] == [(0, 1), (0, 2), (1, 2)]
    assert similar_pairs(equal[:1]) == similar_pairs(equal[:0]) == []


def test_texts_are_encoded_by_the_model():
    class Model:
        def encode(self, texts, batch_size):
            return at_angles(*map(float, texts))

    assert paraphrase_mining(Model(), ["0", "90", "0"], max_pairs=1) == [SimilarPair(pytest.approx(1.0), 0, 2)]


@pytest.mark.usefixtures("chunk")
def test_the_largest_community_is_taken_first_and_its_members_leave_the_others():
    vectors = at_angles(0, 10, 20, 29, 200, 205, 100)
    # Around 10 and 20 degrees lie four texts within 21 degrees; 10 degrees comes first.
    threshold = np.cos(np.radians(21))
    assert communities(vectors, threshold=threshold, min_size=2) == [[1, 0, 2, 3], [4, 5]]
    assert communities(vectors, threshold=threshold, min_size=1) == [[1, 0, 2, 3], [4, 5], [6]]
    assert communities(vectors, threshold=threshold, min_size=5) == []
    # With 15 degrees, the group around 20 loses 10 to that around 10, and is then too small.
    assert communities(vectors, threshold=np.cos(np.radians(15)), min_size=3) == [[1, 0, 2]]
    # A centre that is taken has no group of its own, even if one of its members is left.
    assert communities(at_angles(0, 10, 20, 35), threshold=np.cos(np.radians(16)), min_size=1) == [[1, 0, 2], [3]]
    assert communities(vectors[:0]) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: similar_pairs(np.eye(2), top_k=0), "top_k must be a whole number of at least 1. Received: 0"),
        (lambda: communities(np.eye(2), min_size=0), "min_size must be a whole number of at least 1. Received: 0"),
        (lambda: communities(np.ones(3)), r"must be an array \[texts, D\]. Received the shape \[3\]"),
        (lambda: similar_pairs([[np.nan, 1.0]]), "not numbers"),
    ],
)
def test_what_cannot_be_compared_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
