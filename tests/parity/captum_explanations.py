"""Writes small random models of transformers and captum's explanations. It needs torch, transformers and captum.

    python captum_explanations.py JOBS_JSON

JOBS_JSON has a list of `[class name, config, folder, options]`. A folder gets the model's files and `explanations.npz`.
Options: `rows`, lists of ids without padding; `segments` of the same lengths, or None; `baselines`; and `outputs`, for
each row the outputs that are added up: a label, a pair (column, label), or the columns (start, end).
"""

import json
import sys

import numpy as np
import torch
import transformers
from captum.attr import LayerIntegratedGradients


def main(jobs_file):
    with open(jobs_file, encoding="utf-8") as file:
        jobs = json.load(file)
    for class_name, config, folder, options in jobs:
        write_explanations(class_name, config, folder, **options)


def write_explanations(class_name, config, folder, rows, segments, baselines, outputs):
    torch.manual_seed(0)
    model_class = getattr(transformers, class_name)
    model = model_class(model_class.config_class(**config)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.set_attn_implementation("eager")
    model.save_pretrained(folder)

    def forward(ids, segments, output):
        found = model(input_ids=ids, attention_mask=torch.ones_like(ids), token_type_ids=segments)
        if "start_logits" in found:
            return found.start_logits[:, output[0]] + found.end_logits[:, output[1]]
        return found.logits[:, *output]

    result = {}
    captum = LayerIntegratedGradients(forward, model.base_model.embeddings.word_embeddings)
    for number, (row, baseline, output) in enumerate(zip(rows, baselines, outputs, strict=True)):
        ids, baseline = torch.tensor([row]), torch.tensor([baseline])
        segment_ids = torch.zeros_like(ids) if segments is None else torch.tensor([segments[number]])
        for method, steps in (("gausslegendre", 50), ("riemann_trapezoid", 20)):
            found, delta = captum.attribute(
                ids,
                baselines=baseline,
                additional_forward_args=(segment_ids, output),
                n_steps=steps,
                method=method,
                return_convergence_delta=True,
            )
            result[f"{number}:{method}"] = found.sum(-1)[0].detach().numpy()
            result[f"{number}:{method}:error"] = delta.detach().numpy()
        with torch.no_grad():
            found = model(input_ids=ids, token_type_ids=segment_ids, output_attentions=True)
        result[f"{number}:attentions"] = torch.stack(found.attentions)[:, 0].numpy()
    np.savez(f"{folder}/explanations.npz", **result)


if __name__ == "__main__":
    main(*sys.argv[1:])
