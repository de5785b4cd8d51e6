"""The answers of `SentenceEncoder` and `BertEncoder`: vectors, which are arrays."""

from collections.abc import Mapping

import numpy as np


def vectors_of_texts(arrays: Mapping[str, np.ndarray], inputs: Mapping) -> np.ndarray | None:
    """Returns the vectors in the outputs of a served encoder, float32 `[N, D]`; None for those of another task."""
    return np.asarray(arrays["embedding"], np.float32) if arrays.keys() == {"embedding"} else None
