"""Searches of an index against brute force, and against what the index before the one on Arrow found."""

import pathlib
import zlib

import numpy as np
import pytest

from keras_bert.embeddings import vector_search
from keras_bert.embeddings.vector_index import VectorIndex
from keras_bert.embeddings.vector_search import VectorSearch
from keras_bert.embeddings.word_index import WordIndex

# The ids and scores that commit 3da1c2e8 found for `SEARCHES`, int16 and float32 [queries, TOP_K] each; -1 fills up.
RECORDED = pathlib.Path(__file__).parent / "recorded_searches.npz"
TOP_K = 6
GENERATOR = np.random.default_rng(66)
WORDS = [f"{first}{second}" for first in ("ba", "ko", "li", "mu", "tes") for second in ("do", "ra", "sim", "x")]
TEXTS = [" ".join(GENERATOR.choice(WORDS, size)) for size in GENERATOR.integers(1, 5, 240)]
QUERIES = [" ".join(GENERATOR.choice(WORDS, 2)) for _ in range(40)]
METADATA = {
    "language": GENERATOR.choice(["en", "de", "fr"], 240).tolist(),
    "year": GENERATOR.integers(2000, 2010, 240).tolist(),
    "price": (GENERATOR.integers(0, 9, 240) / 2).tolist(),
    "is_open": (GENERATOR.random(240) < 0.5).tolist(),
}
WHERE = {"language": "de", "is_open": True}
CHANGED = [f"d{number}" for number in range(0, 240, 9)]


def vector_of(text: str) -> np.ndarray:
    """Returns few different numbers with exact products, so that many texts are equally similar to a query."""
    return np.random.default_rng(zlib.crc32(text.encode())).integers(-2, 3, 6) / 4


def built(**options) -> VectorIndex:
    return VectorIndex.build(None, TEXTS, ids=[f"d{number}" for number in range(240)], metadata=METADATA, **options)


def deleted() -> VectorIndex:
    index = built()
    index.delete(CHANGED)
    return index


def updated() -> VectorIndex:
    index = built()
    index.update(None, CHANGED, TEXTS[: len(CHANGED)])
    return index


def searched(index, **options) -> list:
    return index.search(None, QUERIES, TOP_K, **options)


SEARCHES = {
    "dense": lambda: searched(built()),
    "dictionary": lambda: searched(built(), where=WHERE),
    "function": lambda: searched(built(), where=lambda columns: columns["year"] > 2006),
    "hybrid": lambda: searched(built(), hybrid=True),
    "hybrid, dictionary": lambda: searched(built(), hybrid=True, where=WHERE),
    "words": lambda: WordIndex.build(TEXTS, ids=[f"d{number}" for number in range(240)]).search(QUERIES, TOP_K),
    "deleted": lambda: searched(deleted(), where={"price": 2}),
    "updated": lambda: searched(updated(), hybrid=True),
}


@pytest.fixture(autouse=True)
def vectors(use_vectors):
    use_vectors(vector_of)


def as_arrays(found) -> tuple[np.ndarray, np.ndarray]:
    ids, scores = np.full((len(QUERIES), TOP_K), -1, np.int16), np.zeros((len(QUERIES), TOP_K), np.float32)
    for query, hits in enumerate(found):
        ids[query, : len(hits)] = [int(hit.id[1:]) for hit in hits]
        scores[query, : len(hits)] = [hit.score for hit in hits]
    return ids, scores


@pytest.mark.parametrize("share", [1.0, 0.9, 0.5, 0.1, 0.01, 0.0])
@pytest.mark.parametrize("parts", [[240], [100, 1, 139]])
@pytest.mark.parametrize("num_queries", [1, 40])
def test_filters_and_ties_are_those_of_brute_force_whatever_the_parts(share, parts, num_queries, monkeypatch):
    for name, value in {"CHUNK": 64, "QUERIES_AT_ONCE": 7, "_GATHERED_AT_ONCE": 5, "_GATHERED_FOR_MANY": 9}.items():
        monkeypatch.setattr(vector_search, name, value)
    vectors, queries = (np.array([*map(vector_of, texts)], np.float32) for texts in (TEXTS, QUERIES[:num_queries]))
    mask = np.random.default_rng(1).random(240) < share
    products = np.where(mask, queries @ vectors.T, -np.inf)
    expected = np.argsort(-products, axis=1, kind="stable")[:, : min(TOP_K, mask.sum())]
    search = VectorSearch(np.split(vectors, np.cumsum(parts)[:-1]))
    numbers, scores = search.nearest(queries, TOP_K, mask, True)
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_array_equal(scores, np.take_along_axis(products, expected, axis=1))
    np.testing.assert_array_equal(search[expected], vectors[expected])
    assert search.nearest(queries[:0], 5, None, True)[0].shape == (0, 5)


@pytest.mark.parametrize("name", SEARCHES)
def test_results_scores_and_ties_are_those_of_the_index_before(name):
    ids, scores = as_arrays(SEARCHES[name]())
    with np.load(RECORDED) as recorded:
        np.testing.assert_array_equal(ids, recorded[f"{name} ids"])
        np.testing.assert_array_equal(scores, recorded[f"{name} scores"])
