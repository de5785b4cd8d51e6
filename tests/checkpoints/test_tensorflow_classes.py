"""Files of transformers' TensorFlow classes compute what they computed there, and crafted ones are refused.

parity/record_tensorflow_classes.py made the folders.
"""

import json
import shutil

import h5py
import numpy as np
import pytest
from recorded_folders import TENSORFLOW_CLASSES, recorded_folder
from tiny_checkpoints import assert_same_tensors

from keras_bert.checkpoints.conversion import convert_checkpoint
from keras_bert.checkpoints.formats import read_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.checkpoints.safetensors_file import read_safetensors
from keras_bert.program.errors import InputError

# The name of an output there -> ours.
OUTPUTS = {"prediction_logits": "masked_lm_logits", "seq_relationship_logits": "next_sentence_logits"}
OUTPUTS |= {"prediction_scores": "log_probabilities", "logits": "masked_lm_logits"}
# Class -> the names of the tensors that it has and does not use.
UNUSED = {
    "BertForPreTraining": (),
    "DebertaV2ForSequenceClassification": (),
    "AlbertForMaskedLM": ("predictions.bias",),  # that of the decoder is used
    "MobileBertForMaskedLM": (),
    "MPNetForSequenceClassification": ("mpnet.pooler.dense.bias", "mpnet.pooler.dense.weight"),
    "TransfoXLLMHeadModel": (),
}
EMBEDDINGS = "bert/tf_bert_for_pre_training/bert/embeddings"
TOKENS = f"{EMBEDDINGS}/word_embeddings/weight:0"


def recorded(name):
    return recorded_folder(name, archive=TENSORFLOW_CLASSES)


@pytest.fixture
def bert(tmp_path):
    """A writable folder with one `tf_model.h5`."""
    shutil.copytree(recorded("BertForPreTraining"), tmp_path / "bert")
    return tmp_path / "bert"


@pytest.mark.parametrize("name", UNUSED)
def test_a_model_computes_what_it_computed_in_tensorflow(name):
    theirs = np.load(recorded(name) / "outputs.npz")
    ids, mask = theirs["input_ids"], theirs.get("attention_mask")
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * ids}
    inputs["masked_lm_positions"] = np.tile(np.arange(ids.shape[1]), (len(ids), 1))
    if mask is None:  # transformers begins with a memory of zeros
        inputs = {"input_ids": ids, "memory": np.zeros((2, 1, 4, 8), "float32")}
    found = from_pretrained(None, recorded(name))(inputs)
    compared = [key for key in theirs if key not in ("input_ids", "attention_mask")]
    assert compared
    for key in compared:
        ours, expected = np.asarray(found[OUTPUTS[key]] if isinstance(found, dict) else found), theirs[key]
        where = mask > 0 if mask is not None and expected.shape[:2] == mask.shape else ...
        np.testing.assert_allclose(ours[where], expected[where], rtol=0, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("name", UNUSED)
def test_every_tensor_is_used_or_named_and_written_under_its_name_in_torch(tmp_path, name):
    found = read_checkpoint(recorded(name))
    assert found.ignored == UNUSED[name]
    notes = convert_checkpoint(recorded(name), tmp_path / "theirs", "huggingface")
    assert ("ignored" in notes[-1]) == bool(UNUSED[name])
    written = read_safetensors(tmp_path / "theirs" / "model.safetensors")
    assert not [key for key in written if "/" in key or ":" in key]
    again = read_checkpoint(tmp_path / "theirs")
    assert again.config == found.config
    assert_same_tensors(again, found)


def test_pytorch_files_are_read_before_those_of_tensorflow(bert):
    table = read_checkpoint(bert).tensors["encoder/embeddings/token_embeddings"].read()
    convert_checkpoint(bert, bert / "torch", "huggingface")
    (bert / "torch" / "model.safetensors").rename(bert / "model.safetensors")
    with h5py.File(bert / "tf_model.h5", "a") as file:
        file[TOKENS][:] = 0
    found = read_checkpoint(bert)
    assert np.array_equal(found.tensors["encoder/embeddings/token_embeddings"].read(), table)
    assert "the weights are those of model.safetensors; tf_model.h5 is not read" in found.remarks


def with_config(**values):
    def change(folder):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **values}))

    return change


def with_file(change):
    """Returns a function that changes the HDF5 file of a folder."""

    def changed(folder):
        with h5py.File(folder / "tf_model.h5", "a") as file:
            change(file)

    return changed


