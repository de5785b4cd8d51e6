"""Block attention equals full attention that counts each pair as often as the papers let it attend."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_bert.encoders.long.block_attention import SparseBlockAttention, WindowAttention
from keras_bert.encoders.long.block_patterns import random_blocks, sparse_blocks, windows

WIDTH, HEADS = 8, 2


def layer_and_rows(layer_class, length, lengths):
    keras.utils.set_random_seed(3)
    layer = layer_class(HEADS, 0.0, 0.5, dtype="float64")
    layer.build((None, None, WIDTH))
    draw = np.random.default_rng(0)
    return layer, draw.normal(size=(len(lengths), length, WIDTH)), np.arange(length) < np.array(lengths)[:, None]


def attended(dense_layers, hidden, counts):
    """Attention in NumPy, in which token i attends `counts[..., i, j]` times to token j."""

    def heads(dense):
        vectors = hidden @ np.asarray(dense.kernel) + np.asarray(dense.bias)
        return vectors.reshape(*hidden.shape[:2], HEADS, -1).swapaxes(1, 2)

    query, key, value = map(heads, dense_layers)
    scores = np.exp(query @ key.swapaxes(2, 3) / np.sqrt(WIDTH // HEADS)) * counts
    gathered = scores / np.maximum(scores.sum(-1, keepdims=True), 1e-300) @ value
    return gathered.swapaxes(1, 2).reshape(hidden.shape)


def projected(layer, gathered):
    return gathered @ np.asarray(layer.output_dense.kernel) + np.asarray(layer.output_dense.bias)


@pytest.mark.parametrize(
    ("length", "half", "num_global"), [(13, 2, 3), (5, 8, 2), (16, 4, 0), (9, 8, 7), (40, 3, 5), (12, 12, 1)]
)
def test_windows_and_global_tokens(length, half, num_global):
    layer, hidden, is_token = layer_and_rows(WindowAttention, length, [length, length - 3, 2])
    draw, is_global = np.random.default_rng(1), np.zeros(is_token.shape, bool)
    for row, count in enumerate([num_global, max(num_global - 1, 0), 2]):
        is_global[row, draw.permutation(length)[:count]] = True
    found = layer(hidden, windows(ops.convert_to_tensor(is_token), ops.convert_to_tensor(is_global), half, length))
    is_global &= is_token
    near = np.abs(np.arange(length)[:, None] - np.arange(length)) <= half
    counts = ((near | is_global[:, None]) & is_token[:, None])[:, None]
    of_windows = attended((layer.query, layer.key, layer.value), hidden, counts)
    of_global = attended((layer.query_global, layer.key_global, layer.value_global), hidden, is_token[:, None, None])
    expected = projected(layer, np.where(is_global[:, :, None], of_global, of_windows))
    np.testing.assert_allclose(np.asarray(found)[is_token], expected[is_token], rtol=0, atol=1e-12)


def test_tokens_beyond_the_largest_number_are_not_global():
    layer, hidden, is_token = layer_and_rows(WindowAttention, 9, [9, 4])
    marked = np.isin(np.arange(9), [1, 4, 6]) & (is_token | True)
    patterns = [
        windows(ops.convert_to_tensor(is_token), ops.convert_to_tensor(is_global), 2, most)
        for is_global, most in ((marked, 2), (marked & (np.arange(9) < 5), 9))
    ]
    one, other = (np.asarray(layer(hidden, pattern)) for pattern in patterns)
    np.testing.assert_allclose(one[is_token], other[is_token], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("length", "size", "num_random"), [(40, 4, 1), (13, 2, 1), (37, 2, 2), (64, 2, 0), (7, 4, 1), (28, 4, 1)]
)
def test_sparse_blocks(length, size, num_random):
    lengths = [length, length - 3, min(length, 2 * size)]
    layer, hidden, is_token = layer_and_rows(SparseBlockAttention, length, lengths)
    found = layer(hidden, sparse_blocks(ops.convert_to_tensor(is_token), 1, HEADS, size, num_random, 64))
    drawn = random_blocks(1, HEADS, size, num_random, 64)[0]
    counts = np.zeros((len(lengths), HEADS, length, length))
    for row, head, token in np.ndindex(counts.shape[:3]):
        block, last = token // size, (lengths[row] - 1) // size
        if last < 5 + 2 * num_random or block in (0, last):
            counts[row, head, token] = 1
        else:
            for number in [*{0, block - 1, block, block + 1, last}, *drawn[min(block, 63), head]]:
                counts[row, head, token, number * size : (number + 1) * size] += 1
    counts *= is_token[:, None, None]
    expected = projected(layer, attended((layer.query, layer.key, layer.value), hidden, counts))
    np.testing.assert_allclose(np.asarray(found)[is_token], expected[is_token], rtol=0, atol=1e-12)


def test_padding_after_a_row_does_not_change_it():
    layer, hidden, is_token = layer_and_rows(SparseBlockAttention, 60, [33])
    long, short = (
        np.asarray(layer(hidden[:, :end], sparse_blocks(ops.convert_to_tensor(is_token[:, :end]), 0, HEADS, 4, 1, 16)))
        for end in (60, 33)
    )
    np.testing.assert_allclose(long[:, :33], short, rtol=0, atol=1e-12)


def test_the_random_blocks_of_a_model_never_change():
    """Drawn by transformers 5.23 in train mode, for layers 0 and 11, the last head, rows of 832 and 4,096 tokens."""
    (near, far), (last_near, last_far) = (random_blocks(layer, 12, 64, 3, 64) for layer in (0, 11))
    numbers = [643, 967, 187, 971, 398, 891, 154, 152, 456, 356, 592]  # of three digits each
    assert (near[1:12, 11] @ [100, 10, 1]).tolist() == numbers
    assert last_near[6, 11].tolist() == [8, 4, 3]
    assert far[[1, 2, 30, 61, 62], 11].tolist() == [[7, 5, 13], [7, 5, 6], [6, 9, 7], [13, 7, 3], [3, 5, 7]]
    assert last_far[40, 11].tolist() == [13, 9, 7]
    # A longer table has the same blocks for the shorter rows.
    np.testing.assert_array_equal(random_blocks(0, 12, 64, 3, 128)[0][:63], near[:63])


def sizes_of_tensors(function) -> list[int]:
    """Returns the numbers of elements of all tensors in a graph."""
    import tensorflow as tf

    graph = tf.function(function, autograph=False).get_concrete_function().graph
    return [output.shape.num_elements() or 0 for op in graph.get_operations() for output in op.outputs]


@pytest.mark.parametrize("kind", ["windows", "blocks"])
@pytest.mark.parametrize("trains", [False, True])
def test_the_largest_tensor_grows_linearly(kind, trains):
    import tensorflow as tf

    layer_class = WindowAttention if kind == "windows" else SparseBlockAttention

    def largest(length):
        layer, hidden, is_token = layer_and_rows(layer_class, length, [length])

        def compute():
            is_real = tf.constant(is_token)
            if kind == "windows":
                pattern = windows(is_real, is_real & (tf.range(length) < 1), 16, 1)
            else:
                pattern = sparse_blocks(is_real, 0, HEADS, 8, 1, 512)
            vectors = tf.constant(hidden)
            with tf.GradientTape() as tape:
                tape.watch(vectors)
                found = layer(vectors, pattern, training=trains)
            return [found, tape.gradient(found, [vectors, *layer.trainable_variables])] if trains else found

        return max(sizes_of_tensors(compute))

    small, large = largest(1024), largest(2048)
    assert large <= 2 * small
    assert large < 2048 * 2048 / 8
