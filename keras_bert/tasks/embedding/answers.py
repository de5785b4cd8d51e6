"""The answers of `SentenceEncoder` and `BertEncoder`: vectors, which are arrays."""

from collections.abc import Mapping

import numpy as np


def served_answers(outputs: Mapping[str, np.ndarray], inputs: Mapping) -> np.ndarray | None:
    """Returns the vectors in the outputs of a served encoder, float32 `[N, D]`; None for those of another task."""
    return np.asarray(outputs["embedding"], np.float32) if outputs.keys() == {"embedding"} else None
