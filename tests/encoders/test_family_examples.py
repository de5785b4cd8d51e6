"""Families compute what transformers computed for the small folders of family_folders.py."""

import json

import numpy as np
import pytest
from family_folders import config_values, inputs, weights_of
from places import TESTS
from tiny_checkpoints import change_json, write_arrays

from keras_bert.checkpoints.conversion import convert_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.checkpoints.safetensors_file import read_safetensors
from keras_bert.models.encoder_base import Encoder
from keras_bert.program.errors import InputError

FOLDER = TESTS / "family_golden"
EXAMPLES = ("xlm-roberta/base", "xlm-roberta/qa", "xlm-roberta/mlm", "camembert/base")
EXAMPLES += ("mpnet/base", "mpnet/token", "mpnet/qa")
EXAMPLES += tuple(f"deberta-v3/{head}" for head in ("base", "token", "mlm"))
EXAMPLES += ("deberta-v2/base", "deberta-v2/qa")
EXAMPLES += tuple(f"deberta-v2-{kind}/base" for kind in ("c2p", "p2c", "conv"))
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
def recorded():
    return json.loads((FOLDER / "examples.json").read_text())


def write_folder(folder, recorded, example, **changes):
    family, head = example.split("/")
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config_values(family, head) | changes))
    write_arrays(folder, {name: weights_of(name, shape) for name, shape in recorded["shapes"].items()})


def outputs_of(model, head, features):
    """Returns the outputs under the names of transformers."""
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
def test_a_folder_computes_what_transformers_computed(recorded, tmp_path, example):
    family, head = example.split("/")
    write_folder(tmp_path / "theirs", recorded[example], example)
    for dtype, bound in BOUNDS_OF.get(family, BOUNDS).items():
        model = from_pretrained(Encoder if head == "base" else None, tmp_path / "theirs", dtype=dtype)
        for key in ("outputs", "outputs_left"):
            ids, mask, segments = inputs(family, key == "outputs_left")
            found = outputs_of(model, head, {"input_ids": ids, "input_mask": mask, "segment_ids": segments})
            for name, theirs in recorded[example][key].items():
                ours = np.asarray(found[name], "float64")
                assert ours.shape == tuple(theirs["shape"])
                if ours.shape[:2] == mask.shape:
                    ours = ours * mask.reshape(*mask.shape, *[1] * (ours.ndim - 2))
                np.testing.assert_allclose(ours.ravel()[:12], theirs["first"], rtol=0, atol=bound)
                np.testing.assert_allclose(ours[0].ravel()[-6:], theirs["last"][-ours[0].size :], rtol=0, atol=bound)
                np.testing.assert_allclose((ours**2).sum(), theirs["sumsq"], rtol=bound)


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_folder_comes_back_unchanged(recorded, tmp_path, example):
    write_folder(tmp_path / "theirs", recorded[example], example)
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


def test_a_gemma_without_a_window_has_that_of_transformers(recorded, tmp_path):
    write_folder(tmp_path / "theirs", recorded["gemma3_text/base"], "gemma3_text/base")
    change_json(tmp_path / "theirs" / "config.json", without=["sliding_window"])
    assert from_pretrained(Encoder, tmp_path / "theirs").config.local_attention == 4096


def test_a_masked_lm_of_a_deberta_is_read_by_the_names_of_its_weights(recorded, tmp_path):
    """Microsoft's configs do not say which of two heads their files have, and the default is the other one."""
    write_folder(tmp_path / "theirs", recorded["deberta-v3/mlm"], "deberta-v3/mlm", legacy=True)
    assert not from_pretrained(Encoder, tmp_path / "theirs").config.legacy
    convert_checkpoint(tmp_path / "theirs", tmp_path / "back", "huggingface")
    assert json.loads((tmp_path / "back" / "config.json").read_text())["legacy"] is False
    names = read_safetensors(str(tmp_path / "back" / "model.safetensors")).keys()
    assert "lm_predictions.lm_head.dense.weight" in names


