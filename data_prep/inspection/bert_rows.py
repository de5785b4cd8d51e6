"""The features of BERT's records as arrays of matching shapes, whichever of them the records have."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from keras_bert.records import features

_DTYPES = {feature.name: feature.dtype for feature in features.pretraining_features(1, 1, 2)}


class BertRows(NamedTuple):
    """B rows of S columns, P predictions and K sequences. P or K is 0 where the records have none.

    `input_ids`, `input_mask`, `segment_ids` (B, S) int64; `positions`, `labels` (B, P) int64 and `weights` (B, P)
    float32; `next_labels` (B, K) int64 and `next_weights` (B, K) float32.
    """

    input_ids: np.ndarray
    input_mask: np.ndarray
    segment_ids: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    next_labels: np.ndarray
    next_weights: np.ndarray


def is_bert_feature(name: str, values: np.ndarray) -> bool:
    """Returns whether the name is one of BERT's records, and the values have its type."""
    return name in _DTYPES and values.dtype == _DTYPES[name]


def to_bert_rows(arrays: Mapping[str, np.ndarray]) -> BertRows | None:
    """Returns the rows, or None when the records have no token ids.

    Lists of the wrong type count as missing. Without a mask, an id other than 0 is a token. Without weights, a position
    other than 0 is predicted.

    Args:
        arrays: Google's name -> (B, length); any other feature too.
    """
    arrays = {name: values for name, values in arrays.items() if is_bert_feature(name, values)}
    ids = arrays.get(features.INPUT_IDS)
    if ids is None or not ids.shape[1]:
        return None

    def get(name: str, default: np.ndarray) -> np.ndarray:
        """Returns an array in the shape of the default."""
        values = arrays.get(name, default)[:, : default.shape[1]]
        return np.pad(values, [(0, 0), (0, default.shape[1] - values.shape[1])])

    none = np.zeros((len(ids), 0), np.int64)
    positions = arrays.get(features.MASKED_LM_POSITIONS, none) if features.MASKED_LM_IDS in arrays else none
    next_labels = arrays.get(features.NEXT_SENTENCE_LABELS, none)
    return BertRows(
        input_ids=ids,
        input_mask=get(features.INPUT_MASK, (ids != 0).astype(np.int64)),
        segment_ids=get(features.SEGMENT_IDS, np.zeros_like(ids)),
        positions=positions,
        labels=get(features.MASKED_LM_IDS, positions),
        weights=get(features.MASKED_LM_WEIGHTS, (positions > 0).astype(np.float32)),
        next_labels=next_labels,
        next_weights=get(features.NEXT_SENTENCE_WEIGHTS, np.ones(next_labels.shape, np.float32)),
    )
