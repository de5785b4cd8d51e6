"""Writes vectors and losses of sentence-transformers' `SparseEncoder`: those of `embedding_golden/sparse.json`.

    python sentence_transformers_sparse.py INPUT.json OUTPUT.json FOLDER ...

INPUT has `texts` and, for losses, `vectors` [B, C, V] and `cases`: name -> number of texts C, teacher's scores, and
arguments of `SpladeLoss`. OUTPUT has `vectors`, folder -> method -> [texts, V]; and `losses`, name -> loss and gradient
in float64.
"""

import json
import sys
from unittest import mock

import torch
from sentence_transformers import SparseEncoder
from sentence_transformers.sparse_encoder import losses

METHODS = ("encode", "encode_query", "encode_document")


def loss_of(vectors, texts: int, teacher, arguments: dict) -> dict:
    vectors = torch.tensor(vectors, dtype=torch.float64, requires_grad=True)
    columns = [vectors[:, number] for number in range(texts)]
    kind = losses.SparseMultipleNegativesRankingLoss if teacher is None else losses.SparseMarginMSELoss
    loss = losses.SpladeLoss(None, kind(None), **arguments)
    teacher = None if teacher is None else torch.tensor(teacher, dtype=torch.float64)
    with mock.patch("sentence_transformers.sparse_encoder.losses.splade.embed_columns", return_value=columns):
        total = sum(loss([], teacher).values())
    total.backward()
    return {"loss": total.item(), "gradient": vectors.grad.tolist()}


def main(source: str, output: str, *folders: str) -> None:
    with open(source, encoding="utf-8") as file:
        given = json.load(file)
    vectors = {}
    for folder in folders:
        model = SparseEncoder(folder, device="cpu")
        found = {name: getattr(model, name)(given["texts"], convert_to_sparse_tensor=False) for name in METHODS}
        vectors[folder] = {name: values.tolist() for name, values in found.items()}
    cases = given.get("cases", {}).items()
    found = {name: loss_of(given["vectors"], *case) for name, case in cases}
    with open(output, "w", encoding="utf-8") as file:
        json.dump({"vectors": vectors, "losses": found}, file)


main(*sys.argv[1:])
