"""The answers of a served `MultiVectorEncoder`: the vectors of each text."""

from collections.abc import Mapping

import numpy as np


def served_answers(outputs: Mapping[str, np.ndarray], inputs: Mapping) -> list[np.ndarray] | None:
    """Returns the vectors of each text, float32 `[tokens, D]`; None for the outputs of another task."""
    if outputs.keys() != {"vectors", "mask"}:
        return None
    rows = zip(np.asarray(outputs["vectors"], np.float32), np.asarray(outputs["mask"]), strict=True)
    return [vectors[mask > 0] for vectors, mask in rows]
