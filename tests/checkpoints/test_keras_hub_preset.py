"""Presets of KerasHub: what their settings mean, and which are refused. Weights: test_checkpoints_of_other_keras.py."""

import json

import numpy as np
import pytest
from checkpoints.test_checkpoints_of_other_keras import write_preset
from tiny_checkpoints import random_checkpoint
from tiny_families import VOCABULARIES

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints import keras_hub
from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.program.errors import InputError
from keras_bert.tasks.embedding.model import SentenceEncoder
from run_scripts import convert_checkpoint

pytestmark = pytest.mark.usefixtures("without_graphs")


def change(file, **changes):
    """Changes arguments in an object as Keras serialises it."""
    values = json.loads(file.read_text())
    values["config"] |= changes
    file.write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("activation", "outputs", "problem_type"),
    [
        (None, 3, "classification"),
        ("softmax", 3, "classification"),
        ("sigmoid", 3, "multi_label"),
        ({"module": "builtins", "class_name": "function", "config": "sigmoid"}, 1, "multi_label"),
        ("linear", 1, "regression"),
    ],
)
def test_the_activation_of_a_classifier_says_its_problem_type(activation, outputs, problem_type, tmp_path):
    labels = tuple(f"LABEL_{number}" for number in range(outputs))
    checkpoint = random_checkpoint(form.CLASSIFIER, labels=labels)
    write_preset(tmp_path / "preset", checkpoint, "BertTextClassifier", activation=activation, num_classes=outputs)
    assert read_checkpoint(tmp_path / "preset").problem_type == problem_type
    model = from_pretrained(None, tmp_path / "preset")
    assert (model.problem_type, model.labels) == (problem_type, labels)


@pytest.mark.parametrize(("pooling", "normalize"), [("mean", True), ("cls", False)])
def test_a_text_embedder_is_a_sentence_encoder(pooling, normalize, tmp_path):
    checkpoint = random_checkpoint()
    write_checkpoint(checkpoint, tmp_path / "plain", "huggingface")
    settings = {"pooling": [pooling], "normalize": normalize, "max_seq_length": 6}
    model = SentenceEncoder.from_pretrained(tmp_path / "plain", **settings)
    preprocessor = {"class_name": "BertTextEmbedderPreprocessor", "config": {"sequence_length": 6}}
    theirs = {"pooling_mode": pooling, "normalize": normalize, "preprocessor": preprocessor}
    write_preset(tmp_path / "preset", checkpoint, "BertTextEmbedder", **theirs)
    loaded = from_pretrained(None, tmp_path / "preset")
    assert {name: loaded.get_config()[name] for name in settings} == settings
    np.testing.assert_array_equal(loaded.encode(["the fox"]), model.encode(["the fox"]))


def test_the_settings_of_a_word_piece_are_read(tmp_path):
    write_preset(tmp_path / "preset", random_checkpoint())
    change(tmp_path / "preset" / "tokenizer.json", strip_accents=False, split_on_cjk=False)
    checkpoint = read_checkpoint(tmp_path / "preset")
    vocabulary = checkpoint.vocabulary
    assert (vocabulary.strip_accents, vocabulary.tokenize_chinese_chars) == (False, False)
    assert "google-research/bert reads vocab.txt only" in write_checkpoint(checkpoint, tmp_path / "google", "google")[0]


def assets(folder, family):
    """Writes the files of KerasHub's tokenizer of a family and returns ours."""
    vocabulary, place = VOCABULARIES[family], folder / "assets" / "tokenizer"
    place.mkdir(parents=True)
    if family == "albert":
        (place / "vocabulary.spm").write_bytes(vocabulary.effective_model)
    else:
        vocabulary.save(place)
        (place / "vocab.json").rename(place / "vocabulary.json")
    (folder / "tokenizer.json").write_text(json.dumps({"class_name": "Tokenizer", "config": {}}))
    return vocabulary


@pytest.mark.parametrize("family", ["roberta", "albert"])
def test_other_tokenizers_of_presets_are_read(family, tmp_path):
    ours, (theirs, _) = assets(tmp_path, family), keras_hub._tokenizer(tmp_path)
    for text in ("the fox", "a dog, the dog", "é dog"):
        assert theirs.encode(text) == ours.encode(text)
    change(tmp_path / "tokenizer.json", new_setting=7)
    with pytest.raises(InputError, match="settings that keras_bert does not know .*'new_setting'=7"):
        keras_hub._tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("task.json", {"activation": "relu"}, "activation is 'relu'. Supported: linear, softmax, sigmoid"),
        ("task.json", {"temperature": 2}, "'temperature'=2"),
        ("config.json", {"rotary": True}, "'rotary'=True"),
        ("tokenizer.json", {"special_tokens_in_strings": True}, "special_tokens_in_strings is True"),
        ("tokenizer.json", {"suffix_indicator": "@@"}, "suffix_indicator is '@@'"),
    ],
)
def test_settings_that_would_change_the_results_are_refused(file, changes, message, tmp_path):
    checkpoint = random_checkpoint(form.CLASSIFIER, labels=("a", "b"))
    write_preset(tmp_path / "preset", checkpoint, "BertTextClassifier")
    change(tmp_path / "preset" / file, **changes)
    with pytest.raises(InputError, match=message):
        read_checkpoint(tmp_path / "preset")


INSTEAD = "Presets of KerasHub are read, not written. Use format='huggingface': .*docs/checkpoints.md"


def test_a_preset_is_not_written(tmp_path, run_here):
    checkpoint = random_checkpoint()
    with pytest.raises(InputError, match=INSTEAD):
        write_checkpoint(checkpoint, tmp_path / "preset", "keras_hub")
    write_checkpoint(checkpoint, tmp_path / "plain")
    model = from_pretrained(None, tmp_path / "plain")
    with pytest.raises(InputError, match=INSTEAD):
        model.save_pretrained(tmp_path / "preset", format="keras_hub")
    folders = [f"--input={tmp_path}/plain", f"--output={tmp_path}/preset"]
    code, printed = run_here(convert_checkpoint, *folders, "--format=keras_hub")
    assert (code, printed.err.count("\n")) == (1, 1)
    assert printed.err.startswith("error: Presets of KerasHub are read, not written.")
    assert not (tmp_path / "preset").exists()
