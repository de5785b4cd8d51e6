"""Quantised vectors equal those of sentence-transformers' `quantize_embeddings`, and so do the scores of int8."""

import pathlib
import subprocess

import numpy as np

from keras_bert.embeddings.quantised_vectors import StoredVectors, int8_ranges, quantise

SCRIPT = pathlib.Path(__file__).with_name("sentence_transformers_quantisation.py")


def test_codes_are_theirs_and_so_are_the_scores_of_int8(sentence_transformers_python, tmp_path):
    draw = np.random.default_rng(0)
    vectors, queries = draw.normal(size=(500, 44)).astype("float32"), draw.normal(size=(7, 44)).astype("float32")
    vectors[:, 3], vectors[::7, 5], vectors[1::2, 9] = 0.25, 0, -0.0  # one value only; neither sign
    vectors[250:300] = np.round(vectors[250:300] * 2) / 2  # on the edges of steps
    vectors[400:] = vectors[:100]
    ranges = np.stack([np.full(44, -2), np.full(44, 2)]).astype("float32")
    np.savez(tmp_path / "given.npz", vectors=vectors, queries=queries, ranges=ranges)
    files = [tmp_path / "given.npz", tmp_path / "found.npz"]
    subprocess.run([sentence_transformers_python, SCRIPT, *files], check=True, capture_output=True)
    with np.load(tmp_path / "found.npz") as found:
        stored = StoredVectors.of(vectors, "binary")
        for ours, theirs in [
            (stored.codes, found["int8"]),
            (stored.signs, found["binary"]),
            (quantise(vectors, "int8", ranges), found["int8_ranges"]),
            (quantise(queries, "int8", int8_ranges(vectors)), found["calibrated"]),
        ]:
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
        numbers, scores = StoredVectors.of(vectors, "int8").nearest(queries, 500)
        expected = found["scores"]
    np.testing.assert_allclose(scores, np.take_along_axis(expected, numbers, axis=1), atol=2e-5)
    for row, of_query in zip(numbers, expected, strict=True):
        places = np.argsort(row)
        assert (places[:100] < places[400:]).all(), "the earlier of equal vectors comes first"
        np.testing.assert_allclose(of_query[row], np.sort(of_query)[::-1], atol=2e-5)
