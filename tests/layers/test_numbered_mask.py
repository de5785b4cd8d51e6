import numpy as np
import pytest
import tensorflow as tf
from numpy_bert import positions_of

from keras_bert.layers.numbered_mask import attention_bias, local_attention_bias, position_ids


@pytest.mark.parametrize(
    ("mask", "positions"),
    [
        ([1, 1, 1, 0, 0], [0, 1, 2, 3, 4]),  # padded on the right
        ([0, 0, 1, 1, 1], [0, 1, 2, 3, 4]),  # padded on the left: still the column index
        ([1, 1, 0, 1, 1], [0, 1, 2, 3, 4]),  # a hole
        ([1, 1, 2, 2, 2], [0, 1, 0, 1, 2]),
        ([1, 2, 3, 3, 0], [0, 0, 0, 1, 2]),
        ([0, 1, 1, 2, 2], [0, 1, 2, 0, 1]),
        ([1, 1, 0, 2, 2], [0, 1, 2, 0, 1]),  # padding between two sequences
        ([2, 2, 1, 1, 2], [0, 1, 0, 1, 0]),  # any change of number starts a sequence
        ([0, 0, 0, 0, 0], [0, 1, 2, 3, 4]),
    ],
)
def test_positions_restart_where_another_sequence_starts(mask, positions):
    assert np.asarray(position_ids(np.array([mask], "int32"))).tolist() == [positions]
    assert positions_of(mask).tolist() == positions


def test_positions_of_random_rows_match_a_loop_over_the_columns():
    masks = np.random.default_rng(0).integers(0, 4, (200, 17)).astype("int32")
    expected = np.stack([positions_of(mask) for mask in masks])
    np.testing.assert_array_equal(np.asarray(position_ids(masks)), expected)


def test_tokens_look_at_their_own_sequence_only_and_padding_at_all_tokens():
    allowed = np.asarray(attention_bias(np.array([[1, 1, 2, 0]], "int32"))) == 0
    assert allowed.shape == (1, 1, 4, 4)
    assert allowed[0, 0].astype(int).tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 0]]


def test_rows_of_one_sequence_have_one_bias_for_all_their_tokens():
    masks = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 0], [1, 1, 1]], "int32")
    one = np.asarray(attention_bias(masks))
    assert one.shape == (4, 1, 1, 3)
    # Beside a row with several sequences, each token has its own bias.
    each = np.asarray(attention_bias(np.concatenate([masks, [[1, 2, 2]]])))
    assert each.shape == (5, 1, 3, 3)
    np.testing.assert_array_equal(np.broadcast_to(one, (4, 1, 3, 3)), each[:4])


def test_local_attention_reaches_neighbours_of_the_same_sequence_only():
    mask = np.array([[1, 1, 1, 1, 2, 2, 0]], "int32")
    allowed = np.asarray(local_attention_bias(mask, position_ids(mask), 2)) == 0
    assert allowed[0, 0].astype(int).tolist() == [
        [1, 1, 1, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],
        [0, 1, 1, 1, 0, 0, 0],
        [0, 0, 0, 0, 1, 1, 0],
        [0, 0, 0, 0, 1, 1, 0],
        [1, 1, 1, 1, 1, 1, 0],
    ]
    columns = np.array([[5, 0]], "int32")
    some = np.asarray(local_attention_bias(mask, position_ids(mask), 2, query_columns=columns)) == 0
    np.testing.assert_array_equal(some[0, 0], allowed[0, 0][[5, 0]])


def test_rows_within_the_reach_have_one_bias_for_all_their_tokens():
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "int32")
    found = np.asarray(local_attention_bias(mask, position_ids(mask), 3))
    np.testing.assert_array_equal(found, np.asarray(attention_bias(mask)))
    assert found.shape == (2, 1, 1, 4)
    assert np.asarray(local_attention_bias(mask, position_ids(mask), 2)).shape == (2, 1, 4, 4)


def test_xla_gets_the_same_shape_for_all_rows():
    compiled = tf.function(attention_bias, jit_compile=True)
    for mask in ([[1, 1, 0]], [[1, 2, 2]]):
        assert compiled(tf.constant(mask)).shape == (1, 1, 3, 3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_bias_is_finite_in_every_precision(dtype):
    values = np.asarray(tf.cast(attention_bias(np.array([[1, 0]], "int32")), dtype)).astype("float32")
    assert np.all(np.isfinite(values))
    assert values.min() < -10000
