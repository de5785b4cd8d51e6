"""Makes, reads and runs checkpoints with transformers. It needs torch and transformers, not keras_bert.

    python transformers_checkpoints.py JOBS.json

JOBS.json is a list of objects. Each has `class`, the name of a class of transformers; `folder`; `features`, an NPZ of
`input_ids`, `input_mask` and `segment_ids`; and `outputs`, an NPZ to write. With `config` the model is made with random
weights and saved in `folder`. Without `config` the model is read from `folder`. With `texts`, `outputs` also gets their
token ids. `missing` and `unexpected` list the weights that `from_pretrained` missed or did not expect.
"""

import json
import os
import sys

import numpy as np
import torch
import transformers


def randomised(model):
    """Sets all weights, including LayerNorms and biases, to numbers that would reveal a mix-up."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.empty_like(parameter).normal_(generator=generator) * 0.1
            parameter.copy_(1 + noise if "LayerNorm.weight" in name else noise)
    return model


def run(job):
    model_class = getattr(transformers, job["class"])
    found = {}
    if "config" in job:
        torch.manual_seed(0)
        arguments = {"add_pooling_layer": False} if job.get("no_pooler") else {}
        model = randomised(model_class(transformers.BertConfig(**job["config"]), **arguments))
        model.save_pretrained(job["folder"])

        if job.get("as_bin"):
            os.remove(f"{job['folder']}/model.safetensors")
            is_zip = job["as_bin"] == "zip"
            path = f"{job['folder']}/pytorch_model.bin"
            torch.save(model.state_dict(), path, _use_new_zipfile_serialization=is_zip)
    else:
        model, info = model_class.from_pretrained(job["folder"], output_loading_info=True)
        found = {"missing": sorted(info["missing_keys"]), "unexpected": sorted(info["unexpected_keys"])}

    if "texts" in job:
        tokenizer = transformers.AutoTokenizer.from_pretrained(job["folder"])
        found["ids"] = [json.dumps(tokenizer(text)["input_ids"]) for text in job["texts"]]
    features = dict(np.load(job["features"]))
    inputs = {
        "input_ids": torch.tensor(features["input_ids"], dtype=torch.long),
        "attention_mask": torch.tensor(features["input_mask"], dtype=torch.long),
        "token_type_ids": torch.tensor(features["segment_ids"], dtype=torch.long),
    }

    with torch.no_grad():
        outputs = model.eval()(**inputs)
    arrays = {name: value.numpy() for name, value in outputs.items() if isinstance(value, torch.Tensor)}
    np.savez(job["outputs"], **arrays, **{name: np.array(names, dtype=str) for name, names in found.items()})


def main(path):
    with open(path) as file:
        jobs = json.load(file)
    for job in jobs:
        run(job)


if __name__ == "__main__":
    main(*sys.argv[1:])
