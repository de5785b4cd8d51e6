"""Prints what sentence-transformers finds among vectors: pairs of paraphrases and communities, as JSON."""

import json

import numpy as np

MINED = slice(420, 520)  # few enough that no two of their pairs differ by less than is rounded
MINING = [{"top_k": 20}, {"top_k": 3}, {"top_k": 2, "max_pairs": 100}]
COMMUNITIES = [(0.75, 10), (0.6, 3), (0.9, 2), (0.75, 1)]


def vectors_in_groups():
    """Returns float32 `[600, 32]`: groups of very different sizes, and vectors of no group."""
    draw = np.random.default_rng(7)
    centres = draw.normal(size=(40, 32))
    groups = draw.choice(40, 500, p=np.arange(1, 41) / 820)
    near = centres[groups] + draw.normal(size=(500, 32)) * draw.uniform(0.2, 0.9, (500, 1))
    return np.concatenate([near, draw.normal(size=(100, 32))]).astype(np.float32)


def main() -> None:
    import torch
    from sentence_transformers.util import community_detection, paraphrase_mining_embeddings

    vectors = torch.tensor(vectors_in_groups())
    mined = [paraphrase_mining_embeddings(vectors[MINED], **options) for options in MINING]
    found = [community_detection(vectors, threshold, size) for threshold, size in COMMUNITIES]
    print(json.dumps({"mined": mined, "communities": found}, default=int))


if __name__ == "__main__":
    main()
