"""Vectors of a word in its sentences."""

import numpy as np
import pytest
from tiny_checkpoints import CONFIG

from keras_bert.embeddings.word_senses import (
    Occurrence,
    WordVectors,
    cluster,
    contexts_of,
    word_vectors,
)
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.program.errors import InputError
from run_scripts.word_senses import write_word_senses


def hidden_states(encoder, ids):
    ids = np.array([ids], "int32")
    outputs = encoder({"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids})
    return [np.asarray(state)[0] for state in outputs["hidden_states"]]


def test_every_occurrence_is_found_with_its_place_and_its_vector(encoder):
    texts = ["The fox, the brown FOX.", "the", "quick fox"]
    found = word_vectors(encoder, texts, "fox", layers=(-1, -2))
    assert found.occurrences == (Occurrence(0, 4, 7), Occurrence(0, 19, 22), Occurrence(2, 6, 9))
    assert [texts[one.text_number][one.start : one.end] for one in found.occurrences] == ["fox", "FOX", "fox"]
    # [CLS] the fox , the brown fox . [SEP]; the punctuation is unknown.
    states = hidden_states(encoder, [2, 5, 8, 1, 5, 7, 8, 1, 3])
    for vector, place in zip(found.vectors, (2, 6), strict=False):
        np.testing.assert_allclose(vector, (states[1][place] + states[2][place]) / 2, atol=1e-6)


@pytest.mark.parametrize("text", ["the Fo\u0301x", "the F\x00ox", "the\tFOX", "\ufb01 the fox"])
def test_a_word_is_found_however_it_is_written(encoder, text):
    [one] = word_vectors(encoder, ["the quick", text, "brown"], "fox", layers=(-1,)).occurrences
    assert one.text_number == 1
    assert text[one.start].lower() == "f"


def test_of_many_occurrences_some_are_taken_evenly(encoder):
    found = word_vectors(encoder, ["fox fox fox", "the fox", "fox fox"], "fox", layers=(-1,), max_occurrences=3)
    assert [(one.text_number, one.start) for one in found.occurrences] == [(0, 0), (0, 8), (2, 4)]
    assert found.vectors.shape == (3, 8)


def test_the_pieces_of_a_word_are_pooled(encoder):
    [vector] = word_vectors(encoder, ["the quickest fox"], "quickest", layers=(-1,)).vectors
    expected = hidden_states(encoder, [2, 5, 6, 9, 8, 3])[2][2:4].mean(axis=0)
    np.testing.assert_allclose(vector, expected, atol=1e-6)


def test_the_beginning_of_a_longer_word_is_another_word(encoder):
    found = word_vectors(encoder, ["quickest quick"], "quick", layers=(-1,))
    assert found.occurrences == (Occurrence(0, 9, 14),)


def test_forms_and_expressions_are_found_too(encoder):
    found = word_vectors(encoder, ["the quick brown fox, quickest brown fox"], ["brown fox", "quickest"], layers=(-1,))
    assert found.occurrences == (Occurrence(0, 10, 19), Occurrence(0, 21, 29), Occurrence(0, 30, 39))


def test_of_a_long_text_the_tokens_around_the_word_are_read(encoder):
    text = "the " * 30 + "fox" + " brown" * 30
    found = word_vectors(encoder, [text], "fox", layers=(-1,), max_seq_length=7)
    expected = hidden_states(encoder, [2, 5, 5, 8, 7, 7, 3])[2][3]
    np.testing.assert_allclose(found.vectors[0], expected, atol=1e-6)
    at_the_end = word_vectors(encoder, ["the " * 30 + "fox"], "fox", layers=(-1,), max_seq_length=7)
    np.testing.assert_allclose(at_the_end.vectors[0], hidden_states(encoder, [2, 5, 5, 5, 5, 8, 3])[2][5], atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda encoder: word_vectors(encoder, ["the quick"], "fox"), "'fox' does not occur in the 1 texts"),
        (lambda encoder: word_vectors(encoder, ["zebra"], "zebra"), "The vocabulary cannot spell 'zebra'"),
        (lambda encoder: word_vectors(encoder, ["the"], " "), "The vocabulary cannot spell ' '"),
        (lambda encoder: word_vectors(encoder, ["the"], "the " * 11), "has 11 tokens, and the model reads 12 at most"),
        (lambda encoder: word_vectors(encoder, ["the"], "the", layers=(-3,)), "layers must be between -2 and 1"),
        (lambda encoder: word_vectors(BertEncoder(CONFIG), ["the"], "the"), "The model has no vocabulary"),
        (lambda encoder: cluster(np.eye(3), 4), "count must be a whole number .* Received: 4"),
    ],
)
def test_what_cannot_be_computed_is_said(encoder, call, message):
    with pytest.raises(InputError, match=message):
        call(encoder)


def test_groups_are_those_of_like_direction_in_the_order_of_the_texts():
    vectors = np.array([[0, 2], [0.1, 5], [3, 0], [9, 0.2], [-1, -1]], "float32")
    assert cluster(vectors, 3).tolist() == [0, 0, 1, 1, 2]
    assert cluster(vectors, 1).tolist() == [0] * 5


def test_the_table_and_the_vectors_have_a_row_for_each_occurrence(tmp_path):
    texts = ["then we sat on the muddy\n bank of the long river that flows", "a bank"]
    vectors = np.arange(6, dtype="float32").reshape(2, 3)
    found = WordVectors((Occurrence(0, 26, 30), Occurrence(1, 2, 6)), vectors)
    assert contexts_of(texts, found) == ["... we sat on the muddy [bank] of the long river that ...", "a [bank]"]
    write_word_senses(tmp_path, texts, found, vectors[:, :2] / 4, np.array([0, 3]), title="bank", plot=False)
    assert (tmp_path / "senses.tsv").read_text().splitlines() == [
        "text\tstart\tend\tgroup\tx\ty\tsentence",
        "0\t26\t30\t0\t0.00000\t0.25000\tthen we sat on the muddy bank of the long river that flows",
        "1\t2\t6\t3\t0.75000\t1.00000\ta bank",
    ]
    np.testing.assert_array_equal(np.load(tmp_path / "vectors.npy"), vectors)
