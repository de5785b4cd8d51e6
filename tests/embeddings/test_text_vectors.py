"""Vectors of texts and of their tokens."""

import json
import shutil

import numpy as np
import pytest
from pyarrow import ipc
from tiny_checkpoints import CONFIG, random_checkpoint

from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.embeddings.text_vectors import encode_texts, sentence_embeddings, token_features
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.program.errors import InputError
from run_scripts import embed_sentences
from run_scripts import extract_features as extract_features_command
from run_scripts.asked_models import read_texts
from run_scripts.extract_features import extract_features

pytestmark = pytest.mark.usefixtures("without_graphs")

TEXTS = ["the quickest fox", "fox", "", "the brown fox the quick brown fox the quick brown fox"]
FEATURES = ["--output_format=npy", "--dtype=float16", "--layers=-1"]
IDS = [[2, 5, 6, 9, 8, 3], [2, 8, 3], [2, 3], [2, 5, 7, 8, 5, 6, 7, 8, 5, 6, 7, 3]]


def alone(encoder, ids):
    """The model's outputs for one text without padding."""
    ids = np.array([ids], "int32")
    return encoder({"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)})


def test_a_sentence_is_the_mean_of_its_tokens_whatever_it_is_batched_with(encoder):
    for batch_size in (1, 2, 32):
        vectors = sentence_embeddings(encoder, TEXTS, batch_size=batch_size)
        assert vectors.shape == (4, CONFIG.hidden_size)
        assert vectors.dtype == np.float32
        for vector, ids in zip(vectors, IDS, strict=True):
            expected = np.asarray(alone(encoder, ids)["sequence_output"])[0].mean(axis=0)
            np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-6)


def test_the_first_token_and_its_own_length(encoder):
    vectors = sentence_embeddings(encoder, TEXTS, pooling="cls", normalize=False)
    expected = np.asarray(alone(encoder, IDS[1])["sequence_output"])[0, 0]
    np.testing.assert_allclose(vectors[1], expected, atol=1e-6)


def test_progress_is_told_after_each_batch(encoder):
    steps = []
    sentence_embeddings(encoder, TEXTS, batch_size=3, on_progress=steps.append)
    assert steps == [3, 1]
    assert sentence_embeddings(encoder, []).shape == (0, CONFIG.hidden_size)


def test_features_are_those_of_the_layers(encoder):
    layers = (-1, 0, -2)
    found = list(token_features(encoder, encode_texts(encoder, TEXTS), layers, batch_size=3))
    for array, ids in zip(found, IDS, strict=True):
        hidden = alone(encoder, ids)["hidden_states"]
        expected = np.stack([hidden[2][0], hidden[1][0], hidden[1][0]], axis=1)
        np.testing.assert_allclose(array, expected, atol=1e-6)


def test_pairs_are_cut_as_google_cuts_them(encoder):
    (text,) = encode_texts(encoder, [("the quick brown fox", "the the the the the the")], max_seq_length=9)
    assert text.ids == [2, 5, 6, 7, 3, 5, 5, 5, 3]
    assert text.segment_ids == [0, 0, 0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda encoder: sentence_embeddings(encoder, TEXTS, pooling="sum"), "pooling must be one of cls, max, mean"),
        (
            lambda encoder: sentence_embeddings(encoder, TEXTS, max_seq_length=2),
            "max_seq_length must be a whole number of at least 3",
        ),
        (lambda encoder: sentence_embeddings(encoder, TEXTS, max_seq_length=99), "more than this model's 12 positions"),
        (lambda encoder: sentence_embeddings(BertEncoder(CONFIG), TEXTS), "The model has no vocabulary"),
        (lambda encoder: token_features(encoder, [], (-3,)), r"layers must be between -2 and 1.* Received: \[-3\]"),
        (lambda encoder: token_features(BertEncoder(CONFIG), [], (-1,)), "output_hidden_states=True"),
    ],
)
def test_what_cannot_be_computed_is_said(encoder, call, message):
    with pytest.raises(InputError, match=message):
        call(encoder)


def test_both_forms_hold_the_same_numbers(encoder, tmp_path, capsys):
    texts, arguments = ["the quickest fox", "fox ||| the brown fox"], {"layers": [-1, -2], "max_seq_length": 8}
    extract_features(encoder, texts, tmp_path / "f.jsonl", **arguments)
    extract_features(encoder, texts, tmp_path / "f", output_format="npy", **arguments)
    lines = [json.loads(line) for line in (tmp_path / "f.jsonl").read_text().splitlines()]
    assert [line["linex_index"] for line in lines] == [0, 1]
    assert [f["token"] for f in lines[1]["features"]] == ["[CLS]", "fox", "[SEP]", "the", "brown", "fox", "[SEP]"]
    assert [layer["index"] for layer in lines[0]["features"][0]["layers"]] == [-1, -2]
    vectors = np.load(tmp_path / "f" / "vectors.npy", mmap_mode="r")
    assert vectors.shape == (13, 2, CONFIG.hidden_size)
    assert np.load(tmp_path / "f" / "offsets.npy").tolist() == [0, 6, 13]
    assert np.load(tmp_path / "f" / "token_ids.npy").tolist() == [*IDS[0], 2, 8, 3, 5, 7, 8, 3]
    values = [[layer["values"] for layer in f["layers"]] for line in lines for f in line["features"]]
    np.testing.assert_allclose(np.array(values), vectors, atol=5.1e-7)


def test_the_commands_write_vectors(tmp_path, done_here, refused_here):
    write_checkpoint(random_checkpoint(), tmp_path / "bert", "google")
    (tmp_path / "texts.txt").write_text("the quickest fox\nfox\n")
    common = [f"--init_checkpoint={tmp_path / 'bert'}", f"--input_file={tmp_path / 'texts.txt'}"]
    for command, output, more, said in (
        (embed_sentences, "--output_dir", [], "2 rows in 1 parts"),
        (extract_features_command, "--output_file", FEATURES, "features of 2 texts"),
    ):
        printed = done_here(command, *common, *more, f"{output}={tmp_path / command.__name__}")
        assert said in printed.out
        printed = refused_here(command, *common, *more, f"{output}={tmp_path / 'new'}", "--max_seq_length=13")
        assert "13 is more than this model's 12 positions" in printed.err.splitlines()[-1]
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
    part = tmp_path / embed_sentences.__name__ / "part-00000-of-00001.arrow"
    assert str(ipc.open_file(part).schema.field("vector").type) == "fixed_size_list<item: float>[8]"
    assert np.load(tmp_path / extract_features_command.__name__ / "vectors.npy").dtype == np.float16


def test_an_empty_line_of_a_file_is_a_text(tmp_path):
    (tmp_path / "texts.txt").write_text(" the fox\n\nquick \n", "utf-8")
    assert read_texts(str(tmp_path / "texts.txt")) == ["the fox", "", "quick"]
