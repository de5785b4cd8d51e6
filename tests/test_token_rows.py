"""Token rows without padding, and the order of their batches."""

import numpy as np
import pytest

from keras_bert.program.errors import InputError
from keras_bert.records.token_rows import RowBatches, TokenRows

PADDED = {
    "input_ids": np.array([[2, 5, 3, 0], [2, 5, 6, 3], [2, 3, 0, 0], [2, 7, 3, 0]]),
    "input_mask": np.array([[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]]),
    "label_ids": np.array([[-1, 4, -1, -1], [-1, 4, -1, -1], [-1, -1, -1, -1], [-1, 0, -1, -1]]),
    "sentence_id": np.array([[0], [1], [2], [3]]),
}


def test_padding_is_removed_and_restored():
    rows = TokenRows.from_padded(PADDED, padding={"label_ids": -1})
    assert rows.tokens["input_ids"].tolist() == [2, 5, 3, 2, 5, 6, 3, 2, 3, 2, 7, 3]
    assert (len(rows), rows.lengths.tolist(), sorted(rows.tokens)) == (4, [3, 4, 2, 3], ["input_ids", "label_ids"])
    assert rows.batch(np.array([0, 2]))["label_ids"].tolist() == [[-1, 4, -1], [-1, -1, -1]]
    batch = rows.batch(np.array([1, 3, 0, 2]))
    for name in ("input_ids", "input_mask", "label_ids"):
        np.testing.assert_array_equal(batch[name], PADDED[name][[1, 3, 0, 2]])
    assert batch["input_ids"].shape == (4, 4)


def test_several_rows_can_be_one_example():
    rows = TokenRows.from_padded(PADDED, {"answers": np.array([1, 0])}, rows_per_example=2)
    assert (len(rows), rows.lengths.tolist()) == (2, [4, 3])
    batch = rows.batch(np.array([1]))
    assert batch["input_ids"].tolist() == [[[2, 3, 0], [2, 7, 3]]]
    assert batch["answers"].tolist() == [0]


def test_parts_are_concatenated():
    whole = TokenRows.from_padded(PADDED).with_labels(number=np.arange(4))
    parts = [
        TokenRows.from_padded({name: values[part] for name, values in PADDED.items()}).with_labels(
            number=np.arange(4)[part]
        )
        for part in (slice(0, 1), slice(1, 4))
    ]
    joined = TokenRows.concatenate(parts)
    np.testing.assert_array_equal(joined.splits, whole.splits)
    for name in whole.tokens:
        np.testing.assert_array_equal(joined.tokens[name], whole.tokens[name])
    np.testing.assert_array_equal(joined.labels["number"], np.arange(4))


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


def test_the_order_is_that_of_seed_and_epoch():
    rows = many_rows(50)
    first, again = (RowBatches(rows, 8, seed=3).order(1) for _ in range(2))
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
    for seed, epoch in ((3, 2), (4, 1)):
        other = RowBatches(rows, 8, seed=seed).order(epoch)
        assert not all(np.array_equal(one, two) for one, two in zip(first, other, strict=True))


def test_training_begins_at_any_step_and_goes_on_with_the_orders_of_the_epochs():
    batches = RowBatches(many_rows(50).with_labels(number=np.arange(50)), 8, seed=3)
    expected = [examples.tolist() for epoch in range(3) for examples in batches.order(epoch)]
    for step in (0, 3, 7, 16):
        found = [batch["number"].tolist() for batch in batches.from_step(step, 3)]
        assert found == expected[step:]


def test_without_a_seed_the_longest_come_first():
    rows = many_rows(50)
    lengths = rows.lengths[np.concatenate(RowBatches(rows, 8).order())]
    assert (np.diff(lengths) <= 0).all()


def test_a_batch_has_at_least_one_example():
    with pytest.raises(InputError, match="batch_size must be 1 or more. Received: 0"):
        RowBatches(many_rows(2), 0)
