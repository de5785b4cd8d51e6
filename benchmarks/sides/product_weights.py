"""The matrices of one layer for the sides that do nothing but multiply. Needs NumPy only."""

import json
import os

import numpy as np


def read_config(folder: str) -> dict:
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        return json.load(file)


def product_weights(config: dict) -> dict[str, np.ndarray]:
    """Returns float32 `[H, H]` query, key, value, output, `[H, I]` up and `[I, H]` down; products keep the scale."""
    generator = np.random.default_rng(1)
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    shapes = dict.fromkeys(("query", "key", "value", "output"), (hidden, hidden))
    shapes |= {"up": (hidden, inner), "down": (inner, hidden)}
    return {
        name: (generator.standard_normal(shape) * shape[0] ** -0.5).astype("float32") for name, shape in shapes.items()
    }


def token_vectors(num_tokens: int, hidden_size: int) -> np.ndarray:
    """Returns float32 `[num_tokens, hidden_size]`."""
    return np.random.default_rng(2).standard_normal((num_tokens, hidden_size)).astype("float32")
