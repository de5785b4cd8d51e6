"""Pairs of paraphrases and communities are those of sentence-transformers, in their order.

It runs when KERAS_BERT_PARITY_PYTHON names a Python that has sentence-transformers.
"""

import json
import os
import pathlib
import runpy
import subprocess

import numpy as np
import pytest

from keras_bert.embeddings.similar_pairs import communities, similar_pairs

SCRIPT = pathlib.Path(__file__).with_name("sentence_transformers_mining.py")


def test_pairs_and_communities_are_theirs_in_their_order():
    python = os.environ.get("KERAS_BERT_PARITY_PYTHON")
    if not python or subprocess.run([python, "-c", "import sentence_transformers"], capture_output=True).returncode:
        pytest.skip("KERAS_BERT_PARITY_PYTHON names no Python with sentence-transformers")
    given = runpy.run_path(str(SCRIPT))
    vectors = given["vectors_in_groups"]()
    theirs = json.loads(subprocess.run([python, SCRIPT], check=True, capture_output=True).stdout)
    for options, pairs in zip(given["MINING"], theirs["mined"], strict=True):
        ours = similar_pairs(vectors[given["MINED"]], **options)
        assert [pair[1:] for pair in ours] == [tuple(pair[1:]) for pair in pairs]
        np.testing.assert_allclose([pair.score for pair in ours], [pair[0] for pair in pairs], atol=1e-6)
    for (threshold, min_size), groups in zip(given["COMMUNITIES"], theirs["communities"], strict=True):
        assert communities(vectors, threshold=threshold, min_size=min_size) == groups
        assert len(groups) > 4, "would not tell a mistake"
