"""Token rows without padding, and the order of their batches."""

import dataclasses

import numpy as np
import pytest

from keras_bert.program.errors import InputError
from keras_bert.records.token_rows import MaskedRows, RowBatches, TokenRows

IDS = [[2, 5, 3], [2, 5, 6, 3], [2, 3], [2, 7, 3]]
LABELS = np.array([-1, 4, -1, -1, 4, -1, -1, -1, -1, -1, 0, -1], np.int32)


def tagged_rows():
    rows = TokenRows.of(IDS)
    tokens, padding = {**rows.tokens, "label_ids": LABELS}, {**rows.padding, "label_ids": -1}
    return dataclasses.replace(rows, tokens=tokens, padding=padding)


def test_rows_are_stored_without_padding_and_get_it_in_a_batch():
    rows = tagged_rows()
    assert rows.tokens["input_ids"].tolist() == [2, 5, 3, 2, 5, 6, 3, 2, 3, 2, 7, 3]
    assert (len(rows), rows.lengths.tolist()) == (4, [3, 4, 2, 3])
    batch = rows.batch(np.array([2, 0]))
    assert batch["input_ids"].tolist() == [[2, 3, 0], [2, 5, 3]]
    assert batch["input_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch["label_ids"].tolist() == [[-1, -1, -1], [-1, 4, -1]]
    assert batch["segment_ids"].tolist() == [[0] * 3] * 2
    assert {values.dtype for values in batch.values()} == {np.dtype("int32")}


def test_all_rows_can_be_padded_to_a_width():
    rows = TokenRows.of(IDS[2:], pad_id=9, segment_ids=[[0, 1], [0, 0, 1]])
    assert rows.padded(5)["input_ids"].tolist() == [[2, 3, 9, 9, 9], [2, 7, 3, 9, 9]]
    assert rows.padded(3)["segment_ids"].tolist() == [[0, 1, 0], [0, 0, 1]]
    assert rows.padded(5)["input_mask"].tolist() == [[1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]


def test_several_rows_can_be_one_example():
    rows = dataclasses.replace(TokenRows.of(IDS), rows_per_example=2).with_labels(answers=np.array([1, 0]))
    assert (len(rows), rows.lengths.tolist()) == (2, [4, 3])
    batch = rows.batch(np.array([1]))
    assert batch["input_ids"].tolist() == [[[2, 3, 0], [2, 7, 3]]]
    assert batch["answers"].tolist() == [0]


def test_columns_to_predict_are_filled_up_in_each_batch():
    rows = MaskedRows.of(IDS, [np.array([1]), np.array([2, 1]), np.array([1]), np.array([1])])
    assert rows.batch(np.array([0, 1]))["masked_lm_positions"].tolist() == [[1, 0], [2, 1]]
    assert rows.batch(np.array([2, 3]))["masked_lm_positions"].tolist() == [[1], [1]]


def many_rows(number=500):
    lengths = np.random.default_rng(0).integers(1, 100, size=number)
    splits = np.concatenate([[0], np.cumsum(lengths)])
    return TokenRows({"input_ids": np.ones(splits[-1], np.int32)}, splits)


def test_an_epoch_has_every_example_once_and_little_padding():
    rows = many_rows()
    batches = RowBatches(rows, 8, seed=3)
    order = batches.order(0)
    assert len(order) == len(batches) == 63
    assert sorted(np.concatenate(order)) == list(range(500))
    padded = sum(rows.batch(examples)["input_mask"].size for examples in order)
    assert padded < 1.08 * rows.splits[-1]
    assert sorted(map(len, order))[:2] == [4, 8]


def test_a_batch_has_at_least_one_example():
    with pytest.raises(InputError, match="batch_size must be a whole number of at least 1. Received: 0"):
        RowBatches(many_rows(2), 0)
