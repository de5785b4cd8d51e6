"""Shared by the tests of vectors: an encoder, vectors that a test gives to texts, and indexes with a graph."""

import numpy as np
import pytest
from clustered_vectors import clusters
from tiny_checkpoints import random_checkpoint

from keras_bert.checkpoints.pretrained import model_of
from keras_bert.embeddings import hard_negatives, index_rows, vector_index
from keras_bert.embeddings.neighbour_graph import build_graph
from keras_bert.encoders.bert.encoder import BertEncoder


@pytest.fixture(scope="module")
def encoder():
    return model_of(BertEncoder, random_checkpoint(), output_hidden_states=True)


@pytest.fixture
def use_vectors(monkeypatch):
    """Returns a function that takes text -> vector: searches use these vectors, and no model."""

    def use(vector_of):
        def embed(model, texts, *_, **__):
            return np.array([vector_of(text) for text in texts], np.float32)

        for module in (hard_negatives, vector_index):
            monkeypatch.setattr(module, "search_vectors", embed)
        monkeypatch.setattr(vector_index, "model_fingerprint", lambda model: "")

    return use


@pytest.fixture
def from_four(monkeypatch):
    """Indexes of four or more texts get a graph."""
    monkeypatch.setattr(index_rows, "GRAPH_FROM", 4)


@pytest.fixture(scope="session")
def graph():
    """The graph of `clusters(3000)`."""
    return build_graph(clusters(3000))
