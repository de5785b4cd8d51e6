"""The loop that encodes the examples of every task in parts."""

import numpy as np
import pytest

from keras_bert.records import features
from keras_bert.tasks.encoding import encode_in_parts, parts_of


def test_parts_cover_all_examples_in_their_order():
    assert list(parts_of(5, rows_at_once=2)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(parts_of(0)) == []


@pytest.mark.parametrize(("rows_per_example", "at_once"), [(2, 3), (3, 2), (6, 1), (100, 1)])
def test_examples_of_several_rows_make_smaller_parts(rows_per_example, at_once):
    parts = list(parts_of(7, rows_per_example, rows_at_once=6))
    assert parts[0] == slice(0, at_once)
    assert [number for part in parts for number in range(7)[part]] == list(range(7))


def test_parts_are_put_together_without_their_padding(monkeypatch):
    ids = np.arange(1, 13, dtype=np.int32).reshape(6, 2)
    mask = np.array([[1, 1], [1, 0], [1, 1], [1, 0], [1, 0], [1, 1]], np.int32)
    asked = []

    def encode(part):
        asked.append(part)
        rows = slice(2 * part.start, 2 * part.stop)
        return {features.INPUT_IDS: ids[rows], features.INPUT_MASK: mask[rows]}, part.start

    monkeypatch.setattr("keras_bert.tasks.encoding.parts_of", lambda *_: [slice(0, 2), slice(2, 3)])
    rows, starts = encode_in_parts(encode, 3, {features.INPUT_IDS: 9}, rows_per_example=2)

    assert asked == [slice(0, 2), slice(2, 3)]
    assert starts == [0, 2]
    assert len(rows) == 3
    assert rows.tokens[features.INPUT_IDS].tolist() == [1, 2, 3, 5, 6, 7, 9, 11, 12]
    assert rows.splits.tolist() == [0, 2, 3, 5, 6, 7, 9]
    assert rows.padding == {features.INPUT_IDS: 9}
