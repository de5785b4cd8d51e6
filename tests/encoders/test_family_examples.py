"""Families compute what transformers computed for small folders.

KERAS_BERT_DATA=/folder      has `family2/family2_folder.py`, which writes the folders, and `examples.json`, the outputs
"""

import json
import os
import pathlib
import runpy

import numpy as np
import pytest

from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.checkpoints.conversion import convert_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.checkpoints.safetensors_file import read_safetensors, write_safetensors
from keras_bert.models.encoder_base import Encoder
from keras_bert.program.errors import InputError

FOLDER = pathlib.Path(os.environ.get("KERAS_BERT_DATA", "")) / "family2"
pytestmark = pytest.mark.skipif(not (FOLDER / "examples.json").is_file(), reason="KERAS_BERT_DATA has no family2/")
EXAMPLES = ("xlm-roberta/base", "xlm-roberta/qa", "xlm-roberta/mlm", "camembert/base")
EXAMPLES += ("mpnet/base", "mpnet/token", "mpnet/qa")
EXAMPLES += tuple(f"deberta-v3/{head}" for head in ("base", "token", "mlm"))
EXAMPLES += ("deberta-v2/base", "deberta-v2/qa")
EXAMPLES += ("mmbert/base", "nomic_bert/base", "nomic_bert/token", "gte/base", "gte/token")
EXAMPLES += ("jina_embeddings_v3/base", "jina_embeddings_v3/qa", "eurobert/base", "eurobert/token", "gemma3_text/base")
# The families whose configs come back with all keys, and the keys that the configs of the others keep.
WHOLE_CONFIGS = ("nomic_bert", "gte", "jina", "eurobert", "gemma3_text")
KEPT = {"model_type", "architectures", "vocab_size", "max_position_embeddings", "layer_norm_eps", "pad_token_id"}
KEPT |= {"relative_attention_num_buckets"}
BOUNDS = {"float32": 2e-5, "float64": 1e-6}
# transformers computes its norms in float32, always.
BOUNDS_OF = {"gemma3_text": {"float32": 5e-5, "float64": 1e-5}}


@pytest.fixture(scope="module")
def maker():
    """Returns the names in the script that writes the folders."""
    return runpy.run_path(str(FOLDER / "family2_folder.py"))


@pytest.fixture(scope="module")
def recorded():
    return json.loads((FOLDER / "examples.json").read_text())


def write_folder(folder, maker, recorded, example, **changes):
    family, head = example.split("/")
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(maker["config"](family, head) | changes))
    tensors = {name: StoredTensor.of(maker["tensor"](name, shape)) for name, shape in recorded["shapes"].items()}
    with open(folder / "model.safetensors", "wb") as file:
        write_safetensors(file, tensors, {"format": "pt"})


