"""Computes with transformers what ALBERT, ELECTRA, XLNet and Transformer-XL of `tests/family_golden/*.npz` must give.

    python tests/parity/check_google_families.py FAMILY ...

`albert.npz`, `electra.npz` and `xlnet.npz` have weights under the names of TensorFlow 1, inputs, and the outputs of the
official code: google-research/albert, google-research/electra and zihangdai/xlnet. transformers 5.23 on torch 2.13 is a
second implementation of each. `transformer_xl.npz` was made with transformers 4.57.6, the last that has this family;
its weights have transformers' names. For each file this prints how far the recorded outputs are from those of
transformers. It changes no file.
"""

import json
import pathlib
import re
import sys
from unittest import mock

import numpy as np
import torch
import transformers

FOLDER = pathlib.Path(__file__).parent.parent / "family_golden"
SIZES = {"vocab_size": 50, "embedding_size": 8, "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 32}
SIZES |= {"max_position_embeddings": 12, "type_vocab_size": 2}
XLNET = {"vocab_size": 50, "d_model": 16, "n_layer": 2, "n_head": 4, "d_inner": 32, "ff_activation": "gelu_new"}
# Patterns of names in TensorFlow 1 -> names in transformers.
NAMES = [
    (r"^(bert|electra|model/transformer)/", ""),
    (r"group_(\d+)/inner_group_(\d+)/", r"albert_layer_groups/\1/albert_layers/\2/"),
    (r"encoder/transformer/", "encoder/"),
    (r"attention_1/(self/|output/)?", "attention/"),
    (r"ffn_1/intermediate/output/dense", "ffn_output"),
    (r"ffn_1/intermediate/dense", "ffn"),
    (r"(albert_layers/\d+)/LayerNorm_1/", r"\1/full_layer_layer_norm/"),
    (r"(albert_layers/\d+)/LayerNorm/", r"\1/attention/LayerNorm/"),
    (r"layer_(\d+)/(rel_attn|ff)/", r"layer/\1/\2/"),
    (r"encoder/layer_(\d+)/", r"encoder/layer/\1/"),
    (r"rel_attn/LayerNorm", "rel_attn/layer_norm"),
    (r"ff/LayerNorm", "ff/layer_norm"),
    (r"rel_attn/([kvrqo])/kernel$", r"rel_attn/\1"),
    (r"mask_emb/mask_emb$", "mask_emb"),
    (r"word_embedding/lookup_table$", "word_embedding/weight"),
    (r"pooler/dense/", "pooler/"),
    (r"_embeddings$", "_embeddings/weight"),
    (r"(gamma|kernel)$", "weight"),
    (r"beta$", "bias"),
]


def main(*families):
    for family in families or ("albert", "electra", "xlnet"):
        recorded = np.load(FOLDER / f"{family}.npz")
        for name, expected, found in globals()[f"outputs_of_{family}"](recorded):
            print(family, name, np.abs(expected - found.numpy()).max())


def load(model, recorded):
    """Gives a model the weights of a file of TensorFlow 1."""
    state = model.state_dict()
    found = {}
    for key in recorded.files:
        if key.startswith("w/"):
            name = key.removeprefix("w/")
            for pattern, other in NAMES:
                name = re.sub(pattern, other, name)
            name, values = name.replace("/", "."), recorded[key]
            if name in ("r_w_bias", "r_r_bias", "r_s_bias", "seg_embed"):  # of XLNet: those of all layers
                found |= {f"layer.{number}.rel_attn.{name}": part for number, part in enumerate(values)}
            else:
                found[name] = values.T if key.endswith("kernel") and values.ndim == 2 else values
    missing = set(state) - set(found) - {name for name in state if name.endswith(("position_ids", "token_type_ids"))}
    assert not missing, missing
    model.load_state_dict({name: torch.tensor(found[name]) for name in state if name in found}, strict=False)
    return model.eval()


def bert_outputs(model, recorded):
    inputs = {"input_ids": recorded["ids"], "attention_mask": recorded["mask"], "token_type_ids": recorded["seg"]}
    with torch.no_grad():
        return model(**{name: torch.tensor(values) for name, values in inputs.items()})


def outputs_of_albert(recorded):
    config = transformers.AlbertConfig(**SIZES, hidden_act="gelu_new", num_hidden_layers=4, num_hidden_groups=2)
    found, real = bert_outputs(load(transformers.AlbertModel(config), recorded), recorded), recorded["mask"] > 0
    yield "sequence", recorded["seq"][real], found.last_hidden_state[real]
    yield "pooled", recorded["pooled"], found.pooler_output


def outputs_of_electra(recorded):
    model = transformers.ElectraModel(transformers.ElectraConfig(**SIZES, hidden_act="gelu", num_hidden_layers=2))
    real = recorded["mask"] > 0
    yield "sequence", recorded["seq"][real], bert_outputs(load(model, recorded), recorded).last_hidden_state[real]


def outputs_of_xlnet(recorded):
    model = load(transformers.XLNetModel(transformers.XLNetConfig(**XLNET, mem_len=5, reuse_len=6)), recorded)
    names = {"perm_mask": "perm", "target_mapping": "tm", "input_mask": "imask"}
    inputs = {name: torch.tensor(np.moveaxis(recorded[key], -1, 0)) for name, key in names.items()}
    inputs |= {"input_ids": torch.tensor(recorded["ids"].T), "token_type_ids": torch.tensor(recorded["seg"].T)}
    memory = [torch.tensor(values) for values in recorded["mems"]]
    with torch.no_grad():
        found = model(**{name: one.contiguous() for name, one in inputs.items()}, mems=memory, use_mems=True)
    yield "output", recorded["out"], found.last_hidden_state.transpose(0, 1)
    yield "memory", recorded["new_mems"], torch.stack(found.mems)


def outputs_of_transformer_xl(recorded):
    for name in ("narrowing", "one_table"):
        config = transformers.TransfoXLConfig(**json.loads(str(recorded[f"{name}/config"])))
        model = transformers.TransfoXLLMHeadModel(config)
        start = f"{name}/w/"
        weights = {key[len(start) :]: torch.tensor(recorded[key]) for key in recorded.files if key.startswith(start)}
        model.load_state_dict(weights, strict=False)
        memory = [torch.tensor(values) for values in recorded[f"{name}/memory"].transpose(1, 2, 0, 3)]
        ids = torch.tensor(recorded[f"{name}/ids"].astype("int64"))
        # This version calls type_as with a dtype.
        as_type = mock.patch.object(torch.Tensor, "type_as", lambda values, dtype: values.to(dtype))
        with torch.no_grad(), as_type:
            found = model.eval()(ids, mems=memory)
            losses = model(ids, mems=memory, labels=ids).losses
        yield f"{name} log_probabilities", recorded[f"{name}/log_probabilities"], found.prediction_scores
        yield f"{name} memory", recorded[f"{name}/new_memory"], torch.stack(found.mems).permute(2, 0, 1, 3)
        yield f"{name} losses", recorded[f"{name}/losses"], losses


if __name__ == "__main__":
    main(*sys.argv[1:])
