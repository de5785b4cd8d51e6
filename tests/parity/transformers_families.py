"""Writes a small random model of transformers and its outputs. It needs torch and transformers, not keras_bert.

    python transformers_families.py CLASS CONFIG_JSON FOLDER

FOLDER gets the model's files and `outputs.npz`: the inputs, `hidden_states` [L + 1, B, S, H], `logits` of a head, or
`start_logits` and `end_logits`. Everything is float64 inside; the weights are stored as float32.
"""

import json
import sys

import numpy as np
import torch
import transformers


def main(class_name, config_json, folder):
    torch.manual_seed(0)
    model_class = getattr(transformers, class_name)
    model = model_class(model_class.config_class(**json.loads(config_json))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    model.save_pretrained(folder)
    config = model.config
    generator = np.random.default_rng(0)
    mask = np.arange(9) < np.array([[9], [6], [4]])
    ids = np.where(mask, generator.integers(3, config.vocab_size, mask.shape), config.pad_token_id)
    segments = generator.integers(0, 2, mask.shape) * (getattr(config, "type_vocab_size", 0) > 1)
    inputs = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask.astype("int64"))}
    if getattr(config, "type_vocab_size", 0):
        inputs["token_type_ids"] = torch.tensor(segments)
    if class_name.endswith("MultipleChoice"):
        inputs = {name: values[None] for name, values in inputs.items()}
    outputs = {}
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        with torch.no_grad():
            found = model.to(dtype)(**inputs, output_hidden_states=True)
        outputs[f"{name}:hidden_states"] = torch.stack(found.hidden_states).numpy()
        for head in ("logits", "start_logits", "end_logits"):
            if getattr(found, head, None) is not None:
                outputs[f"{name}:{head}"] = getattr(found, head).numpy()
    np.savez(f"{folder}/outputs.npz", input_ids=ids, input_mask=mask, segment_ids=segments, **outputs)


if __name__ == "__main__":
    main(*sys.argv[1:])
