"""Rows of several data sets: batches of one of them each, with the same features, in the order that was asked for."""

import numpy as np
import pytest

from keras_bert.records.datasets import rows_dataset
from keras_bert.records.mixed_rows import MixedRows
from keras_bert.records.token_rows import TokenRows


def rows_of(count, rows_per_example, **labels):
    ids = [[2, number % 7 + 5, 3][: 2 + number % 2] for number in range(count * rows_per_example)]
    rows = TokenRows.of(ids).with_labels(**labels)
    return TokenRows(rows.tokens, rows.splits, rows.labels, rows_per_example)


FIRST = rows_of(10, 1, label_ids=np.arange(10, dtype=np.int32))
SECOND = rows_of(
    4, 3, text_numbers=np.arange(12, dtype=np.int32).reshape(4, 3), example_weights=np.full(4, 2.0, np.float32)
)


def numbers_of(rows, seed, epoch=0, batch_size=2):
    order = rows.batches(batch_size, seed).order(epoch)
    return [np.unique(np.searchsorted(rows.firsts, examples, side="right") - 1).tolist() for examples in order], order


@pytest.mark.parametrize("in_turns", [False, True])
def test_a_batch_is_of_one_data_set_and_all_are_shuffled(in_turns):
    rows = MixedRows((FIRST, SECOND), in_turns)
    numbers, order = numbers_of(rows, seed=1)
    assert len(numbers) == len(rows.batches(2, 1)) == (4 if in_turns else 7)
    if in_turns:
        assert numbers == [[0], [1], [0], [1]]
    else:
        assert sorted(numbers) == [[0]] * 5 + [[1]] * 2 != numbers
        assert sorted(np.concatenate(order)) == list(range(14))
    assert [one.tolist() for one in numbers_of(rows, seed=1, epoch=1)[1]] != [one.tolist() for one in order]
    assert [one.tolist() for one in numbers_of(rows, seed=1)[1]] == [one.tolist() for one in order]


def test_without_a_seed_all_examples_come_in_order():
    numbers, order = numbers_of(MixedRows((FIRST, SECOND), in_turns=True), seed=None)
    assert numbers == [[0]] * 5 + [[1]] * 2
    assert sorted(np.concatenate(order)) == list(range(14))


def test_batches_have_the_features_of_all_data_sets():
    rows = MixedRows((FIRST, SECOND))
    first, second = rows.batch(np.array([3, 4])), rows.batch(np.array([10, 13]))
    assert set(first) == set(second)
    assert {name: (values.ndim, values.dtype) for name, values in first.items()} == {
        name: (values.ndim, values.dtype) for name, values in second.items()
    }
    np.testing.assert_array_equal(first["label_ids"], [[0, 3], [0, 4]])
    np.testing.assert_array_equal(second["label_ids"], [[1], [1]])
    np.testing.assert_array_equal(first["example_weights"], [1, 1])
    np.testing.assert_array_equal(second["example_weights"], [2, 2])
    np.testing.assert_array_equal(second["text_numbers"], [[0, 1, 2], [9, 10, 11]])
    np.testing.assert_array_equal(second["input_ids"], SECOND.batch(np.array([0, 3]))["input_ids"])


def test_a_data_set_of_tensorflow_has_all_batches():
    rows = MixedRows((FIRST, SECOND), in_turns=True)
    shapes = [batch["input_ids"].shape[1] for batch in rows_dataset(rows, 2, shuffle=True)]
    assert shapes == [1, 3, 1, 3]


def test_only_one_data_set_has_a_known_number_of_texts():
    # Losses over the texts of an example need it in the graph.
    assert rows_dataset(SECOND, 2).element_spec["input_ids"].shape.as_list() == [None, 3, None]
    mixed = rows_dataset(MixedRows((FIRST, SECOND)), 2).element_spec
    assert [mixed[name].shape.as_list() for name in ("input_ids", "label_ids")] == [[None, None, None], [None, None]]
