"""The retrieval scores are those of sentence-transformers' `InformationRetrievalEvaluator`.

`embedding_golden/scores.json` has its scores, recorded by parity/sentence_transformers_scores.py (version 6.2).
"""

import itertools
import json
import runpy

import numpy as np
import pandas
import pytest
from places import TESTS

from keras_bert.program.errors import InputError
from keras_bert.tasks.embedding.scores import TiedRanking, label_scores, pair_scores, retrieval_scores
from keras_bert.tasks.ranking.task import RankingTask

GOLDEN = json.loads((TESTS / "embedding_golden" / "scores.json").read_text())
KS = (1, 2, 3, 5)
made_up_vectors = runpy.run_path(str(TESTS / "parity" / "sentence_transformers_scores.py"))["made_up_vectors"]


def ranked_by_cosine(queries, documents):
    units = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (queries, documents)]
    return np.argsort(-units[0] @ units[1].T, axis=1, kind="stable").tolist()


def test_scores_are_those_of_sentence_transformers():
    queries, documents, relevant = made_up_vectors()
    found = retrieval_scores(ranked_by_cosine(queries, documents), relevant)
    assert set(found) == set(GOLDEN)
    for name, score in found.items():
        assert score == pytest.approx(GOLDEN[name], abs=1e-9), name
        assert 0.05 < score < 0.95, f"{name} would not tell a mistake"


def test_pairs_are_scored_as_a_search_for_the_positives_of_equal_anchors():
    queries, documents, relevant = made_up_vectors()
    rows = [(query, document) for query, numbers in enumerate(relevant) for document in sorted(numbers)]
    used = sorted({document for _, document in rows})
    vectors = np.stack([[queries[query], documents[document]] for query, document in rows])
    found = pair_scores([[f"q{query}" for query, _ in rows], [f"d{document}" for _, document in rows]], vectors)
    of_query = retrieval_scores(
        ranked_by_cosine(queries[[query for query, _ in rows]], documents[used]),
        [{used.index(document) for document in relevant[query]} for query, _ in rows],
    )
    assert found == pytest.approx(of_query)


@pytest.mark.parametrize("seed", range(12))
def test_scores_of_ties_are_the_means_over_all_orders_of_tied_texts(seed):
    rng = np.random.default_rng(seed)
    scores, is_relevant = rng.integers(0, 3, 6).astype(float), rng.random(6) < 0.4
    is_relevant[rng.integers(6)] = True
    relevant = np.flatnonzero(is_relevant).tolist()
    orders = [order for order in itertools.permutations(range(6)) if (np.diff(scores[list(order)]) <= 0).all()]
    expected = retrieval_scores(orders, [relevant] * len(orders), KS)
    found = TiedRanking.of_scores(scores, is_relevant).scores(len(relevant), KS)
    assert found == pytest.approx(expected, abs=1e-12)
    of_orders = [retrieval_scores([order], [relevant], KS) for order in orders]
    worst = TiedRanking.of_scores(scores, is_relevant, is_worst=True).scores(len(relevant), KS)
    assert worst == pytest.approx({name: min(one[name] for one in of_orders) for name in expected}, abs=1e-12)


@pytest.mark.parametrize("size", [2, 7, 250])
def test_equal_vectors_score_as_chance(size):
    columns = [[f"q{number}" for number in range(size)], [f"d{number}" for number in range(size)]]
    vectors = np.tile(np.random.default_rng(0).normal(size=384).astype(np.float32), (size, 2, 1))
    assert pair_scores(columns, vectors)["accuracy@1"] == pytest.approx(1 / size)
    assert pair_scores(columns, vectors)["mrr@10"] == pytest.approx(np.sum(1 / np.arange(1, min(size, 10) + 1)) / size)
    assert pair_scores(columns, vectors, is_worst=True)["accuracy@1"] == 0
    same = (size // 2 - 1) / (size - 1)
    labels = [number % 2 for number in range(size - size % 2)]
    assert label_scores(vectors[: len(labels), 0], labels)["neighbour_accuracy"] == pytest.approx(same, abs=0.1)
    assert label_scores(vectors[: len(labels), 0], labels, is_worst=True)["neighbour_accuracy"] == 0


def test_a_ranking_of_equal_scores_is_no_success():
    examples = RankingTask.examples(None, (["q"] * 2, ["right"] * 2, ["a"] * 2, ["b"] * 2))
    answers = np.array([[0.5, 0.5, 0.5], [2.0, 1.0, 2.0]], np.float32)
    assert RankingTask.scores(None, examples, answers)["accuracy@1"] == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert RankingTask.scores(None, examples, answers, is_worst=True)["mrr@10"] == pytest.approx((1 / 3 + 1 / 2) / 2)


TWO_PAIRS, THREE_VECTORS = [["q", "r"], ["a", "b"]], np.array([[1, 0], [1, 0.1], [0, 1]])


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda: retrieval_scores([[1]], [{1}, {2}]), "must be equally many. Received: 1 and 2"),
        (lambda: retrieval_scores([[1], [2]], [{1}, set()]), "Query 2 has no relevant document. Leave it out."),
        (lambda: retrieval_scores(["12"], [["12"]]), "A ranking must be a list. Received: '12'"),
        (lambda: retrieval_scores([[7, 8]], [pandas.Series([7])]), "The relevant documents of query 1 .*Give a list"),
        (lambda: label_scores(np.ones((1, 2)), ["a"]), "needs at least two texts. Received: 1"),
        (lambda: label_scores(THREE_VECTORS, "aab"), "labels must be a list. Received: 'aab'"),
        (lambda: label_scores(THREE_VECTORS, ["a", "b"]), "Every text needs a label. Received: 3 vectors and 2 labels"),
        (lambda: label_scores(np.full((2, 4), np.inf), ["a", "a"]), "are not numbers"),
        (
            lambda: pair_scores(("ab", "cd"), THREE_VECTORS[:2, None]),
            "A column of texts must be a list. Received: 'ab'",
        ),
        (lambda: pair_scores(TWO_PAIRS, np.full((2, 2, 4), np.nan)), "2 of 2 texts are not numbers, the first is tex"),
    ],
)
def test_bad_input_is_refused(score, message):
    with pytest.raises(InputError, match=message):
        score()


def test_a_document_that_comes_again_counts_once():
    assert retrieval_scores([[7, 3, 7, 7]], [[7, 7]], ks=[4]) == retrieval_scores([np.array([7, 3])], [{7}], ks=4)


def test_relevant_documents_are_ids_or_those_with_a_grade_above_0():
    for relevant in ("12", ["12"], {"12": 2, "1": 0}, pandas.Series({"12": 1, "1": 0, "2": -1})):
        assert retrieval_scores([["1", "12"]], [relevant], ks=1)["mrr@10"] == 0.5


def test_labels_of_texts_are_a_column_by_position():
    labels = pandas.Series(["a", "a", "b"], index=[2, 0, 1])
    assert label_scores(THREE_VECTORS, labels) == label_scores(THREE_VECTORS, labels.tolist())
