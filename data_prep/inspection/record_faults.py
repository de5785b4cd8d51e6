"""Finds the records whose numbers cannot be right."""

from collections.abc import Iterator, Mapping

import numpy as np

from data_prep.inspection.bert_rows import BertRows
from data_prep.inspection.parsed_records import Column
from keras_bert.records import features
from keras_bert.records.values import find_wrong_types, find_wrong_values, value_ranges
from keras_bert.tokenization.tokenizer import TokenTable

# Pairs of lists that must have the same length.
_EQUALLY_LONG = [
    (features.INPUT_MASK, features.INPUT_IDS),
    (features.SEGMENT_IDS, features.INPUT_IDS),
    (features.MASKED_LM_IDS, features.MASKED_LM_POSITIONS),
    (features.MASKED_LM_WEIGHTS, features.MASKED_LM_POSITIONS),
]


def find_faults(
    columns: Mapping[str, Column], rows: BertRows | None, vocabulary: TokenTable | None
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields faults in a batch of B records: a description, and where it is, bool (B, ...).

    Args:
        columns: searched for numbers that training would refuse, at padding too.
        rows: `to_bert_rows` of the columns, searched for what contradicts the meaning of BERT's features.
        vocabulary: without it, ids beyond it and misplaced special tokens are not found.
    """
    arrays = {name: column.values for name, column in columns.items()}
    for name, description in find_wrong_types(arrays):
        yield description, np.ones(len(arrays[name]), bool)
    for name, other in _EQUALLY_LONG:
        if name in columns and other in columns:
            yield f"{name} has another length than {other}", columns[name].lengths != columns[other].lengths
    if rows is not None:
        num_columns, num_tokens = rows.input_ids.shape[1], None if vocabulary is None else len(vocabulary)
        for violated, is_wrong in find_wrong_values(arrays, value_ranges(num_columns, num_tokens, num_segments=2)):
            yield violated.finding, is_wrong
        yield from _find_row_faults(rows, vocabulary)


def _find_row_faults(rows: BertRows, vocabulary: TokenTable | None) -> Iterator[tuple[str, np.ndarray]]:
    is_real = rows.input_mask > 0
    yield "there is no token at all", ~is_real.any(axis=1)
    # Sequences are numbered upwards, and padding lies before or behind them.
    steps = np.diff(rows.input_mask, axis=1)
    has_begun = np.logical_or.accumulate(is_real, axis=1)[:, :-1]
    # A multiple-choice record has a padded row for each choice.
    if rows.positions.shape[1] or rows.next_labels.shape[1]:
        yield "input_mask has padding between tokens", (rows.input_mask[:, :-1] == 0) & is_real[:, 1:] & has_begun
    disorder = ((steps < 0) & is_real[:, 1:]) | ((steps > 1) & has_begun)
    yield "input_mask does not number its sequences 1, 2, 3, ...", disorder
    if vocabulary is not None:
        first = np.take_along_axis(rows.input_ids, is_real.argmax(axis=1)[:, None], axis=1)
        is_other = (first != vocabulary.cls_id) & is_real.any(axis=1)[:, None]
        yield f"the first token is not {vocabulary.special_tokens.cls}", is_other
    if rows.cls_positions is not None:
        is_start = is_real & (np.diff(rows.input_mask, axis=1, prepend=0) != 0)
        inside = np.clip(rows.cls_positions, 0, is_real.shape[1] - 1)
        is_right = (inside == rows.cls_positions) & np.take_along_axis(is_start, inside, axis=1)
        yield "cls_positions are not where sequences begin", (rows.next_weights > 0) & ~is_right
    if not rows.positions.shape[1]:
        return
    is_used = rows.weights != 0
    yield "nothing is to be predicted", ~is_used.any(axis=1)
    yield "masked_lm_weights has a 0 before a 1", ~is_used[:, :-1] & is_used[:, 1:]
    yield "masked_lm_weights are neither 0 nor 1", is_used & (rows.weights != 1)
    inside = np.clip(rows.positions, 0, is_real.shape[1] - 1)
    is_used &= inside == rows.positions
    yield "a predicted position is padding", is_used & ~np.take_along_axis(is_real, inside, axis=1)
    times = np.zeros(is_real.shape, np.int16)
    row, place = np.nonzero(is_used)
    np.add.at(times, (row, rows.positions[row, place]), 1)
    yield "a position is predicted twice", times > 1
    if vocabulary is not None:
        never = [vocabulary.pad_id, vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id]
        yield "a special token is to be predicted", is_used & np.isin(rows.labels, never)
        stray = (rows.input_ids == vocabulary.mask_id) & is_real & (times == 0)
        yield f"a {vocabulary.special_tokens.mask} is not to be predicted", stray
