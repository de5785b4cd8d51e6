"""Records `tests/family_golden/examples.json` from transformers, for the tests that run without torch.

    python tests/parity/record_families.py tests/family_golden/examples.json

It was made with transformers 5.23 and torch 2.13. The file has, for each family and head of `EXAMPLES`, the shapes of
the tensors that transformers writes, and the outputs in float64 for padding behind and in front: their shape, the sum
of their squares, their first twelve values and the last six of the first row, all where the mask is 1.
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors import safe_open
from safetensors.numpy import save_file

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from family_folders import WITH_SEGMENTS, config_values, inputs, weights_of

EXAMPLES = {
    "xlm-roberta": ("base", "qa", "mlm"),
    "camembert": ("base",),
    "mpnet": ("base", "token", "qa"),
    "deberta-v3": ("base", "token", "mlm"),
    "deberta-v2": ("base", "qa"),
    "deberta-v2-c2p": ("base",),
    "deberta-v2-p2c": ("base",),
    "deberta-v2-conv": ("base",),
    "nomic_bert": ("base", "token"),
    "eurobert": ("base", "token"),
    "gte": ("base", "token"),
    "jina_embeddings_v3": ("base", "qa"),
    "gemma3_text": ("base",),
    "mmbert": ("base",),
}


def main(path):
    """Writes the file; entries of tokenizers, which are in it already, stay."""
    recorded = json.loads(pathlib.Path(path).read_text("utf-8"))
    for family, heads in EXAMPLES.items():
        for head in heads:
            recorded[f"{family}/{head}"] = record(family, head)
            print(family, head, file=sys.stderr)
    lines = (f"{json.dumps(name)}: {json.dumps(values, separators=(',', ':'))}" for name, values in recorded.items())
    pathlib.Path(path).write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def record(family, head):
    values = config_values(family, head)
    model_class = getattr(transformers, values["architectures"][0])
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(values))
        model_class(transformers.AutoConfig.from_pretrained(folder)).save_pretrained(folder)
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(values))
        file = pathlib.Path(folder) / "model.safetensors"
        with safe_open(file, "np") as tensors:
            shapes = {name: list(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
        save_file({name: weights_of(name, shape) for name, shape in shapes.items()}, file, metadata={"format": "pt"})
        model = model_class.from_pretrained(folder).eval().double()
    outputs = {"outputs": outputs_of(model, family, False), "outputs_left": outputs_of(model, family, True)}
    return {"shapes": shapes, **outputs}


def outputs_of(model, family, is_left):
    ids, mask, segments = (torch.tensor(array.astype("int64")) for array in inputs(family, is_left))
    features = {"input_ids": ids, "attention_mask": mask}
    if family in WITH_SEGMENTS:
        features["token_type_ids"] = segments
    with torch.no_grad():
        found = model(**features)
    names = ("last_hidden_state", "pooler_output", "logits", "start_logits", "end_logits")
    return {name: described(found[name].numpy(), mask.numpy()) for name in names if found.get(name) is not None}


def described(values, mask):
    if values.shape[:2] == mask.shape:
        values = np.where(mask.reshape(*mask.shape, *[1] * (values.ndim - 2)), values, 0)  # NaN where all is masked
    rounded = [[round(float(value), 9) for value in part] for part in (values.ravel()[:12], values[0].ravel()[-6:])]
    squares = float((np.asarray(values, "float64") ** 2).sum())
    return {"shape": list(values.shape), "sumsq": squares, "first": rounded[0], "last": rounded[1]}


if __name__ == "__main__":
    main(sys.argv[1])
