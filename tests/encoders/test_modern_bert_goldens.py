"""ModernBERT computes what transformers computed and parity/record_modernbert.py recorded.

Each of its three configs has rows longer and shorter than the windows of local attention.
"""

import json

import numpy as np
import pytest
from numpy_bert import scatter_weights
from places import TESTS

from keras_bert import Encoder, InputError, MaskedLM, SequenceClassifier
from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.checkpoints.safetensors_file import read_safetensors, write_safetensors

GOLDEN = np.load((TESTS / "family_golden") / "modernbert.npz")
HEADS = (
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)
FEATURES = {name: GOLDEN[name] for name in ("input_ids", "input_mask")}
REAL = GOLDEN["input_mask"] > 0
# The keys with which transformers 4.48 wrote the published models.
PUBLISHED = {
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
    "norm_eps": 1e-5,
    "layer_norm_eps": 1e-5,
    "position_embedding_type": "absolute",
    "reference_compile": None,
}


def write_folder(folder, number, head, **changes):
    """Writes the model of a config with this head, as transformers does, and returns its weights."""
    prefix = f"{number}/weights/"
    weights = {name.removeprefix(prefix): GOLDEN[name] for name in GOLDEN.files if name.startswith(prefix)}
    if head == "ForMultipleChoice":
        weights |= {f"classifier.{part}": weights[f"choice.classifier.{part}"] for part in ("weight", "bias")}
    unused = ("choice.", "classifier." if head == "ForMaskedLM" else "decoder.")
    weights = {name: array for name, array in weights.items() if not name.startswith(unused)}
    folder.mkdir()
    with open(folder / "model.safetensors", "wb") as file:
        write_safetensors(file, {name: StoredTensor.of(array) for name, array in weights.items()}, {"format": "pt"})
    config = json.loads(str(GOLDEN[f"{number}/config"])) | {"architectures": [f"ModernBert{head}"]} | changes
    (folder / "config.json").write_text(json.dumps(config))
    return weights


def logits(model, head):
    batch = dict(FEATURES)
    if head == "ForMaskedLM":
        batch["masked_lm_positions"] = np.tile(np.arange(12, dtype="int32"), (3, 1))
    if head == "ForMultipleChoice":
        batch = {name: values[None] for name, values in batch.items()}
    found = model(batch)
    found = {"logits": found} if not isinstance(found, dict) else found
    return {name.removeprefix("masked_lm_"): np.asarray(values) for name, values in found.items()}


@pytest.mark.parametrize("number", [0, 1, 2])
def test_hidden_states_and_heads_equal_those_of_transformers(tmp_path, number):
    for head in HEADS:
        folder = tmp_path / head
        write_folder(folder, number, head)
        model = from_pretrained(None, folder)
        for name, found in logits(model, head).items():
            expected = GOLDEN[f"{number}/{head}/{name}"]
            where = REAL if found.ndim > 1 and found.shape[:2] == REAL.shape else ...
            np.testing.assert_allclose(found[where], expected[where], rtol=0, atol=1e-5, err_msg=f"{head} {name}")
    encoder = from_pretrained(Encoder, folder, output_hidden_states=True)
    for found, expected in zip(encoder(FEATURES)["hidden_states"], GOLDEN[f"{number}/hidden_states"], strict=True):
        np.testing.assert_allclose(np.asarray(found)[REAL], expected[REAL], rtol=0, atol=1e-5)


@pytest.mark.parametrize("head", ["ForMaskedLM", "ForTokenClassification"])
def test_every_tensor_comes_back_bit_by_bit(tmp_path, head):
    weights = write_folder(tmp_path / "theirs", 2, head)
    model = from_pretrained(None, tmp_path / "theirs")
    model.save_pretrained(tmp_path / "ours")
    from_pretrained(None, tmp_path / "ours").save_pretrained(tmp_path / "back", format="huggingface")
    back = read_safetensors(str(tmp_path / "back" / "model.safetensors"))
    assert set(back) == set(weights)
    for name, array in weights.items():
        assert back[name].read().tobytes() == array.tobytes(), name
    config = json.loads((tmp_path / "back" / "config.json").read_text())
    assert config["architectures"] == [f"ModernBert{head}"]
    assert (config["classifier_activation"], config["local_attention"], config["norm_bias"]) == ("relu", 12, True)
    assert from_pretrained(None, tmp_path / "back").config == model.config


def test_the_published_form_of_the_config_is_read(tmp_path):
    write_folder(tmp_path / "model", 0, "ForMaskedLM", **PUBLISHED)
    config = from_pretrained(None, tmp_path / "model").config
    assert (config.global_attn_every_n_layers, config.local_rope_theta, config.layer_norm_eps) == (3, 10000.0, 1e-5)
    write_folder(tmp_path / "none", 0, "ForMaskedLM", **PUBLISHED | {"local_rope_theta": None})
    assert from_pretrained(None, tmp_path / "none").config.local_rope_theta == 160000.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder_bias": False}, "decoder_bias is False, .* Only True is supported"),
        ({"layer_types": ["sliding_attention"] * 5}, "layer_types is .* Only layers where every n-th"),
        ({"layer_types": ["full_attention"] * 4}, "layer_types has 4 entries for num_hidden_layers=5"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "rotary positions are scaled: {'rope_type'"),
        ({"rope_scaling": {"type": "linear"}}, "rotary positions are scaled: {'type': 'linear'}"),
        ({"hidden_activation": "mish"}, "hidden_activation is 'mish'. Supported: gelu"),
        ({"classifier_activation": "mish"}, "classifier_activation is 'mish'. Supported: gelu"),
        ({"num_hidden_layers": 4}, "has more weights than a model with num_hidden_layers=4"),
        ({"num_hidden_layers": 6}, "is incomplete: .*/layer_5"),
    ],
)
def test_what_cannot_be_computed_is_refused_by_name(tmp_path, changes, message):
    write_folder(tmp_path / "model", 0, "ForMaskedLM", **changes)
    with pytest.raises(InputError, match=message):
        from_pretrained(None, tmp_path / "model")


def test_tasks_start_with_the_head_of_the_masked_lm(tmp_path):
    weights = write_folder(tmp_path / "model", 0, "ForMaskedLM")
    model = SequenceClassifier.from_pretrained(tmp_path / "model", labels=["a", "b"])
    np.testing.assert_array_equal(np.asarray(model.encoder.pooler.dense.kernel), weights["head.dense.weight"].T)
    assert model.new_parts.untrained() == ("classifier",)
    # A masked LM does not use the pooler, so it does not store one that is out of date.
    language_model = MaskedLM.from_pretrained(tmp_path / "model")
    scatter_weights(language_model)
    language_model.save_pretrained(tmp_path / "trained")
    again = SequenceClassifier.from_pretrained(tmp_path / "trained", labels=["a", "b"])
    expected = np.asarray(language_model.masked_lm_head.dense.kernel)
    np.testing.assert_array_equal(np.asarray(again.encoder.pooler.dense.kernel), expected)