def outputs_of(folder, head, dtype, features):
    """Returns the outputs under the names of transformers."""
    model = from_pretrained(Encoder if head == "base" else None, folder, dtype=dtype)
    if head == "mlm":
        rows, length = features["input_ids"].shape
        features["masked_lm_positions"] = np.tile(np.arange(length, dtype="int32"), (rows, 1))
    outputs = model(features)
    if head == "base":
        return {"last_hidden_state": outputs["sequence_output"], "pooler_output": outputs["pooled_output"]}
    if head == "qa":
        return {name: outputs[name] for name in ("start_logits", "end_logits")}
    return {"logits": outputs["masked_lm_logits"] if head == "mlm" else outputs}


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_folder_computes_what_transformers_computed(maker, recorded, tmp_path, example):
    family, head = example.split("/")
    write_folder(tmp_path / "theirs", maker, recorded[example], example)
    for key in {"outputs", "outputs_left"} & recorded[example].keys():
        ids, mask, segments = maker["inputs"](family, key == "outputs_left")
        features = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
        for dtype, bound in BOUNDS_OF.get(family, BOUNDS).items():
            found = outputs_of(tmp_path / "theirs", head, dtype, features)
            for name, theirs in recorded[example][key].items():
                ours = np.asarray(found[name], "float64")
                assert ours.shape == tuple(theirs["shape"])
                if ours.shape[:2] == mask.shape:
                    ours = ours * mask.reshape(*mask.shape, *[1] * (ours.ndim - 2))
                np.testing.assert_allclose(ours.ravel()[:12], theirs["first"], rtol=0, atol=bound)
                np.testing.assert_allclose(ours[0].ravel()[-6:], theirs["last"][-ours[0].size :], rtol=0, atol=bound)
                np.testing.assert_allclose((ours**2).sum(), theirs["sumsq"], rtol=bound)


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_folder_comes_back_unchanged(maker, recorded, tmp_path, example):
    write_folder(tmp_path / "theirs", maker, recorded[example], example)
    convert_checkpoint(tmp_path / "theirs", tmp_path / "ours", do_lower_case=False)
    convert_checkpoint(tmp_path / "ours", tmp_path / "back", "huggingface")
    before, after = (read_safetensors(str(tmp_path / name / "model.safetensors")) for name in ("theirs", "back"))
    assert {name: tensor.read().tobytes() for name, tensor in before.items()} == {
        name: tensor.read().tobytes() for name, tensor in after.items()
    }
    theirs, back = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("theirs", "back"))
    kept = set(theirs) if example.startswith(WHOLE_CONFIGS) else KEPT & set(theirs)
    # The ids of special tokens are those of a tokenizer, which these folders have not.
    kept -= {key for key in theirs if key.endswith("_token_id")} if example.startswith(WHOLE_CONFIGS) else set()
    assert {key: theirs[key] for key in kept} == {key: back.get(key) for key in kept}


def test_a_masked_lm_of_a_deberta_is_read_by_the_names_of_its_weights(maker, recorded, tmp_path):
    """Microsoft's configs do not say which of two heads their files have, and the default is the other one."""
    write_folder(tmp_path / "theirs", maker, recorded["deberta-v3/mlm"], "deberta-v3/mlm", legacy=True)
    assert not from_pretrained(Encoder, tmp_path / "theirs").config.legacy
    convert_checkpoint(tmp_path / "theirs", tmp_path / "back", "huggingface")
    assert json.loads((tmp_path / "back" / "config.json").read_text())["legacy"] is False
    names = read_safetensors(str(tmp_path / "back" / "model.safetensors")).keys()
    assert "lm_predictions.lm_head.dense.weight" in names


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"relative_attention": False}, "relative_attention is False, .* Only True is supported"),
        ({"relative_attention": None}, "has no relative_attention, .* DeBERTa-v2 and -v3 have relative_attention true"),
        ({"pos_att_type": ["c2p", "p2p"]}, "pos_att_type must be one of c2p, p2c, .* Received: 'c2p|p2p'"),
        ({"pos_att_type": None}, "pos_att_type must be one of c2p, p2c, .* Received: ''"),
        ({"attention_head_size": 8}, "attention_head_size must be 6, as the other sizes say"),
        ({"conv_groups": 2}, "conv_groups is 2, .* Only 1 is supported"),
        ({"pooler_hidden_act": "mish"}, "pooler_hidden_act is 'mish'. Supported: gelu"),
    ],
)
def test_settings_that_a_deberta_cannot_have_are_refused(maker, recorded, tmp_path, change, message):
    write_folder(tmp_path / "theirs", maker, recorded["deberta-v3/base"], "deberta-v3/base", **change)
    with pytest.raises(InputError, match=message):
        from_pretrained(Encoder, tmp_path / "theirs")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"relative_attention_num_buckets": 16}, "relative_attention_num_buckets is 16, .* Only 32 is supported"),
        ({"pad_token_id": 0}, "pad_token_id is 0, .* Only 1 is supported"),
    ],
)
def test_settings_that_transformers_ignores_in_an_mpnet_are_refused(maker, recorded, tmp_path, change, message):
    write_folder(tmp_path / "theirs", maker, recorded["mpnet/base"], "mpnet/base", **change)
    with pytest.raises(InputError, match=message):
        from_pretrained(Encoder, tmp_path / "theirs")
