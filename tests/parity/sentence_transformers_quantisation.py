"""Writes what sentence-transformers' quantize_embeddings makes of vectors, and the scores of its search, as .npz."""

import sys

import numpy as np


def main(source: str, target: str) -> None:
    from sentence_transformers.util.quantization import _dequantize_embeddings, quantize_embeddings

    given = np.load(source)
    vectors, queries, ranges = given["vectors"], given["queries"], given["ranges"]
    found = {precision: quantize_embeddings(vectors, precision) for precision in ("int8", "binary")}
    found["int8_ranges"] = quantize_embeddings(vectors, "int8", ranges=ranges)
    found["calibrated"] = quantize_embeddings(queries, "int8", calibration_embeddings=vectors)
    limits = np.stack([vectors.min(axis=0), vectors.max(axis=0)])
    restored = _dequantize_embeddings(found["int8"].astype(int), "int8", limits)
    scores = np.einsum("ij,kj->ik", queries, restored)  # as its searches rescore what they find
    np.savez(target, scores=scores, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
