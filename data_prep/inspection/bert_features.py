"""What BERT's records mean, whatever tool wrote them: Google's names and forms put on parsed features.

Known are the names of this project, google-research/bert, NVIDIA, TF Model Garden, KerasHub's example and Hugging Face.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from data_prep.inspection.parsed_records import Column
from keras_bert.records import features

# The name in the record -> ours.
OTHER_NAMES = {
    **features.GARDEN_NAMES,
    # KerasHub's pre-training example
    "token_ids": features.INPUT_IDS,
    "padding_mask": features.INPUT_MASK,
    "mask_positions": features.MASKED_LM_POSITIONS,
    "mask_ids": features.MASKED_LM_IDS,
    "mask_weights": features.MASKED_LM_WEIGHTS,
    # Hugging Face
    "attention_mask": features.INPUT_MASK,
    "token_type_ids": features.SEGMENT_IDS,
    "next_sentence_label": features.NEXT_SENTENCE_LABELS,
}
_FLOATS = {features.MASKED_LM_WEIGHTS, features.NEXT_SENTENCE_WEIGHTS}
_BERT_NAMES = {feature.name for feature in features.pretraining_features(1, 1, 2)}


@dataclasses.dataclass(frozen=True)
class BertRows:
    """The features of BERT's records under Google's names: B rows of S columns, P predictions, K sequences.

    `input_ids` and `input_mask` (B, S) int64; `segment_ids` alike. `positions`, `labels` (B, P) int64 and `weights`
    (B, P) float32. `next_labels` (B, K) int64, `next_weights` float32 and `cls_positions` int64 alike. What the records
    lack is None.
    """

    input_ids: np.ndarray
    input_mask: np.ndarray
    segment_ids: np.ndarray | None
    positions: np.ndarray | None
    labels: np.ndarray | None
    weights: np.ndarray | None
    next_labels: np.ndarray | None
    next_weights: np.ndarray | None
    cls_positions: np.ndarray | None


def bert_columns(columns: Mapping[str, Column]) -> tuple[dict[str, Column], dict[str, Column]]:
    """Parts the columns that BERT's records have, under Google's names, from all others."""
    ours, others = {}, {}
    for name, column in columns.items():
        known = OTHER_NAMES.get(name, name)
        # Google's own name comes first, should a record have both. Strings are never what the names say.
        if known in _BERT_NAMES and column.values.dtype != object and (known == name or known not in columns):
            ours[known] = column
        else:
            others[name] = column
    return ours, others


def to_bert_rows(columns: Mapping[str, Column]) -> BertRows | None:
    """Returns the rows in Google's form, or None when the records have no token ids.

    Without a mask, an id other than 0 is a token. Without weights, a position other than 0 is predicted.
    """
    ours, _ = bert_columns(columns)
    if features.INPUT_IDS not in ours or not ours[features.INPUT_IDS].values.shape[1]:
        return None

    def get(name: str, like: np.ndarray) -> np.ndarray | None:
        if name not in ours:
            return None
        values = ours[name].values.astype(np.float32) if name in _FLOATS else _integers(ours[name])
        missing = like.shape[1] - values.shape[1]
        return values[:, : like.shape[1]] if missing <= 0 else np.pad(values, [(0, 0), (0, missing)])

    ids = _integers(ours[features.INPUT_IDS])
    mask = get(features.INPUT_MASK, ids)
    positions = labels = weights = None
    if features.MASKED_LM_POSITIONS in ours and features.MASKED_LM_IDS in ours:
        positions = _integers(ours[features.MASKED_LM_POSITIONS])
        labels = get(features.MASKED_LM_IDS, positions)
        weights = get(features.MASKED_LM_WEIGHTS, positions)
        weights = (positions > 0).astype(np.float32) if weights is None else weights
    next_labels = ours.get(features.NEXT_SENTENCE_LABELS)
    next_labels = next_labels and _integers(next_labels)
    next_weights = cls_positions = None
    if next_labels is not None:
        cls_positions = get(features.CLS_POSITIONS, next_labels)
        next_weights = get(features.NEXT_SENTENCE_WEIGHTS, next_labels)
        next_weights = np.ones(next_labels.shape, np.float32) if next_weights is None else next_weights
    return BertRows(
        input_ids=ids,
        input_mask=(ids != 0).astype(np.int64) if mask is None else mask,
        segment_ids=get(features.SEGMENT_IDS, ids),
        positions=positions,
        labels=labels,
        weights=weights,
        next_labels=next_labels,
        next_weights=next_weights,
        cls_positions=cls_positions,
    )


def _integers(column: Column) -> np.ndarray:
    """The numbers as int64; some tools write masks as floats."""
    values = column.values
    if values.dtype == np.float32:
        values = np.nan_to_num(values).clip(-(2.0**53), 2.0**53)
    return values.astype(np.int64)
