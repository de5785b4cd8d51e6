"""The state of the optimizer is written only if it is requested and the format can hold it."""

import re

import numpy as np
import pytest
import tensorflow as tf
from tiny_checkpoints import CONFIG, FEATURES, VOCABULARY

from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.optimization import AdamW
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer

LABELS = {
    "masked_lm_ids": np.array([[6], [9]], "int32"),
    "masked_lm_weights": np.ones([2, 1], "float32"),
    "next_sentence_labels": np.array([[0], [1]], "int32"),
}


def train(model, num_updates, y=None):
    model.compile(optimizer=AdamW(1e-3, bias_correction=False), run_eagerly=True)
    model.fit(FEATURES if y is not None else {**FEATURES, **LABELS}, y, epochs=num_updates, batch_size=2, verbose=0)
    return model


@pytest.fixture(scope="module")
def trained():
    return train(BertPretrainer(CONFIG), 3)


def stored(folder):
    reader = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def test_no_format_gets_the_optimizer_unless_it_is_asked_for(trained, tmp_path):
    trained.save_pretrained(tmp_path / "google", VOCABULARY, format="google")
    names = stored(tmp_path / "google")
    assert len(names) == 46
    assert not [name for name in names if "adam" in name or name == "global_step"]


def test_plain_tensorflow_finds_adams_slots_under_googles_names(trained, tmp_path, capsys):
    trained.save_pretrained(tmp_path / "google", VOCABULARY, format="google", include_optimizer=True)
    found = stored(tmp_path / "google")
    weights = {name for name in found if not re.search("/adam_[mv]$|^global_step$", name)}
    assert len(weights) == 46
    assert set(found) == weights | {f"{name}/adam_{slot}" for name in weights for slot in "mv"} | {"global_step"}
    for name in weights:
        assert found[f"{name}/adam_m"].shape == found[f"{name}/adam_v"].shape == found[name].shape
    assert found["global_step"] == 3
    assert found["global_step"].dtype == np.int64
    assert found["global_step"].shape == ()
    slots = {id(weight): {"m": np.array(m), "v": np.array(v)} for weight, m, v in trained.optimizer.slots()}
    for weight, theirs, transposed in (
        (trained.encoder.embeddings.token_embeddings, "bert/embeddings/word_embeddings", False),
        (trained.next_sentence_head.kernel, "cls/seq_relationship/output_weights", True),
        (trained.masked_lm_head.output_bias, "cls/predictions/output_bias", False),
    ):
        for slot, expected in slots[id(weight)].items():
            assert expected.any()
            np.testing.assert_array_equal(found[f"{theirs}/adam_{slot}"], expected.T if transposed else expected)
    # All slots are there, each at the place of its weight.
    by_value = {np.array(weight).tobytes(): slots[id(weight)] for weight in trained.weights if id(weight) in slots}
    for name in weights:
        is_transposed = name == "cls/seq_relationship/output_weights"
        here = by_value[(found[name].T if is_transposed else found[name]).tobytes()]
        for slot, expected in here.items():
            np.testing.assert_array_equal(found[f"{name}/adam_{slot}"], expected.T if is_transposed else expected)
    loaded = BertPretrainer.from_pretrained(tmp_path / "google")
    assert "ignored are: 93 variables of the optimizer" in capsys.readouterr().out
    np.testing.assert_array_equal(loaded(FEATURES)["masked_lm_logits"], trained(FEATURES)["masked_lm_logits"])


def test_the_variables_are_those_of_a_checkpoint_that_google_trained(shared_data, tmp_path):
    folder = shared_data("checkpoints", "google_tf1_micro", "bert_config.json").parent
    train(BertPretrainer.from_pretrained(folder), 1).save_pretrained(
        tmp_path / "google", format="google", include_optimizer=True
    )
    theirs = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    ours = tf.train.load_checkpoint(str(tmp_path / "google" / "bert_model.ckpt"))
    assert len(theirs.get_variable_to_shape_map()) == 139
    assert ours.get_variable_to_shape_map() == theirs.get_variable_to_shape_map()
    assert ours.get_variable_to_dtype_map() == theirs.get_variable_to_dtype_map()


def test_a_classifier_and_frozen_weights(tmp_path):
    model = SequenceClassifier(CONFIG, labels=["no", "yes"])
    model.encoder.trainable = False
    train(model, 1, np.array([0, 1])).save_pretrained(tmp_path / "google", format="google", include_optimizer=True)
    slots = {name for name in stored(tmp_path / "google") if "/adam_" in name}
    assert slots == {f"output_{part}/adam_{slot}" for part in ("weights", "bias") for slot in "mv"}


@pytest.mark.parametrize("format", ["keras_bert", "huggingface"])
def test_a_format_without_a_place_for_the_optimizer_is_refused(format, trained, tmp_path):
    with pytest.raises(InputError, match=f"^The {format} format cannot hold the state of the optimizer. Use"):
        trained.save_pretrained(tmp_path / "folder", VOCABULARY, format=format, include_optimizer=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (None, "AdamW has trained, and this BertPretrainer has no optimizer. Leave include_optimizer out"),
        ("sgd", "AdamW has trained, and this BertPretrainer has SGD. Leave include_optimizer out"),
        (AdamW(), "the AdamW of this BertPretrainer has made no update, so there is nothing to write"),
    ],
)
def test_a_model_without_a_trained_adam_is_refused(optimizer, message, tmp_path):
    model = BertPretrainer(CONFIG)
    model.compile(optimizer=optimizer)
    with pytest.raises(InputError, match=message):
        model.save_pretrained(tmp_path / "folder", format="google", include_optimizer=True)
    with pytest.raises(InputError, match="BertEncoder has no optimizer"):
        BertEncoder(CONFIG).save_pretrained(tmp_path / "folder", format="google", include_optimizer=True)
    assert list(tmp_path.iterdir()) == []
