"""Records `tests/family_golden/modernbert.npz` from transformers, for the tests that run without torch.

    python tests/parity/record_modernbert.py tests/family_golden/modernbert.npz

For each of three configs the file has, under `<number>/`, the config, all weights under their names in transformers,
`hidden_states` and the logits of each head. Rows have 12, 7 and 3 tokens; the windows reach over 2, 1 and 6 tokens.
"""

import json
import sys

import numpy as np
import torch
import transformers

SHAPE = {"vocab_size": 31, "hidden_size": 8, "num_hidden_layers": 5, "num_attention_heads": 2, "intermediate_size": 12}
SHAPE |= {"max_position_embeddings": 16, "pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2, "num_labels": 2}
SHAPE |= {"bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.3}
BIASES = {"attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_bias": True}
CONFIGS = (
    {"local_attention": 4},
    {"local_attention": 2, "classifier_pooling": "mean", "global_attn_every_n_layers": 2, "local_rope_theta": 500.0},
    {"local_attention": 12, "classifier_activation": "relu", **BIASES},
)
HEADS = (
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)


def main(path):
    mask = np.arange(12) < np.array([[12], [7], [3]])
    ids = np.random.default_rng(0).integers(3, SHAPE["vocab_size"], mask.shape) * mask
    recorded = {"input_ids": ids.astype("int32"), "input_mask": mask.astype("int32")}
    for number, changes in enumerate(CONFIGS):
        torch.manual_seed(number)
        config = {**SHAPE, **changes}
        weights = {}
        for head in HEADS:
            for name, values in run(head, config, ids, mask, weights).items():
                recorded[f"{number}/{name}"] = values
        recorded[f"{number}/config"] = json.dumps({**config, "model_type": "modernbert"})
        recorded |= {f"{number}/weights/{name}": values.numpy() for name, values in weights.items()}
    np.savez_compressed(path, **recorded)


def run(head, config, ids, mask, weights):
    """Returns the outputs of one model. `weights` has those of the models before, and gets new ones."""
    model_class = getattr(transformers, f"ModernBert{head}")
    model = model_class._from_config(transformers.ModernBertConfig(**config), attn_implementation="eager").eval()
    is_choice = head == "ForMultipleChoice"
    inputs = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask.astype("int64"))}
    if is_choice:
        inputs = {name: values[None] for name, values in inputs.items()}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            key = f"choice.{name}" if is_choice and name.startswith("classifier") else name  # it has one output
            parameter.copy_(weights.setdefault(key, parameter.detach() + 0.1 * torch.randn_like(parameter)))
        found = model(**inputs, output_hidden_states=True)
    outputs = {f"{head}/{key}": values.numpy() for key, values in found.items() if key.endswith("logits")}
    if head == "ForMaskedLM":
        outputs["hidden_states"] = torch.stack(found.hidden_states).numpy()
    return outputs


if __name__ == "__main__":
    main(*sys.argv[1:])
