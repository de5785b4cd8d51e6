"""Writes losses of sentence-transformers' sparse encoders: those of `embedding_golden/sparse.json`.

    python sentence_transformers_sparse.py INPUT.json OUTPUT.json

INPUT has `vectors` [B, C, V] and `cases`: name -> number of texts C, teacher's scores, and arguments of `SpladeLoss`.
OUTPUT has, for each name, the loss and its gradient in float64.
"""

import json
import sys
from unittest import mock

import torch
from sentence_transformers.sparse_encoder import losses


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


def main(source: str, output: str) -> None:
    with open(source, encoding="utf-8") as file:
        given = json.load(file)
    found = {name: loss_of(given["vectors"], *case) for name, case in given["cases"].items()}
    with open(output, "w", encoding="utf-8") as file:
        json.dump(found, file)


main(*sys.argv[1:])
