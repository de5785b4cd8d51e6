"""Which lengths of rows may use Keras' fused attention, which has no gradient for odd ones."""

import types

import numpy as np
import pytest
from keras import ops

from keras_bert.accelerate import backend


@pytest.mark.parametrize(("queries", "keys"), [(4, 6), (3, 4), (4, 3), (9, 9)])
def test_only_rows_of_even_lengths_may_use_the_kernel(queries, keys, monkeypatch):
    draw, asked = np.random.default_rng(0), []

    def record(*arguments, flash_attention, **options):
        asked.append(flash_attention)
        return ops.dot_product_attention(*arguments, flash_attention=flash_attention, **options)

    own = {name: getattr(ops, name) for name in ("transpose", "broadcast_to", "shape")}
    monkeypatch.setattr(backend, "ops", types.SimpleNamespace(**own, dot_product_attention=record))
    query, key = (draw.normal(size=(2, 3, length, 8)).astype("float32") for length in (queries, keys))
    backend.fused_attention(query, key, key, np.zeros((2, 1, 1, keys), "float32"))
    assert asked == [None if (queries, keys) == (4, 6) else False]
