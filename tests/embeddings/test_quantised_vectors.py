"""Vectors in fewer bits: codes as sentence-transformers 6.2 makes them."""

import numpy as np
import pytest

from keras_bert.embeddings import quantised_vectors
from keras_bert.embeddings.quantised_vectors import int8_ranges, quantise
from keras_bert.program.errors import InputError


def test_codes_are_steps_of_the_ranges_and_signs(monkeypatch):
    monkeypatch.setattr(quantised_vectors, "_ROWS_AT_ONCE", 1)
    vectors = np.array([[0, -1, 3], [255, 50, 3]], "float32")
    ranges = int8_ranges(vectors)
    assert ranges.tolist() == vectors.tolist()
    assert quantise(vectors, "int8").tolist() == [[-128, -128, -128], [127, 127, -128]]
    outside = np.array([[-9, 24.5, 9]], "float32")
    assert quantise(outside, "int8", ranges).tolist() == [[-128, -1, -122]]
    assert quantise(np.array([[-1, 0, 2, 0, 0, 0, 0, 0, 5]], "float32"), "binary").tolist() == [[32 - 128, 0]]


def test_what_has_no_ranges_or_no_precision_is_refused():
    for precision, message in (("int8", "need two vectors or more"), ("float32", "one of int8, binary")):
        with pytest.raises(InputError, match=message):
            quantise(np.zeros((1, 8), "float32"), precision)
