"""The retrieval scores are those of sentence-transformers' `InformationRetrievalEvaluator`.

`embedding_golden/scores.json` has its scores, recorded by parity/sentence_transformers_scores.py (version 6.2).
"""

import json
import pathlib
import runpy

import numpy as np
import pytest

from keras_bert.program.errors import InputError
from keras_bert.tasks.embedding.scores import label_scores, pair_scores, ranked_by_cosine, retrieval_scores

TESTS = pathlib.Path(__file__).parent
GOLDEN = json.loads((TESTS / "embedding_golden" / "scores.json").read_text())
made_up_vectors = runpy.run_path(str(TESTS / "parity" / "sentence_transformers_scores.py"))["made_up_vectors"]


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


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="must be equally many. Received: 1 and 2"):
        retrieval_scores([[1]], [{1}, {2}])
    with pytest.raises(InputError, match="Query 2 has no relevant document. Leave it out."):
        retrieval_scores([[1], [2]], [{1}, set()])
    with pytest.raises(InputError, match="needs at least two texts. Received: 1"):
        label_scores(np.ones((1, 2)), ["a"])
