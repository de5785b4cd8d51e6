"""Writes what sentence-transformers computes: a program for test_multi_vector_parity.py.

    python sentence_transformers_multi_vector.py TEXTS.json OUTPUT.npz FOLDER ...

TEXTS.json has lists of `queries`, `documents` and `others`, equally long, and `teacher`, the scores of both. For each
folder: the vectors of each text, the similarities, and the losses in float32.
"""

import json
import sys

import numpy as np
import torch
from sentence_transformers import MultiVectorEncoder
from sentence_transformers.multi_vector_encoder import losses

texts_file, output, *folders = sys.argv[1:]
with open(texts_file, encoding="utf-8") as file:
    texts = json.load(file)
found = {}
for folder in folders:
    model = MultiVectorEncoder(folder, device="cpu")
    queries = model.encode_query(texts["queries"], convert_to_numpy=True)
    documents = model.encode_document(texts["documents"] + texts["others"], convert_to_numpy=True)
    for role, vectors in (("query", queries), ("document", documents)):
        found |= {f"{folder} {role} {number}": one for number, one in enumerate(vectors)}
    found[f"{folder} similarity"] = model.similarity(queries, documents).numpy()
    model.eval()
    columns = [
        {**model.preprocess(texts[name], prompt=model.prompts.get(role), task=role), "task": role}
        for name, role in (("queries", "query"), ("documents", "document"), ("others", "document"))
    ]
    with torch.no_grad():
        for loss in ("MultipleNegativesRanking", "DistillKLDiv", "MarginMSE"):
            made = getattr(losses, f"MultiVector{loss}Loss")(model)
            found[f"{folder} {loss}"] = made([dict(one) for one in columns], torch.tensor(texts["teacher"])).numpy()
np.savez(output, **found)
