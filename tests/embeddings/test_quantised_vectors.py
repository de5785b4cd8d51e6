"""Vectors in fewer bits: codes and searches equal what NumPy computes in one piece; a graph works on 8 bits too."""

import numpy as np
import pytest
from clustered_vectors import clusters, recall

from keras_bert.embeddings import exact_search, quantised_vectors
from keras_bert.embeddings.exact_search import nearest_rows
from keras_bert.embeddings.neighbour_graph import _faiss_index, build_graph, check_graph
from keras_bert.embeddings.quantised_vectors import StoredVectors, int8_ranges, quantise
from keras_bert.embeddings.row_search import RowSearch


def test_codes_are_steps_of_the_ranges_and_signs():
    vectors = np.array([[0, -1, 3], [255, 50, 3]], "float32")
    ranges = int8_ranges(vectors)
    assert ranges.tolist() == vectors.tolist()
    assert quantise(vectors, "int8", ranges).tolist() == [[-128, -128, -128], [127, 127, -128]]
    outside = np.array([[-9, 24.5, 9]], "float32")
    assert quantise(outside, "int8", ranges).tolist() == [[-128, -1, -122]]
    assert quantise(np.array([[-1, 0, 2, 0, 0, 0, 0, 0, 5]], "float32"), "binary").tolist() == [[32 - 128, 0]]


@pytest.mark.parametrize("chunk", [1, 7, 1000])
@pytest.mark.parametrize("masked", [None, 0.9, 0.2])
def test_all_precisions_find_what_numpy_finds_in_one_piece(chunk, masked, monkeypatch):
    monkeypatch.setattr(exact_search, "CHUNK", chunk)
    monkeypatch.setattr(quantised_vectors, "_ROWS_AT_ONCE", 3)
    vectors, queries = np.round(4 * clusters(60, 20)) / 4, clusters(5, 20, seed=1)
    vectors[1::2] = vectors[::2]  # ties
    mask = None if masked is None else np.random.default_rng(3).random(60) < masked
    allowed = np.arange(60) if mask is None else np.flatnonzero(mask)
    for precision in ("float32", "int8", "binary"):
        stored = StoredVectors.of(vectors, precision)
        numbers, scores = stored.nearest(queries, 2, mask)
        for query, found, found_scores in zip(queries, numbers, scores, strict=True):
            restored = stored.restored(allowed)
            candidates = np.arange(len(allowed))
            if precision == "binary":
                distances = ((vectors[allowed] > 0) != (query > 0)).sum(axis=1)
                candidates = np.sort(np.argsort(distances, kind="stable")[:8])
            products = np.round(restored[candidates] @ query, 5)
            best = candidates[np.argsort(-products, kind="stable")[:2]]
            np.testing.assert_allclose(found_scores, restored[best] @ query, atol=1e-5)
            assert np.isin(found, allowed).all()


def test_the_earlier_of_equal_rows_comes_first_across_parts_and_masks(monkeypatch):
    monkeypatch.setattr(exact_search, "CHUNK", 4)
    products = np.array([[1, 3, 2, 3, 3, 1, 3, 2, 3]], "float32")
    assert nearest_rows(lambda rows: products[:, rows], 9, 1, 4)[0].tolist() == [[1, 3, 4, 6]]
    mask = np.array([1, 0, 1, 1, 0, 0, 1, 1, 1], bool)
    assert nearest_rows(lambda rows: products[:, rows], 9, 1, 4, mask)[0].tolist() == [[3, 6, 8, 2]]


def test_a_graph_of_8_bits_finds_nearly_what_the_exact_search_finds():
    vectors, queries = clusters(3000, 20), clusters(200, 20, seed=1)  # 20: no whole number of words
    stored = StoredVectors.of(vectors, "int8")
    graph = build_graph(stored.codes, ranges=stored.ranges)
    search = RowSearch(stored, check_graph(graph, 3000))
    numbers, scores = search.nearest(queries, 10, None, False)
    exact, exact_scores = search.nearest(queries, 10, None, True)
    assert recall(numbers, exact) >= 0.99
    np.testing.assert_allclose(scores[:, 0], exact_scores[:, 0], atol=1e-2)
    assert _faiss_index(stored.codes, graph, stored.ranges).storage.sa_code_size() == 20, "a byte for each number"
