"""The preprocessor and the encoder in the form of TF-Hub."""

import pathlib

import keras
import loaded_commands
import numpy as np
import pytest
import tensorflow as tf
from served_models import CONFIG, TEXTS, VOCABULARY

from keras_bert.embeddings.text_vectors import encode_texts
from keras_bert.program.errors import InputError
from keras_bert.serving.hub_pair import export_hub_pair, group_words
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer

ROWS = ("input_word_ids", "input_mask", "input_type_ids")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The model, the two folders and the two loaded modules."""
    keras.utils.set_random_seed(4)
    model = BertPretrainer(CONFIG)
    model.vocabulary = VOCABULARY
    folders = export_hub_pair(model, tmp_path_factory.mktemp("hub") / "pair", seq_length=32)
    return model, folders, [tf.saved_model.load(folder) for folder in folders]


def test_texts_become_rows_as_in_python(pair):
    model, _, [preprocess, _] = pair
    rows = {name: value.numpy() for name, value in preprocess(tf.constant(TEXTS)).items()}
    assert sorted(rows) == sorted(ROWS)
    for row, encoded in enumerate(encode_texts(model, TEXTS, 32)):
        ids = [*encoded.ids, *[0] * (32 - len(encoded.ids))]
        assert rows["input_word_ids"][row].tolist() == ids
        assert rows["input_mask"][row].tolist() == [int(place < len(encoded.ids)) for place in range(32)]
        assert not rows["input_type_ids"][row].any()


def test_tokens_are_grouped_into_words():
    ids, is_continuation = tf.ragged.constant([[0, 1, 2, 0], [], [0, 0]]), tf.constant([False, True, True])
    assert group_words(ids, is_continuation).to_list() == [[[0, 1, 2], [0]], [], [[0], [0]]]


def test_segments_are_packed_to_any_length(pair):
    _, _, [preprocess, _] = pair
    first, second = preprocess.tokenize(tf.constant(["foxing", "a"])), preprocess.tokenize(tf.constant(["of b", ""]))
    names = [VOCABULARY.ids[name] for name in ("fox", "##ing", "of", "b", "a")]
    assert first.to_list() == [[names[:2]], [names[4:]]]
    for segments in ([first, second], [first.merge_dims(-2, -1), second.merge_dims(-2, -1)]):
        packed = preprocess.bert_pack_inputs(segments, seq_length=8)
        assert packed["input_word_ids"].numpy().tolist() == [
            [2, *names[:2], 3, *names[2:4], 3, 0],
            [2, names[4], 3, 3, 0, 0, 0, 0],
        ]
        assert packed["input_type_ids"].numpy().tolist() == [[0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 0, 0, 0, 0]]
        assert packed["input_mask"].numpy().tolist() == [[1] * 7 + [0], [1] * 4 + [0] * 4]
    assert preprocess.bert_pack_inputs([first])["input_mask"].shape == (2, 32)
    assert preprocess.bert_pack_inputs([first], tf.constant(3))["input_word_ids"].numpy().tolist() == [
        [2, names[0], 3],
        [2, names[4], 3],
    ]
    with pytest.raises(tf.errors.InvalidArgumentError, match="seq_length must be at least 3"):
        preprocess.bert_pack_inputs([first, second], seq_length=2)


def test_the_encoder_gives_what_the_model_gives(pair):
    model, _, [preprocess, encoder] = pair
    rows = preprocess(tf.constant(TEXTS))
    outputs = encoder(rows)
    names = {"input_ids": "input_word_ids", "input_mask": "input_mask", "segment_ids": "input_type_ids"}
    exact = model.encoder({ours: rows[hub] for ours, hub in names.items()})
    assert sorted(outputs) == ["default", "encoder_outputs", "pooled_output", "sequence_output"]
    for name in ("pooled_output", "sequence_output"):
        np.testing.assert_allclose(outputs[name], exact[name], atol=1e-5)
    np.testing.assert_array_equal(outputs["default"], outputs["pooled_output"])
    assert len(outputs["encoder_outputs"]) == CONFIG.num_hidden_layers
    np.testing.assert_array_equal(outputs["encoder_outputs"][-1], outputs["sequence_output"])
    assert np.abs(encoder(rows, training=True)["pooled_output"] - outputs["pooled_output"]).max() > 1e-3, "no dropout"


def test_a_keras_model_on_the_encoder_trains_its_weights(pair):
    _, folders, [preprocess, _] = pair
    encoder = keras.layers.TFSMLayer(
        folders[1], call_endpoint="encode", call_training_endpoint="encode_in_training", trainable=True
    )

    class Classifier(keras.Model):
        def __init__(self):
            super().__init__()
            self.encoder, self.dense = encoder, keras.layers.Dense(2)

        def call(self, inputs, training=False):
            return self.dense(self.encoder(inputs, training=training)["pooled_output"])

    model = Classifier()
    rows = {name: value.numpy() for name, value in preprocess(tf.constant(TEXTS)).items()}
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    model.fit(rows, np.arange(len(TEXTS)) % 2, batch_size=len(TEXTS), verbose=0)
    fresh = tf.saved_model.load(folders[1])
    moved = [
        not np.array_equal(old, new)
        for old, new in zip(fresh.trainable_variables, encoder._reloaded_obj.trainable_variables, strict=True)
    ]
    assert all(moved)
    assert len(moved) == len(model.trainable_weights) - 2
    assert list(fresh.regularization_losses) == []


@pytest.mark.slow
def test_the_same_model_has_the_same_bytes(pair, tmp_path):
    model, folders, _ = pair
    for first, second in zip(folders, export_hub_pair(model, tmp_path / "again", seq_length=32), strict=True):
        files = [path.relative_to(first) for path in pathlib.Path(first).rglob("*") if path.is_file()]
        assert len(files) == 5, files
        for path in files:
            if path.name != "fingerprint.pb":
                assert (pathlib.Path(first) / path).read_bytes() == (pathlib.Path(second) / path).read_bytes(), path


def test_what_cannot_be_exported_is_refused(pair, tmp_path):
    model = pair[0]
    with pytest.raises(InputError, match="seq_length must be at least 5. Received: 4"):
        export_hub_pair(model, tmp_path / "pair", seq_length=4)
    with pytest.raises(InputError, match="A sequence length of 49 is more than this model's 48 positions"):
        export_hub_pair(model, tmp_path / "pair", seq_length=49)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is not empty"):
        export_hub_pair(model, tmp_path)
    other = BertPretrainer(CONFIG)
    with pytest.raises(InputError, match="no vocabulary"):
        export_hub_pair(other, tmp_path / "pair")


def test_the_command_refuses_options_that_the_pair_has_not(pair, tmp_path):
    pair[0].save_pretrained(tmp_path / "model")
    folders = [f"--model_dir={tmp_path / 'model'}", f"--output_dir={tmp_path / 'pair'}"]
    result = loaded_commands.run("run_scripts.export_model", *folders, "--hub_pair", "--weights=int8")
    assert result.returncode == 1
    assert "error: --hub_pair takes only --max_seq_length. Received: --weights" in result.stderr
