"""Runs a Hugging Face folder with transformers and torch for `verification`, in a process of its own:

    python -m keras_bert.checkpoints.transformers_outputs FOLDER CLASS TEXTS.json FEATURES.npz OUTPUTS.npz

It imports neither TensorFlow nor Keras: beside torch, some versions crash with an LLVM error.
"""

import json
import sys

import numpy as np


def main() -> None:
    folder, class_name, texts, features, outputs = sys.argv[1:]
    import torch
    import transformers

    transformers.logging.set_verbosity_error()  # a bare encoder reports the folder's head as unused
    model = getattr(transformers, class_name).from_pretrained(folder).eval()
    with np.load(features) as batch, torch.no_grad():
        found = model(**{name: torch.tensor(values, dtype=torch.long) for name, values in batch.items()})
    arrays = {"sequence_output": found.last_hidden_state, "pooled_output": found.get("pooler_output")}
    np.savez(outputs, **{name: tensor.numpy() for name, tensor in arrays.items() if tensor is not None})
    with open(texts, encoding="utf-8") as file:
        wanted = json.load(file)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        ids = [tokenizer(text)["input_ids"] for text in wanted]
    except (OSError, ValueError):
        ids = None  # the folder has no tokenizer
    print(json.dumps({"version": transformers.__version__, "ids": ids}))


if __name__ == "__main__":
    main()
