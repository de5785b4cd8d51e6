"""Writes small random models of transformers and their outputs. It needs torch and transformers, not keras_bert.

    python transformers_families.py JOBS_JSON

JOBS_JSON has a list of `[class name, config, folder]`. A folder gets the model's files and `outputs.npz`: the inputs,
and for both dtypes `hidden_states` [L + 1, B, S, H] and the logits under transformers' names. The weights are stored as
float32.
"""

import json
import sys

import numpy as np
import torch
import transformers


def main(jobs_file):
    with open(jobs_file, encoding="utf-8") as file:
        jobs = json.load(file)
    for class_name, config, folder in jobs:
        write_model(class_name, config, folder)


def write_model(class_name, config, folder):
    torch.manual_seed(0)
    model_class = getattr(transformers, class_name)
    model = model_class(model_class.config_class(**config)).eval()
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
    # In float64, eager attention gives NaN for padding outside of every window of ModernBERT.
    for name, dtype, attention in (("float32", torch.float32, "eager"), ("float64", torch.float64, "sdpa")):
        model.set_attn_implementation(attention)
        with torch.no_grad():
            found = model.to(dtype)(**inputs, output_hidden_states=True)
        outputs[f"{name}:hidden_states"] = torch.stack(found.hidden_states).numpy()
        for key, values in found.items():
            if key.endswith("logits"):
                outputs[f"{name}:{key}"] = values.numpy()
    np.savez(f"{folder}/outputs.npz", input_ids=ids, input_mask=mask, segment_ids=segments, **outputs)


if __name__ == "__main__":
    main(*sys.argv[1:])
