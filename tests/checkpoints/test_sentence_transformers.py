"""Folders of sentence-transformers in models other than `SentenceEncoder`: another pooling is refused by its name."""

import json
import os

import numpy as np
import pytest
from tiny_checkpoints import random_checkpoint

from keras_bert import registry
from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.checkpoints.conversion import convert_checkpoint
from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.embeddings.text_vectors import sentence_embeddings
from keras_bert.embeddings.vector_index import VectorIndex
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import read_json_object, write_json
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.embedding.model import SentenceEncoder

pytestmark = pytest.mark.usefixtures("without_graphs")

TEXTS = ["the quick fox", "the brown fox"]


def module(kind, path=""):
    return {"type": f"sentence_transformers.models.{kind}", "path": path}


def sentence_folder(folder, *modules, **pooling):
    """Writes a Hugging Face folder with the modules of sentence-transformers."""
    write_checkpoint(random_checkpoint(), folder, "huggingface")
    (folder / "modules.json").write_text(json.dumps([module("Transformer"), *modules]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


POOLING = module("Pooling", "1_Pooling")
FLAGS = {"word_embedding_dimension": 8, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": False}


@pytest.mark.parametrize(
    ("modules", "pooling", "expected"),
    [
        ([POOLING], {}, "mean"),
        ([POOLING], {**FLAGS, "pooling_mode_mean_tokens": True}, "mean"),
        ([POOLING, module("Normalize", "2_Normalize")], {"pooling_mode": "mean"}, "mean"),
        ([POOLING], {**FLAGS, "pooling_mode_cls_token": True}, "cls"),
        ([POOLING], {"pooling_mode": "lasttoken"}, "lasttoken"),
        ([POOLING], {"pooling_mode_max_tokens": True}, "max"),
        ([POOLING], {**FLAGS, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, "max + mean"),
        ([POOLING], {"pooling_mode": ["mean", "cls"]}, "mean + cls"),
        ([{"type": "custom.Pooling", "path": "1_Pooling"}], {}, "custom.Pooling"),
        ([POOLING, module("WordWeights", "2_WordWeights")], {}, "mean, then WordWeights"),
        ([], {}, "no pooling"),
        ([module("Pooling", "3_Pooling")], {}, "a pooling without 3_Pooling/config.json"),
    ],
)
def test_the_pooling_of_a_folder_is_named(modules, pooling, expected, tmp_path):
    folder = sentence_folder(tmp_path / "folder", *modules, **pooling)
    assert read_checkpoint(folder).config.sentence_pooling == expected


def read_toy(checkpoint, folder):
    file = os.path.join(folder.path, "toy.json")
    return checkpoint.telling("Toy", read_json_object(file)) if os.path.isfile(file) else checkpoint


def write_toy(checkpoint, folder):
    write_json(os.path.join(folder, "toy.json"), checkpoint.arguments["Toy"])
    return ("toy",)


def test_a_task_reads_and_writes_files_of_its_own(monkeypatch, tmp_path):
    toy = registry.Task(read=f"{__name__}.read_toy", write=f"{__name__}.write_toy", told_by="size")
    monkeypatch.setitem(registry.TASKS, "Toy", toy)
    weight = StoredTensor.of(np.zeros(1, "float32"))
    checkpoint = random_checkpoint().telling("Toy", {"size": 3}, {"toy/weight": weight})
    assert write_checkpoint(checkpoint, tmp_path / "told", "huggingface") == []
    assert read_checkpoint(tmp_path / "told").arguments["Toy"] == {"size": 3}
    [note] = write_checkpoint(checkpoint.telling("Toy", {"other": 3}), tmp_path / "other", "huggingface")
    assert "left out, because the huggingface format cannot hold it: toy/weight" in note
    assert read_checkpoint(tmp_path / "other").arguments == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "the content must be a list"),
        ([1], "each module must be an object"),
        ([{"type": 1}], "type must be a string"),
        ([module("Pooling", "../secret")], "is not inside the folder"),
        ([module("Pooling", "/etc")], "is not inside the folder"),
        ([module("Pooling", "1_Pooling")], "pooling_mode_cls_token must be true or false"),
    ],
)
def test_modules_that_are_not_what_they_should_be_are_refused(content, message, tmp_path):
    folder = sentence_folder(tmp_path / "folder", pooling_mode_cls_token="yes")
    (folder / "modules.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        read_checkpoint(folder)


def test_another_pooling_than_the_mean_is_refused_wherever_sentences_get_vectors(tmp_path):
    folder = sentence_folder(tmp_path / "folder", POOLING, **{**FLAGS, "pooling_mode_max_tokens": True})
    encoder = BertEncoder.from_pretrained(folder)
    for use in (
        lambda: sentence_embeddings(encoder, TEXTS),
        lambda: sentence_embeddings(encoder, TEXTS, pooling="cls"),
        lambda: VectorIndex.build(encoder, TEXTS),
        lambda: encoder.export_for_serving(tmp_path / "export"),
    ):
        with pytest.raises(InputError, match="turn texts into vectors by 'max', as modules.json"):
            use()
    SequenceClassifier.from_pretrained(folder, labels=["no", "yes"])  # a model that does not use sentence vectors


@pytest.mark.parametrize("format", ["keras_bert", "google", "huggingface"])
def test_another_pooling_is_not_forgotten_when_a_checkpoint_is_converted(format, tmp_path):
    folder = sentence_folder(tmp_path / "folder", POOLING, **{**FLAGS, "pooling_mode_cls_token": True})
    convert_checkpoint(folder, tmp_path / "converted", format)
    encoder = BertEncoder.from_pretrained(tmp_path / "converted")
    with pytest.raises(
        InputError, match="by 'cls', as modules.json.*Received: pooling='mean'. Load it with SentenceEncoder"
    ):
        sentence_embeddings(encoder, TEXTS)
    assert np.isfinite(sentence_embeddings(encoder, TEXTS, pooling="cls")).all()
    assert SentenceEncoder.from_pretrained(tmp_path / "converted").pooling == ("cls",)


def test_the_mean_leaves_no_trace_and_is_computed(tmp_path):
    plain = write_checkpoint(random_checkpoint(), tmp_path / "plain", "huggingface")
    folder = sentence_folder(tmp_path / "folder", POOLING, module("Normalize", "2_Normalize"))
    assert plain == []
    assert read_checkpoint(folder).config == read_checkpoint(tmp_path / "plain").config
    found, expected = (
        sentence_embeddings(BertEncoder.from_pretrained(path), TEXTS) for path in (folder, tmp_path / "plain")
    )
    np.testing.assert_array_equal(found, expected)