def with_tokens(make):
    """Returns a function that puts something in place of the table of tokens."""

    def replace(file):
        del file[TOKENS]
        make(file)

    return with_file(replace)


def virtual(file):
    layout = h5py.VirtualLayout((40, 8), "float32")
    layout[:] = h5py.VirtualSource("elsewhere.h5", "data", (40, 8))
    file.create_virtual_dataset(TOKENS, layout)


def cut_off(folder):
    content = (folder / "tf_model.h5").read_bytes()
    (folder / "tf_model.h5").write_bytes(content[: len(content) // 2])


def names_outside(folder):
    (folder / "tf_model.h5").rename(folder.parent / "tf_model-1.h5")
    (folder / "tf_model.h5.index.json").write_text('{"weight_map": {"bert": "../tf_model-1.h5"}}')


def add(name):
    return with_file(lambda file: file.create_dataset(name, data=np.zeros(8, "float32")))


COMPRESSED = dict(shape=(40_000, 1000), dtype="float32", chunks=(4000, 1000), compression="gzip")
LAYER = "bert/tf_bert_for_pre_training/bert/encoder/layer_._2/output/dense/bias:0"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_config(model_type="roberta"), "holds no BERT: roberta.embeddings.word_embeddings.weight is missing. Its"),
        (with_config(num_hidden_layers=3), r"is incomplete: 16 of \d+ tensors are missing: encoder/layer_2/"),
        (with_config(num_hidden_layers=1), "has more weights than a model with num_hidden_layers=1: encoder/layer_1"),
        (with_config(vocab_size=41), r"token_embeddings has the shape \[40, 8\], but its config requires \[41, 8\]"),
        (with_file(lambda file: file.__delitem__("bert")), "is incomplete: .* missing: encoder/layer_0"),
        (add(LAYER), "has more weights than a model with num_hidden_layers=2: encoder/layer_2/output_dense/bias"),
        (with_tokens(lambda file: file.create_dataset(TOKENS, **COMPRESSED)), "is not stored as Keras does it"),
        (with_tokens(lambda file: file.create_dataset(TOKENS, (40, 8), "float32")), "file has 0 bytes for it"),
        (with_tokens(virtual), r"has the shape \[40, 8\], but is not stored as Keras does it"),
        (
            with_tokens(lambda file: file.create_dataset(TOKENS, (40, 8), "float32", external=[("a", 0, 1280)])),
            "is not stored as Keras does it",
        ),
        (
            with_tokens(lambda file: file.__setitem__(TOKENS, h5py.ExternalLink("/etc/passwd", "/"))),
            "word_embeddings/weight:0 is a link to another place, which Keras never writes. Do not trust the file",
        ),
        (with_file(lambda file: file.__setitem__("x", h5py.SoftLink("/bert"))), "x is a link to another place"),
        (with_tokens(lambda file: file.create_dataset(TOKENS, data=["a"])), "but numbers were expected"),
        (cut_off, "is damaged or is not a weights file"),
        (names_outside, r"'\.\./tf_model-1.h5' is not inside the folder of the model"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_or_leads_elsewhere_is_refused_with_one_line(bert, change, message):
    change(bert)
    with pytest.raises(InputError, match=message) as raised:
        from_pretrained(None, bert)
    assert "\n" not in str(raised.value)


def test_a_shared_table_is_shared_whatever_the_config_says(bert):
    before = read_checkpoint(bert)
    with_config(tie_word_embeddings=False)(bert)
    assert read_checkpoint(bert).config == before.config
    assert_same_tensors(read_checkpoint(bert), before)


def test_lists_of_names_in_attributes_change_nothing(bert):
    before = read_checkpoint(bert)
    with h5py.File(bert / "tf_model.h5", "a") as file:
        file.attrs["layer_names"] = np.full(1000, b"x" * 60)
        del file["bert"].attrs["weight_names"]
    assert_same_tensors(read_checkpoint(bert), before)


def test_a_transformer_xl_with_other_tables_in_its_softmax_is_refused(tmp_path):
    shutil.copytree(recorded("TransfoXLLMHeadModel"), tmp_path / "model")
    with h5py.File(tmp_path / "model" / "tf_model.h5", "a") as file:
        file["crit/tf_transfo_xllm_head_model/crit/out_layers_._1_._weight:0"][:] = 0
    with pytest.raises(InputError, match=r"crit.out_layers.1.weight and transformer.* differ, as after a training"):
        read_checkpoint(tmp_path / "model")
