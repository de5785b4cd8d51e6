"""Pairs of paraphrases and communities are those of sentence-transformers, in their order."""

import json
import pathlib
import runpy
import subprocess

import numpy as np

from keras_bert.embeddings.similar_pairs import communities, similar_pairs

SCRIPT = pathlib.Path(__file__).with_name("sentence_transformers_mining.py")


def test_pairs_and_communities_are_theirs_in_their_order(sentence_transformers_python):
    given = runpy.run_path(str(SCRIPT))
    vectors = given["vectors_in_groups"]()
    theirs = json.loads(subprocess.check_output([sentence_transformers_python, SCRIPT]))
    for options, pairs in zip(given["MINING"], theirs["mined"], strict=True):
        ours = similar_pairs(vectors[given["MINED"]], **options)
        assert [pair[1:] for pair in ours] == [tuple(pair[1:]) for pair in pairs]
        np.testing.assert_allclose([pair.score for pair in ours], [pair[0] for pair in pairs], atol=1e-6)
    for (threshold, min_size), groups in zip(given["COMMUNITIES"], theirs["communities"], strict=True):
        assert communities(vectors, threshold=threshold, min_size=min_size) == groups
        assert len(groups) > 4, "would not tell a mistake"
