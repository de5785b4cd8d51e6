"""Scores of a search: every query against the whole corpus, the lowest id first among equal scores."""

import numpy as np
import pandas
import pytest

from keras_bert.embeddings.search_scores import evaluate_search
from keras_bert.embeddings.vector_index import VectorIndex
from keras_bert.program.errors import InputError
from keras_bert.tasks.ranking.answers import ranked_texts

# The query is nearest to "near"; "tied" and "too" are equally far; "far" is last.
VECTORS = {"query": (1.0, 0.0), "near": (0.8, 0.6), "tied": (0.6, 0.8), "too": (0.6, 0.8), "far": (0.0, 1.0)}
# "d10" comes before "d2", as texts do.
CORPUS = {"d2": "tied", "d3": "far", "d10": "too", "d1": "near"}
QUERIES = {"q0": "far", "q1": "query"}
MODEL = object()


@pytest.fixture(autouse=True)
def vectors(use_vectors):
    use_vectors(VECTORS.__getitem__)


class LongestFirst:
    """Ranks texts by their number of letters."""

    def rank(self, query, texts, batch_size):
        return ranked_texts(np.array([len(text) for text in texts]), texts, None)


def test_scores_equal_a_calculation_by_hand():
    # The ranking is d1, d10, d2, d3. Relevant are d2 and d3, at the ranks 3 and 4.
    found = evaluate_search(MODEL, CORPUS, QUERIES, {"q0": set(), "q1": {"d2", "d3"}}, ks=[1, 3, 100])["search"]
    ideal = 1 + 1 / np.log2(3)
    assert found == pytest.approx(
        {
            "ndcg@1": 0.0,
            "ndcg@3": (1 / np.log2(4)) / ideal,
            "ndcg@100": (1 / np.log2(4) + 1 / np.log2(5)) / ideal,
            "mrr@1": 0.0,
            "mrr@3": 1 / 3,
            "mrr@100": 1 / 3,
            "map@1": 0.0,
            "map@3": (1 / 3) / 2,
            "map@100": (1 / 3 + 2 / 4) / 2,
            "recall@1": 0.0,
            "recall@3": 0.5,
            "recall@100": 1.0,
        }
    )


def test_a_reranker_orders_its_candidates_and_the_others_follow():
    options = {"ks": [1, 4], "reranker": LongestFirst()}
    # Of near, too and tied, near (d1) and tied (d2) have four letters each; then come too (d10) and far (d3).
    for relevant, rank in (("d1", 1), ("d2", 2), ("d10", 3), ("d3", 4)):
        found = evaluate_search(MODEL, CORPUS, QUERIES, {"q1": {relevant}}, num_candidates=3, **options)
        assert found["re-ranked"]["mrr@4"] == pytest.approx(1 / rank)
    assert found["search"]["mrr@4"] == pytest.approx(1 / 4)


class Similarities:
    """Compares texts by their numbers of letters, as a `SparseEncoder` or `MultiVectorEncoder` does by vectors."""

    def encode_query(self, texts, batch_size):
        return np.ones((len(texts), 1))

    def encode_document(self, texts, batch_size):
        return np.array([[len(text)] for text in texts])

    def similarity(self, queries, documents):
        return queries @ documents.T


def test_other_models_rank_all_documents_and_the_lowest_id_is_first_among_equal_scores():
    # near (d1) and tied (d2) have four letters each; then come too (d10) and far (d3).
    for relevant, rank in (("d1", 1), ("d2", 2), ("d10", 3), ("d3", 4)):
        others = {"sparse": Similarities()}
        found = evaluate_search(None, CORPUS, QUERIES, {"q1": {relevant}}, ks=[4], others=others)
        assert found == {"sparse": {"ndcg@4": pytest.approx(1 / np.log2(rank + 1)), **found["sparse"]}}
        assert found["sparse"]["mrr@4"] == pytest.approx(1 / rank)


def test_a_hybrid_search_fuses_vectors_and_words():
    corpus = {"d1": "near", "d2": "tied", "d3": "query far"}
    VECTORS["query far"] = (0.0, 1.0)
    options = {"ks": [3], "hybrid": True, "reranker": LongestFirst()}
    found = evaluate_search(MODEL, corpus, {"q1": "query"}, {"q1": {"d3"}}, **options)
    # By vectors d3 is the third, by words the only one: 1/63 + 1/61 is more than the 1/61 of d1.
    expected = {"search": pytest.approx(1 / 3), "BM25": 1.0, "hybrid": 1.0, "re-ranked": 1.0}
    assert {kind: scores["mrr@3"] for kind, scores in found.items()} == expected


