"""Model folders are read as they were saved, and inconsistent ones are refused with a clear message."""

import json
import shutil

import keras
import numpy as np
import pytest
import tiny
from full_disk import file_size_limit
from tiny_checkpoints import change_json

from keras_bert.checkpoints import pretrained
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.optimization import AdamW
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.tokenization.vocabulary import Vocabulary

VOCABULARY = tiny.vocabulary("the quick brown fox")
CONFIG = tiny.config(VOCABULARY, hidden_size=8, num_hidden_layers=2, max_position_embeddings=12, extra={"note": "kept"})
FEATURES = {
    "input_ids": np.array([[2, 5, 6, 3, 0], [2, 7, 8, 6, 3]]),
    "input_mask": np.array([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
    "segment_ids": np.zeros((2, 5), int),
    "masked_lm_positions": np.array([[1], [2]]),
}


def outputs_of(model):
    return [output.numpy() for output in keras.tree.flatten(model(FEATURES))]


def assert_same_outputs(left, right):
    for one, other in zip(outputs_of(left), outputs_of(right), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def pretrainer_folder(tmp_path):
    path = tmp_path / "pretrainer"
    BertPretrainer(CONFIG).save_pretrained(path, VOCABULARY)
    return path


def test_a_saved_model_comes_back_with_the_same_outputs_and_without_a_word(tmp_path, capsys):
    model = BertEncoder(CONFIG, output_hidden_states=True)
    model.save_pretrained(tmp_path / "folder", VOCABULARY)
    loaded = type(model).from_pretrained(tmp_path / "folder")
    assert_same_outputs(model, loaded)
    assert loaded.config == model.config
    assert loaded.vocabulary.tokens == VOCABULARY.tokens
    assert capsys.readouterr().out == ""
    assert type(pretrained.from_pretrained(None, tmp_path / "folder")) is type(model)


def test_the_folder_holds_four_files_and_googles_config_keys(pretrainer_folder):
    assert sorted(file.name for file in pretrainer_folder.iterdir()) == [
        "README.md",
        "bert_config.json",
        "model.weights.h5",
        "vocab.txt",
    ]
    written = json.loads((pretrainer_folder / "bert_config.json").read_text())
    assert written["hidden_size"] == 8
    assert written["note"] == "kept"
    assert written["keras_bert"] == {"format": 1, "model": "BertPretrainer"}
    assert (pretrainer_folder / "vocab.txt").read_text().split() == list(VOCABULARY.tokens)


def test_other_labels_make_a_new_head_and_the_same_labels_do_not(tmp_path, capsys):
    saved = SequenceClassifier(CONFIG, labels=["no", "yes"])
    saved.save_pretrained(tmp_path / "folder", VOCABULARY)
    same = SequenceClassifier.from_pretrained(tmp_path / "folder", labels=("no", "yes"))
    assert capsys.readouterr().out == ""
    other = SequenceClassifier.from_pretrained(tmp_path / "folder", labels=("no", "yes", "maybe"))
    assert "newly initialised are: classifier" in capsys.readouterr().out
    assert_same_outputs(same, saved)
    assert_same_outputs(other.encoder, saved.encoder)


def test_the_optimizer_is_not_saved_and_not_lost(tmp_path):
    model = BertPretrainer(CONFIG)
    model.save_pretrained(tmp_path / "before", VOCABULARY)
    optimizer = AdamW(1e-3)
    model.compile(optimizer=optimizer)
    optimizer.build(model.trainable_variables)
    model.save_pretrained(tmp_path / "after", VOCABULARY)
    before, after = ((tmp_path / name / "model.weights.h5").stat().st_size for name in ("before", "after"))
    assert after == before
    assert model.optimizer is optimizer


def test_a_classifier_takes_the_encoder_of_a_pretrainer_and_says_what_is_new(pretrainer_folder, capsys):
    classifier = SequenceClassifier.from_pretrained(pretrainer_folder, labels=["no", "yes"])
    assert capsys.readouterr().out == (
        f"SequenceClassifier from {pretrainer_folder} (BertPretrainer): loaded are: encoder; newly initialised "
        "are: classifier (to be trained before use); ignored are: masked_lm_head, next_sentence_head\n"
    )
    assert_same_outputs(classifier.encoder, BertPretrainer.from_pretrained(pretrainer_folder).encoder)
    assert classifier.vocabulary.tokens == VOCABULARY.tokens


def test_an_encoder_is_taken_from_a_classifier_without_a_word(tmp_path, capsys):
    classifier = SequenceClassifier(CONFIG, labels=["no", "yes"])
    classifier.save_pretrained(tmp_path / "classifier", VOCABULARY)
    assert_same_outputs(classifier.encoder, BertEncoder.from_pretrained(tmp_path / "classifier"))
    assert capsys.readouterr().out == ""


def test_without_a_vocabulary_there_is_no_vocab_txt(tmp_path):
    BertEncoder(CONFIG).save_pretrained(tmp_path / "folder")
    assert not (tmp_path / "folder" / "vocab.txt").exists()
    assert BertEncoder.from_pretrained(tmp_path / "folder").vocabulary is None


def test_saving_again_keeps_the_vocabulary_that_was_loaded(pretrainer_folder, tmp_path):
    BertPretrainer.from_pretrained(pretrainer_folder).save_pretrained(tmp_path / "copy")
    assert (tmp_path / "copy" / "vocab.txt").read_bytes() == (pretrainer_folder / "vocab.txt").read_bytes()


def test_a_folder_that_is_not_empty_is_refused_and_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="is not empty. Remove it or give another name."):
        BertEncoder(CONFIG).save_pretrained(tmp_path, VOCABULARY)
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


def test_a_vocabulary_of_another_size_is_refused_on_saving(tmp_path):
    short = Vocabulary(VOCABULARY.tokens[:-1])
    with pytest.raises(InputError, match="The vocabulary has 8 tokens but bert_config.json says vocab_size=9"):
        BertEncoder(CONFIG).save_pretrained(tmp_path / "folder", short)
    assert not (tmp_path / "folder").exists()


def test_the_folder_of_a_run_leads_to_its_model_folder(pretrainer_folder, tmp_path):
    shutil.copytree(pretrainer_folder, tmp_path / "run" / "model")
    with pytest.raises(InputError, match="The model folder of this run is .*run/model"):
        BertPretrainer.from_pretrained(tmp_path / "run")


def with_entry(entry):
    return lambda folder: change_json(folder / "bert_config.json", keras_bert=entry)


POETRY = {"format": 1, "model": "mine>Poet"}
REFUSED = {
    "no config": (lambda folder: (folder / "bert_config.json").unlink(), "model folder: it has no bert_config.json"),
    "no weights": (lambda folder: (folder / "model.weights.h5").unlink(), "model folder: it has no model.weights.h5"),
    "no entry": (
        lambda folder: change_json(folder / "bert_config.json", without=["keras_bert"]),
        "has no 'keras_bert' entry",
    ),
    "another vocabulary": (
        lambda folder: Vocabulary([*VOCABULARY.tokens, "jumps"]).save(folder / "vocab.txt"),
        "The vocabulary has 10 tokens but bert_config.json says vocab_size=9",
    ),
    "an unknown class": (with_entry(POETRY), "'mine>Poet', which is unknown. Import the module"),
    "no format": (with_entry({"model": "BertPretrainer"}), "the format None, and this version of keras_bert reads 1"),
    **{
        f"the format {number!r}": (with_entry({"format": number, "model": "BertPretrainer"}), f"format {number!r}, and")
        for number in (0, 2, "1")
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_folder_that_cannot_be_read_is_refused(name, pretrainer_folder):
    change, message = REFUSED[name]
    change(pretrainer_folder)
    with pytest.raises(InputError, match=message):
        BertPretrainer.from_pretrained(pretrainer_folder)


@pytest.mark.parametrize("format", ["keras_bert", "google"])
def test_a_file_size_limit_is_reported_and_leaves_nothing_behind(format, tmp_path):
    message = "Cannot write .*folder: a file grew over the size limit"
    with file_size_limit(4096), pytest.raises(InputError, match=message):
        BertPretrainer(CONFIG).save_pretrained(tmp_path / "folder", VOCABULARY, format=format)
    assert list(tmp_path.iterdir()) == []


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("method", "name"), [("save", "a.keras"), ("save_weights", "a.weights.h5")])
def test_a_file_of_keras_is_written_completely_or_not_at_all(method, name, tmp_path, monkeypatch):
    model, path = BertPretrainer(CONFIG), tmp_path / name
    getattr(model, method)(path)
    path.chmod(0o640)
    content = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(BertPretrainer, "save_own_variables", interrupt)
        with pytest.raises(KeyboardInterrupt):
            getattr(model, method)(path)
    if method == "save":  # HDF5 itself ends the process later
        with file_size_limit(4096), pytest.raises(InputError, match=f"Cannot write .*{name}: a file grew over the si"):
            model.save(path)
    assert path.read_bytes() == content
    getattr(model, method)(path)
    assert ([one.name for one in tmp_path.iterdir()], path.stat().st_mode & 0o777) == ([name], 0o640)
