"""Adapters of PEFT: merged as PEFT 0.21 computes them (`tests/parity/record_adapters.py`), written, and refused."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from tiny_checkpoints import change_json

from keras_bert import (
    Encoder,
    MaskedLM,
    SentenceEncoder,
    SequenceClassifier,
    TokenClassifier,
    enable_lora,
    save_adapter,
)
from keras_bert.checkpoints import formats
from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.checkpoints.conversion import convert_checkpoint
from keras_bert.checkpoints.formats import read_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.checkpoints.safetensors_file import read_safetensors, write_safetensors
from keras_bert.program.errors import InputError

GOLDEN = Path(__file__).parents[1] / "adapter_golden"
BASE = GOLDEN / "base"
IDS = np.array([[2, 7, 9, 11, 3], [2, 20, 21, 12, 3]], np.int32)
ROWS = {"input_ids": IDS, "input_mask": np.ones_like(IDS), "segment_ids": np.zeros_like(IDS)}
QUERY = "base_model.model.bert.encoder.layer.0.attention.self.query"
pytestmark = pytest.mark.usefixtures("without_graphs")


def outputs_of(model):
    outputs = model(ROWS)
    return np.asarray(outputs["sequence_output"] if isinstance(outputs, dict) else outputs)


def recorded(name):
    return np.array(json.loads((GOLDEN / f"{name}.json").read_text())["outputs"])


@pytest.fixture
def adapter(tmp_path):
    """A copy of the recorded classifier."""
    return shutil.copytree(GOLDEN / "classifier", tmp_path / "adapter")


def change_tensors(adapter, change):
    """Writes the tensors of an adapter again, after `change` of a dictionary name -> array."""
    file = adapter / "adapter_model.safetensors"
    arrays = {name: tensor.read() for name, tensor in read_safetensors(file).items()}
    change(arrays)
    with open(file, "wb") as opened:
        write_safetensors(opened, {name: StoredTensor.of(array) for name, array in arrays.items()}, {})


@pytest.mark.parametrize(("name", "model_class"), [("classifier", "SequenceClassifier"), ("encoder", "BertEncoder")])
def test_an_adapted_model_computes_what_peft_computes(name, model_class):
    model = from_pretrained(None, GOLDEN / name, base=BASE)
    assert type(model).__name__ == model_class
    np.testing.assert_allclose(outputs_of(model), recorded(name), atol=2e-6)


@pytest.mark.parametrize(
    ("layer", "ours", "alpha", "rank"),
    [
        ("encoder.layer.0.attention.self.query", "layer_0/attention/query", 7, 2),
        ("encoder.layer.1.attention.self.query", "layer_1/attention/query", 4, 1),
        ("encoder.layer.0.output.dense", "layer_0/output_dense", 3.5, 3),
        ("encoder.layer.1.attention.output.dense", "layer_1/attention/output_dense", 3.5, 2),
        ("pooler.dense", "pooler/dense", 3.5, 2),
    ],
)
def test_a_kernel_gets_the_product_with_the_rank_and_alpha_of_its_pattern(layer, ours, alpha, rank):
    adapter = read_safetensors(GOLDEN / "classifier" / "adapter_model.safetensors")
    a, b = (adapter[f"base_model.model.bert.{layer}.lora_{letter}.weight"].read() for letter in "AB")
    kernel = read_safetensors(BASE / "model.safetensors")[f"{layer}.weight"].read()
    expected = (kernel.astype(np.float64) + alpha / rank**0.5 * b.astype(np.float64) @ a.astype(np.float64)).T
    merged = read_checkpoint(GOLDEN / "classifier", base=BASE).tensors[f"encoder/{ours}/kernel"].read()
    assert a.shape[0] == rank
    np.testing.assert_array_equal(merged, expected.astype(np.float32))


def test_a_converted_adapter_is_an_ordinary_model(tmp_path, adapter):
    (adapter / "config.json").write_text(json.dumps({"id2label": {"0": "bad", "1": "good", "2": "fine"}}))
    convert_checkpoint(adapter, tmp_path / "model", "huggingface", base=BASE)
    model = SequenceClassifier.from_pretrained(tmp_path / "model")
    assert model.labels == ("bad", "good", "fine")
    np.testing.assert_allclose(outputs_of(model), recorded("classifier"), atol=2e-6)


def test_a_folder_of_sentence_transformers_has_an_adapter_beside_its_modules(tmp_path):
    folder, base = shutil.copytree(GOLDEN / "encoder", tmp_path / "adapter"), shutil.copytree(BASE, tmp_path / "base")
    for path in (folder, base):
        shutil.copy(GOLDEN / "bge_m3" / "modules.json", path)
        shutil.copytree(GOLDEN / "bge_m3" / "1_Pooling", path / "1_Pooling")
    change_json(folder / "1_Pooling" / "config.json", pooling_mode_cls_token=False, pooling_mode_mean_tokens=True)
    model = SentenceEncoder.from_pretrained(folder, base=base)
    mean = recorded("encoder").mean(axis=1)
    expected = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    assert Encoder.from_pretrained(folder, base=base).config.sentence_pooling == "mean"
    np.testing.assert_allclose(np.asarray(model(ROWS)), expected, atol=2e-6)


def test_an_adapter_names_its_base_model(adapter, tmp_path, monkeypatch):
    change_json(adapter / "adapter_config.json", base_model_name_or_path=str(BASE))
    read_checkpoint(adapter)
    change_json(adapter / "adapter_config.json", base_model_name_or_path="owner/base", revision="v1")
    folders = {"hf://owner/adapter": str(adapter), "hf://owner/base@v1": str(BASE)}
    monkeypatch.setattr(formats, "download", folders.__getitem__)
    assert read_checkpoint("hf://owner/adapter").path == "hf://owner/adapter"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"use_dora": True},
            "use_dora is True: keras_bert does not merge DoRA.",
        ),
        ({"lora_bias": True}, "lora_bias is True: keras_bert does not merge biases of LoRA"),
        (
            {"trainable_token_indices": [3]},
            "trainable_token_indices is [3]: keras_bert does not know this kind",
        ),
        ({"peft_type": "LOHA"}, "peft_type is 'LOHA', which would change the results. Only 'LORA' is supported"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights is 'pissa', which would change the results"),
        (
            {"new_setting": 1},
            "could change the results: 'new_setting'=1",
        ),
        ({"rank_pattern": {}}, "since adapter_config.json says the rank 2. Received: [3, 12] and [8, 3]"),
        ({"r": 0}, "each rank must be a whole number from 1. Received: 0"),
        ({"lora_alpha": "3"}, "each alpha must be a number. Received: '3'"),
        ({"alpha_pattern": {"(a+)+": 1}}, "the pattern '(a+)+' of rank_pattern or alpha_pattern cannot be used"),
        ({"alpha_pattern": {"(": 1}}, "the pattern '(' of rank_pattern or alpha_pattern cannot be used"),
    ],
)
def test_a_setting_that_changes_the_results_is_refused_by_name(adapter, change, message):
    change_json(adapter / "adapter_config.json", **change)
    with pytest.raises(InputError, match=re.escape(message)):
        read_checkpoint(adapter, base=BASE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda arrays: arrays.pop(f"{QUERY}.lora_A.weight"),
            "bert.encoder.layer.0.attention.self.query needs both lora_A and lora_B. Received: lora_B",
        ),
        (
            lambda arrays: arrays.update({f"{QUERY}.lora_A.weight": np.zeros((2, 10**4), np.float32)}),
            "attention/query/kernel of the shape [10000, 8], but the base model",
        ),
        (
            lambda arrays: (
                arrays.update({f"{QUERY}2.lora_A.weight": arrays.pop(f"{QUERY}.lora_A.weight")})
                or arrays.update({f"{QUERY}2.lora_B.weight": arrays.pop(f"{QUERY}.lora_B.weight")})
            ),
            "does not have: bert.encoder.layer.0.attention.self.query2.weight. Give the base model that",
        ),
        (
            lambda arrays: arrays.update({"base_model.model.decoder.weight": np.zeros(3, np.float32)}),
            "does not have: decoder.weight. Give the base model that",
        ),
    ],
)
def test_tensors_that_do_not_fit_the_base_model_are_refused(adapter, change, message):
    change_tensors(adapter, change)
    with pytest.raises(InputError, match=re.escape(message)):
        read_checkpoint(adapter, base=BASE)


def test_an_adapter_of_another_base_is_refused():
    with pytest.raises(InputError, match="does not have: bert.encoder.layer.0.attention.output.dense.weight"):
        read_checkpoint(GOLDEN / "classifier", base=GOLDEN / "bge_m3")


def test_a_base_model_is_on_this_machine_or_given(adapter):
    message = "'owner/base' is not a folder on this machine. Give base=, its folder or its name on the hub"
    with pytest.raises(InputError, match=message):
        read_checkpoint(adapter)
    with pytest.raises(InputError, match="is an adapter too. Merge that one first"):
        read_checkpoint(adapter, base=adapter)
    with pytest.raises(InputError, match="has no adapter_config.json, so it needs no base model"):
        read_checkpoint(BASE, base=BASE)
    change_json(adapter / "adapter_config.json", base_model_name_or_path=None)
    with pytest.raises(InputError, match="names no base model"):
        read_checkpoint(adapter)


def trained(model):
    """Returns a model with LoRA and random values in all that is trained."""
    rng = np.random.default_rng(0)
    enable_lora(model, 2, alpha=3, parts=("attention", "feed_forward"))
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) * 0.3)
    return model


def test_a_written_adapter_has_the_names_and_shapes_of_peft_and_loads_again(tmp_path):
    model = trained(SequenceClassifier.from_pretrained(BASE, labels=["bad", "good", "fine"]))
    save_adapter(model, tmp_path / "adapter")
    values = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert (values["task_type"], values["r"], values["lora_alpha"]) == ("SEQ_CLS", 2, 3)
    assert values["modules_to_save"] == ["classifier", "pooler"]
    assert values["base_model_name_or_path"] == str(BASE)
    theirs = read_safetensors(GOLDEN / "classifier" / "adapter_model.safetensors")
    ours = read_safetensors(tmp_path / "adapter" / "adapter_model.safetensors")
    for name in (f"{QUERY}.lora_A.weight", f"{QUERY}.lora_B.weight", "base_model.model.classifier.weight"):
        assert ours[name].shape == theirs[name].shape
    kernel = read_safetensors(BASE / "model.safetensors")["encoder.layer.0.attention.self.query.weight"].read()
    a, b = (ours[f"{QUERY}.lora_{letter}.weight"].read() for letter in "AB")
    merged = np.asarray(model.encoder.blocks_in_order()[0].dense_layers()["attention"][0].kernel)
    np.testing.assert_allclose(kernel + 1.5 * b @ a, merged.T, atol=1e-6)
    loaded = from_pretrained(None, tmp_path / "adapter")
    assert loaded.labels == ("bad", "good", "fine")
    np.testing.assert_allclose(outputs_of(loaded), outputs_of(model), atol=2e-6)


def test_the_adapter_of_an_encoder_has_no_prefix(tmp_path):
    model = trained(Encoder.from_pretrained(BASE))
    save_adapter(model, tmp_path / "adapter", base="hf://owner/base@v1")
    names = read_safetensors(tmp_path / "adapter" / "adapter_model.safetensors")
    assert QUERY.replace("bert.", "") + ".lora_A.weight" in names
    values = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert (values["base_model_name_or_path"], values["revision"]) == ("owner/base", "v1")
    np.testing.assert_allclose(
        outputs_of(from_pretrained(None, tmp_path / "adapter", base=BASE)), outputs_of(model), atol=2e-6
    )


def test_the_adapter_of_a_model_without_a_pooler_leaves_it_out(tmp_path):
    save_adapter(trained(TokenClassifier.from_pretrained(BASE, labels=["O", "B"])), tmp_path / "adapter")
    values = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert (values["task_type"], values["modules_to_save"]) == ("TOKEN_CLS", ["classifier"])


def test_heads_of_the_base_model_that_the_adapted_class_does_not_have_are_left_out(tmp_path):
    model = MaskedLM.from_pretrained(BASE)
    model.new_parts.set_trained()
    model.save_pretrained(tmp_path / "with_head")
    adapter = shutil.copytree(GOLDEN / "encoder", tmp_path / "adapter")
    assert read_checkpoint(adapter, base=tmp_path / "with_head").heads == ()
    change_json(adapter / "adapter_config.json", task_type=None)
    with pytest.raises(InputError, match="adapts the table of tokens, which the masked-LM head shares: PEFT computes"):
        read_checkpoint(adapter, base=tmp_path / "with_head")


def test_a_model_without_lora_or_with_another_head_is_not_written(tmp_path):
    with pytest.raises(InputError, match="save_adapter needs a model with LoRA. Call enable_lora before training"):
        save_adapter(Encoder.from_pretrained(BASE), tmp_path / "adapter")
    with pytest.raises(InputError, match="adapters have no place for masked_lm_head. model.save_pretrained"):
        save_adapter(trained(MaskedLM.from_pretrained(BASE)), tmp_path / "adapter")
    assert not (tmp_path / "adapter").exists()