def test_without_a_model_the_words_are_searched():
    queries, relevant = {"q1": "a far tree", "q2": "unknown"}, {"q1": {"d3"}, "q2": {"d1"}}
    found = evaluate_search(None, CORPUS, queries, relevant, ks=[1, 5])
    assert found == {"BM25": {**found["BM25"], "mrr@1": 0.5, "recall@5": 0.5}}
    reranked = evaluate_search(None, CORPUS, {"q2": "unknown"}, {"q2": {"d1"}}, ks=[1], reranker=LongestFirst())
    assert reranked["re-ranked"]["ndcg@1"] == 0.0


def test_an_index_must_have_the_corpus_in_the_order_of_the_ids():
    relevant = {"q1": {"d2"}}
    index = VectorIndex.build(None, [CORPUS[name] for name in sorted(CORPUS)])
    expected = evaluate_search(MODEL, CORPUS, QUERIES, relevant)
    assert evaluate_search(MODEL, CORPUS, QUERIES, relevant, index=index) == expected
    with pytest.raises(InputError, match="the 4 texts of the corpus in the order of their ids. Received: 4 texts"):
        evaluate_search(MODEL, CORPUS, QUERIES, relevant, index=VectorIndex.build(None, list(CORPUS.values())))


@pytest.mark.parametrize(
    "relevant",
    [
        ["d2"],
        "d2",
        np.array(["d2"]),
        (name for name in ["d2"]),
        {"d2": 1, "d1": 0},
        {"d2": 0.5, "d1": -1},
        {"d2": True, "d1": False, "not in the corpus": 0},
        pandas.Series({"d2": 2, "d1": 0}),
    ],
)
def test_relevant_are_ids_or_those_with_a_grade_above_0(relevant):
    assert evaluate_search(MODEL, CORPUS, QUERIES, {"q1": relevant}, ks=4)["search"]["mrr@4"] == pytest.approx(1 / 3)


def test_series_are_read_by_their_index():
    series = [pandas.Series(values) for values in (CORPUS, QUERIES, {"q1": {"d2", "d3"}})]
    expected = evaluate_search(MODEL, CORPUS, QUERIES, {"q1": {"d2", "d3"}})
    assert evaluate_search(MODEL, *series) == expected


def test_ids_of_several_types_are_ordered_numbers_first():
    # "tied" and "too" are equally far from the query.
    corpus = {"1": "tied", 10: "too", np.int64(9): "near"}
    for relevant, rank in ((9, 1), (np.int64(10), 2), (np.str_("1"), 3)):
        found = evaluate_search(MODEL, corpus, {7: "query"}, {7: [relevant]}, ks=np.array([3]))
        assert found["search"]["mrr@3"] == pytest.approx(1 / rank)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"relevant": {"q9": {"d1"}}}, "relevant has the query 'q9'"),
        ({"relevant": {"q1": {"d9"}}}, "The query 'q1' has the relevant document 'd9', which the corpus lacks"),
        ({"relevant": {"q1": set()}}, "No query has a relevant document"),
        ({"relevant": {"q1": "12"}}, "The query 'q1' has the relevant document '12'"),
        ({"relevant": {"q1": {"d1": "1"}}}, "query 'q1' must have numbers as grades.*Received the grade '1'"),
        ({"relevant": {"q1": {"d1": float("nan")}}}, "Received the grade nan"),
        ({"relevant": {"q1": None}}, "The relevant documents of the query 'q1' must be a list. Received: None"),
        ({"relevant": {"q1": [("d1", 1)]}}, r"must be ids: strings or whole numbers. Received: \['d1', 1\]"),
        ({"relevant": {"q1": pandas.Series(["d1"])}}, "Give a list of ids, .* or a dictionary id -> grade"),
        ({"relevant": [{"d1"}]}, "relevant must be a dictionary with ids as keys.*Received: list"),
        ({"relevant": pandas.Series(["d1", "d2"], index=["q1", "q1"])}, "relevant has two values for 'q1'"),
        ({"corpus": list(CORPUS.values())}, "corpus must be a dictionary with ids as keys.*Received: list"),
        ({"corpus": {**CORPUS, None: "far"}}, "ids of corpus must be strings or whole numbers. Received: None"),
        ({"queries": ["query"]}, "queries must be a dictionary with ids as keys"),
        ({"ks": [0, 1]}, r"ks must be whole numbers from 1. Received: \[0, 1\]"),
        ({"ks": "10"}, "ks must be whole numbers from 1. Received: '10'"),
        ({"ks": []}, "ks must be whole numbers from 1"),
        ({"num_candidates": 0}, "num_candidates must be a whole number of at least 1. Received: 0"),
    ],
)
def test_what_is_no_collection_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        evaluate_search(MODEL, **{"corpus": CORPUS, "queries": QUERIES, "relevant": {"q1": {"d1"}}, **changes})
