"""Writes the vectors of sentence-transformers: a program for test_sentence_transformers_parity.py.

    python sentence_transformers_vectors.py TEXTS.json OUTPUT.npz FOLDER ...

Each folder gets an array, and one with the prompt "query" if it has that prompt.
"""

import json
import sys

import numpy as np
from sentence_transformers import SentenceTransformer

texts_file, output, *folders = sys.argv[1:]
with open(texts_file, encoding="utf-8") as file:
    texts = json.load(file)
found = {}
for folder in folders:
    model = SentenceTransformer(folder, device="cpu")
    found[folder] = model.encode(texts)
    if (model.prompts or {}).get("query"):
        found[f"{folder} query"] = model.encode(texts, prompt_name="query")
np.savez(output, **found)
