"""`evaluate_search` gives the scores of sentence-transformers' InformationRetrievalEvaluator, with ties."""

import json
import pathlib
import runpy
import subprocess

import numpy as np
import pytest

from keras_bert.embeddings import vector_index
from keras_bert.embeddings.search_scores import SCORES, evaluate_search

SCRIPT = pathlib.Path(__file__).with_name("sentence_transformers_search.py")


def test_scores_are_theirs_where_most_cosines_are_tied(sentence_transformers_python, monkeypatch):
    functions = runpy.run_path(str(SCRIPT))
    queries, corpus, relevant = functions["tied_vectors"]()
    vectors = queries | corpus

    def embed(model, texts, role, **options):
        return np.stack([vectors[text] for text in texts]).astype(np.float32)

    monkeypatch.setattr(vector_index, "search_vectors", embed)
    monkeypatch.setattr(vector_index, "model_fingerprint", lambda model: "")
    texts = [{name: name for name in names} for names in (corpus, queries)]
    found = evaluate_search(object(), *texts, relevant, ks=functions["KS"])["search"]
    theirs = json.loads(subprocess.check_output([sentence_transformers_python, SCRIPT]))
    assert found == pytest.approx({name: theirs[name] for name in theirs if name.startswith(SCORES)}, abs=1e-12)
    assert 0.05 < found["ndcg@10"] < 0.95, "would not tell a mistake"
