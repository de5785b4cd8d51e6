"""Runs transformers' BERT on weights and inputs from a file. It needs torch and transformers, not keras_bert.

    python transformers_bert.py INPUT.npz OUTPUT.npz

INPUT.npz holds `config`, the JSON of a bert_config.json; `weights:<path>`, our weights; and the features. OUTPUT.npz
gets `hidden_states` [L + 1, B, S, H], `attentions` [L, B, N, S, S], `pooled_output` and the two heads' logits.
"""

import json
import sys

import numpy as np
import torch
import transformers

# Our names -> the names of transformers.
ACTIVATIONS = {"gelu": "gelu_new", "gelu_erf": "gelu", "relu": "relu"}
TABLES = {"token_embeddings": "word", "position_embeddings": "position", "segment_embeddings": "token_type"}
LAYER_PARTS = {
    "attention/query": "attention.self.query",
    "attention/key": "attention.self.key",
    "attention/value": "attention.self.value",
    "attention/output_dense": "attention.output.dense",
    "attention_layer_norm": "attention.output.LayerNorm",
    "intermediate_dense": "intermediate.dense",
    "output_dense": "output.dense",
    "output_layer_norm": "output.LayerNorm",
}
HEADS = {
    "embeddings/layer_norm": "bert.embeddings.LayerNorm",
    "pooler/dense": "bert.pooler.dense",
    "masked_lm_head/dense": "cls.predictions.transform.dense",
    "masked_lm_head/layer_norm": "cls.predictions.transform.LayerNorm",
    "next_sentence_head": "cls.seq_relationship",
}


def their_name(path):
    """ "layer_0/attention/query/kernel" -> "bert.encoder.layer.0.attention.self.query.weight"."""
    module, _, part = path.rpartition("/")
    if part in TABLES:
        return f"bert.embeddings.{TABLES[part]}_embeddings.weight"
    if part == "output_bias":
        return "cls.predictions.bias"
    suffix = {"kernel": "weight", "gamma": "weight", "bias": "bias", "beta": "bias"}[part]
    if module in HEADS:
        return f"{HEADS[module]}.{suffix}"
    layer, _, rest = module.partition("/")
    return f"bert.encoder.layer.{layer.removeprefix('layer_')}.{LAYER_PARTS[rest]}.{suffix}"


def main(input_path, output_path):
    given = dict(np.load(input_path))
    ours = json.loads(str(given["config"]))
    config = transformers.BertConfig(
        **{name: value for name, value in ours.items() if name not in ("hidden_act", "do_lower_case")},
        hidden_act=ACTIVATIONS[ours["hidden_act"]],
        attn_implementation="eager",  # the others return no attentions
    )
    model = transformers.BertForPreTraining(config).eval()
    state = {
        their_name(name.removeprefix("weights:")): torch.tensor(array.T if name.endswith("kernel") else array)
        for name, array in given.items()
        if name.startswith("weights:")
    }
    missing, unexpected = model.load_state_dict(state, strict=False)
    # The decoder shares the table and the bias; position_ids is a constant.
    left = [name for name in missing if "decoder" not in name and "position_ids" not in name]
    assert not left, left
    assert not unexpected, unexpected
    model.tie_weights()
    with torch.no_grad():
        outputs = model(
            input_ids=torch.tensor(given["input_ids"], dtype=torch.long),
            attention_mask=torch.tensor(given["input_mask"], dtype=torch.long),
            token_type_ids=torch.tensor(given["segment_ids"], dtype=torch.long),
            output_hidden_states=True,
            output_attentions=True,
        )
        positions = torch.tensor(given["masked_lm_positions"], dtype=torch.long)
        masked = torch.take_along_dim(outputs.prediction_logits, positions[:, :, None], dim=1)
        np.savez(
            output_path,
            hidden_states=torch.stack(outputs.hidden_states).numpy(),
            attentions=torch.stack(outputs.attentions).numpy(),
            pooled_output=model.bert.pooler(outputs.hidden_states[-1]).numpy(),
            masked_lm_logits=masked.numpy(),
            next_sentence_logits=outputs.seq_relationship_logits.numpy(),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
