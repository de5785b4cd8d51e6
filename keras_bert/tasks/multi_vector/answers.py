"""The answers of a served `MultiVectorEncoder`: the vectors of each text."""

from collections.abc import Mapping

import numpy as np


def vectors_of_texts(arrays: Mapping[str, np.ndarray], inputs: Mapping) -> list[np.ndarray] | None:
    """Returns the vectors of each text, float32 `[tokens, D]`; None for the outputs of another task."""
    if arrays.keys() != {"vectors", "mask"}:
        return None
    rows = zip(np.asarray(arrays["vectors"], np.float32), np.asarray(arrays["mask"]), strict=True)
    return [vectors[mask > 0] for vectors, mask in rows]