# The config of nomic-ai/nomic-embed-text-v1.5 on the hub, with the sizes of the example.
NOMIC_ON_THE_HUB = {
    **{"n_embd": 24, "n_layer": 3, "n_head": 4, "n_inner": 40, "n_positions": 64, "layer_norm_epsilon": 1e-12},
    **{"rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "prenorm": False},
    **{"activation_function": "swiglu", "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False},
    **{"resid_pdrop": 0.0, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "causal": False, "use_rms_norm": False},
    **{"rotary_scaling_factor": None, "max_trained_positions": 2048, "scale_attn_weights": True},
    "auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"},
}
OF_TRANSFORMERS = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act")
OF_TRANSFORMERS += ("max_position_embeddings", "layer_norm_eps", "rope_parameters", "pad_token_id")


@pytest.mark.parametrize(
    ("example", "changes", "values"),
    [
        ("nomic_bert/base", NOMIC_ON_THE_HUB | dict.fromkeys(OF_TRANSFORMERS), {"global_rope_theta": 1000}),
        (
            "gte/base",
            {"rope_parameters": None, "rope_theta": 500, "rope_scaling": {"factor": 2.0, "type": "ntk"}},
            {"global_rope_theta": 500, "rope_factor": 2.0},
        ),
        (
            "eurobert/base",
            {"rope_parameters": None, "rope_theta": 500, "classifier_pooling": None, "clf_pooling": "bos"},
            {"global_rope_theta": 500, "classifier_pooling": "cls"},
        ),
        (
            "gemma3_text/base",
            {"layer_types": None, "_sliding_window_pattern": 3, "rope_theta": 500, "rope_local_base_freq": 70},
            {"global_rope_theta": 500, "local_rope_theta": 70, "global_attn_every_n_layers": 3},
        ),
    ],
)
def test_configs_of_the_hub_are_read(recorded, tmp_path, example, changes, values):
    write_folder(tmp_path / "theirs", recorded[example], example, **changes)
    config = from_pretrained(Encoder, tmp_path / "theirs").config
    assert {name: getattr(config, name) for name in values} == values
    convert_checkpoint(tmp_path / "theirs", tmp_path / "ours", do_lower_case=False)
    convert_checkpoint(tmp_path / "ours", tmp_path / "back", "huggingface")
    assert from_pretrained(Encoder, tmp_path / "back").config == config


REFUSED = {
    "deberta-v3/base": [
        ({"relative_attention": False}, "relative_attention is False, .* Only True is supported"),
        ({"relative_attention": None}, "has no relative_attention, .* DeBERTa-v2 and -v3 have relative_attention true"),
        ({"pos_att_type": ["c2p", "p2p"]}, "pos_att_type must be one of c2p, p2c, .* Received: 'c2p|p2p'"),
        ({"pos_att_type": None}, "pos_att_type must be one of c2p, p2c, .* Received: ''"),
        ({"attention_head_size": 8}, "attention_head_size must be 6, as the other sizes say"),
        ({"conv_groups": 2}, "conv_groups is 2, .* Only 1 is supported"),
        ({"pooler_hidden_act": "mish"}, "pooler_hidden_act is 'mish'. Supported: gelu"),
    ],
    "mpnet/base": [  # transformers ignores these
        ({"relative_attention_num_buckets": 16}, "relative_attention_num_buckets is 16, .* Only 32 is supported"),
        ({"pad_token_id": 0}, "pad_token_id is 0, .* Only 1 is supported"),
    ],
    "mmbert/base": [
        ({"decoder_bias": False}, "decoder_bias is False, .* Only True is supported"),
        ({"layer_types": ["sliding_attention"] * 4}, "layer_types is .* Only layers where every n-th"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types has 3 entries for num_hidden_layers=4"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "rotary positions are scaled: {'rope_type'"),
        ({"rope_scaling": {"type": "linear"}}, "rotary positions are scaled: {'type': 'linear'}"),
        ({"hidden_activation": "mish"}, "hidden_activation is 'mish'. Supported: gelu"),
        ({"classifier_activation": "mish"}, "classifier_activation is 'mish'. Supported: gelu"),
        ({"num_hidden_layers": 3}, "has more weights than a model with num_hidden_layers=3"),
        ({"num_hidden_layers": 5}, "is incomplete: .*/layer_4"),
    ],
    "nomic_bert/base": [
        ({"rotary_emb_fraction": 0.5}, "rotary_emb_fraction is 0.5, .* Only 1.0 is supported"),
        ({"rotary_emb_interleaved": True}, "rotary_emb_interleaved is True, .* Only False"),
        ({"prenorm": True}, "prenorm is True, .* Only False is supported"),
    ],
    "gte/base": [
        ({"rope_parameters": {"rope_type": "yarn"}}, "scaled: {'rope_type': 'yarn'}. Only .* or 'ntk'"),
        (
            {"rope_parameters": None, "rope_scaling": {"type": "ntk", "factor": 2.0, "mixed_b": 1.0}},
            "rotary positions of full_attention has settings .*'mixed_b'=1.0",
        ),
    ],
    "jina_embeddings_v3/base": [({"lora_adaptations": ["retrieval.query"]}, "its adapters are computed by code")],
    "eurobert/base": [({"classifier_pooling": "max"}, "classifier_pooling must be one of cls, mean, late")],
    "gemma3_text/base": [
        ({"use_bidirectional_attention": None}, "tokens attend to earlier ones only. Use a"),
        ({"sliding_window": 7}, "local_attention must be even. Received: 7"),
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping is 50.0"),
        ({"layer_types": ["full_attention", "sliding_attention"] * 2}, "every n-th is full_att"),
    ],
}


@pytest.mark.parametrize(
    ("example", "change", "message"), [(example, *case) for example, cases in REFUSED.items() for case in cases]
)
def test_settings_that_a_family_cannot_have_are_refused(recorded, tmp_path, example, change, message):
    write_folder(tmp_path / "theirs", recorded[example], example, **change)
    with pytest.raises(InputError, match=message):
        from_pretrained(Encoder, tmp_path / "theirs")


@pytest.mark.parametrize("example", ["nomic_bert/token", "gte/token", "jina_embeddings_v3/qa"])
def test_weights_named_as_in_the_classes_of_transformers_are_read(recorded, tmp_path, example):
    """Files have joined layers under names of their publishers; the classes have the parts, under other names."""
    write_folder(tmp_path / "theirs", recorded[example], example)
    names = {"encoder.layers.": "layers.", "encoder.layer.": "layers.", "attn.out_proj": "self_attn.o_proj"}
    names |= {
        "mixer.out_proj": "self_attn.o_proj",
        "attention.o_proj": "self_attn.o_proj",
        "emb_ln": "embeddings.LayerNorm",
    }
    names |= {"norm1": "post_attention_layernorm", "norm2": "post_mlp_layernorm", "attn_ln": "post_attention_layernorm"}
    names |= {"mlp_ln": "post_mlp_layernorm", "fc11": "up_proj", "fc12": "gate_proj"}
    names |= {"fc2": "down_proj"} if example.startswith("nomic") else {}
    parts = {"Wqkv": ["q_proj", "k_proj", "v_proj"], "qkv_proj": ["q_proj", "k_proj", "v_proj"]}
    parts |= {"up_gate_proj": ["up_proj", "gate_proj"]}
    arrays = {}
    for name, tensor in read_safetensors(str(tmp_path / "theirs" / "model.safetensors")).items():
        for old, new in names.items():
            name = name.replace(old, new)
        [joined] = [old for old in parts if old in name] or [None]
        for number, part in enumerate(parts.get(joined, [None])):
            array = tensor.read()
            if joined:
                array = np.split(array, len(parts[joined]))[number]
                layer = "mlp" if joined.startswith("up") else "self_attn"
                stem, kind = name.split(f".{joined}.")
                key = f"{stem.rsplit('.', 1)[0]}.{layer}.{part}.{kind}"
            arrays[key if joined else name] = array
    (tmp_path / "classes").mkdir()
    (tmp_path / "classes" / "config.json").write_text((tmp_path / "theirs" / "config.json").read_text())
    write_arrays(tmp_path / "classes", arrays)
    ids, mask, segments = inputs(example.split("/")[0])
    features = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
    expected, found = (from_pretrained(None, tmp_path / name)(features) for name in ("theirs", "classes"))
    expected, found = (outputs if isinstance(outputs, dict) else {"": outputs} for outputs in (expected, found))
    for name, values in expected.items():
        np.testing.assert_allclose(np.asarray(found[name]), np.asarray(values), rtol=0, atol=2e-6)


def neo_bert_of_numpy(config, weights, ids, mask):
    """NeoBERT's formula in float64, as its paper and the names of its weights say it."""
    heads, size = config["num_attention_heads"], config["hidden_size"] // config["num_attention_heads"]
    angles = np.arange(ids.shape[1])[:, None] * 10_000.0 ** (-2 * np.arange(size // 2) / size)

    def norm(vectors, name):
        return vectors / np.sqrt((vectors**2).mean(-1, keepdims=True) + config["norm_eps"]) * weights[f"{name}.weight"]

    def turned(vectors):  # [B, S, N, D]: neighbours are the real and the imaginary part of a number
        numbers = (vectors[..., ::2] + 1j * vectors[..., 1::2]) * np.exp(1j * angles)[:, None]
        return np.stack([numbers.real, numbers.imag], -1).reshape(vectors.shape)

    hidden = weights["encoder.weight"][ids]
    for number in range(config["num_hidden_layers"]):
        layer = f"transformer_encoder.{number}"
        vectors = norm(hidden, f"{layer}.attention_norm") @ weights[f"{layer}.qkv.weight"].T
        query, key, value = np.split(vectors.reshape(*ids.shape, heads, 3 * size), 3, -1)
        scores = np.einsum("bfnd,bsnd->bnfs", turned(query), turned(key)) / np.sqrt(size)
        scores = np.exp(np.where(mask[:, None, None] > 0, scores, -np.inf))
        found = np.einsum("bnfs,bsnd->bfnd", scores / scores.sum(-1, keepdims=True), value)
        hidden = hidden + found.reshape(*ids.shape, -1) @ weights[f"{layer}.wo.weight"].T
        first, second = np.split(norm(hidden, f"{layer}.ffn_norm") @ weights[f"{layer}.ffn.w12.weight"].T, 2, -1)
        hidden = hidden + (first / (1 + np.exp(-first)) * second) @ weights[f"{layer}.ffn.w3.weight"].T
    return norm(hidden, "layer_norm")


def test_a_neobert_computes_its_formula(tmp_path):
    """transformers has no NeoBERT: the code is in the folders of the hub."""
    config = {"model_type": "neobert", "architectures": ["NeoBERT"], "hidden_size": 24, "num_hidden_layers": 3}
    config |= {"num_attention_heads": 4, "intermediate_size": 48, "norm_eps": 1e-5, "vocab_size": 211, "max_length": 64}
    config |= {"dim_head": 6, "auto_map": {"AutoModel": "chandar-lab/NeoBERT--model.NeoBERT"}}
    shapes = {"encoder.weight": (211, 24), "layer_norm.weight": (24,)}
    for layer in (f"transformer_encoder.{number}" for number in range(3)):
        shapes |= {f"{layer}.qkv.weight": (72, 24), f"{layer}.wo.weight": (24, 24), f"{layer}.ffn.w3.weight": (24, 32)}
        shapes |= {f"{layer}.ffn.w12.weight": (64, 24)}
        shapes |= {f"{layer}.{name}.weight": (24,) for name in ("attention_norm", "ffn_norm")}
    weights = {name: weights_of(name, shape) for name, shape in shapes.items()}
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "config.json").write_text(json.dumps(config))
    write_arrays(tmp_path / "theirs", weights)
    ids, mask, _ = inputs("nomic_bert", True)
    expected = neo_bert_of_numpy(config, {name: array.astype("float64") for name, array in weights.items()}, ids, mask)
    encoder = from_pretrained(Encoder, tmp_path / "theirs", dtype="float64")
    found = np.asarray(encoder({"input_ids": ids, "input_mask": mask})["sequence_output"])
    np.testing.assert_allclose(found[mask > 0], expected[mask > 0], rtol=0, atol=1e-7)
    convert_checkpoint(tmp_path / "theirs", tmp_path / "ours", do_lower_case=False)
    convert_checkpoint(tmp_path / "ours", tmp_path / "back", "huggingface")
    for name, tensor in read_safetensors(str(tmp_path / "back" / "model.safetensors")).items():
        np.testing.assert_array_equal(tensor.read(), weights[name])
    back = json.loads((tmp_path / "back" / "config.json").read_text())
    kept = config.keys() - {"architectures", "dim_head", "auto_map"}
    assert {name: back[name] for name in kept} == {name: config[name] for name in kept}
