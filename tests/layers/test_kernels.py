"""The kernels have the same values and gradients as plain operations, and keep less for the backward pass."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.accelerate import kernels, updates
from keras_bert.layers.activations import hidden_activation
from keras_bert.layers.transformer_block import TransformerBlock


def with_gradients(function, *inputs):
    """Returns the outputs of a function, and the gradients of a weighted sum of them."""
    inputs = [tf.convert_to_tensor(given) for given in inputs]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = function(*inputs)
    weights = np.random.default_rng(1).normal(size=outputs.shape)
    return [outputs, *tape.gradient(outputs, inputs, output_gradients=tf.cast(weights, outputs.dtype))]


def check_same(one, other, tolerance):
    for first, second in zip(one, other, strict=True):
        np.testing.assert_allclose(first, second, rtol=0, atol=tolerance)


def every_float16():
    values = np.arange(65536, dtype=np.uint16).view(np.float16)
    return values[np.isfinite(values)]


def gelu_in_float64(x, approximate):
    """The formulas of the paper, and their derivatives."""
    with np.errstate(over="ignore"):
        if approximate:
            share = 1 / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
            slope = 2 * share * (1 - share) * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x**2)
        else:
            share = np.array([math.erfc(-value / math.sqrt(2)) / 2 for value in x])
            slope = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    return x * share, share + x * slope


@pytest.mark.parametrize("approximate", [True, False], ids=["tanh", "exact"])
@pytest.mark.parametrize("where", ["in training", "elsewhere"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 0.008), ("bfloat16", 0.04)])
def test_gelu_of_16_bits_has_values_and_gradients_from_the_smallest_number_to_the_largest(
    dtype, tolerance, where, approximate
):
    plain = hidden_activation("gelu" if approximate else "gelu_erf")
    function = (lambda x: kernels.gelu(x, approximate)) if where == "in training" else plain
    x = tf.cast(tf.constant(every_float16(), "float32"), dtype)  # 65504 among them
    with tf.GradientTape() as tape:
        tape.watch(x)
        values = function(x)
    gradients = tape.gradient(values, x)
    expected_values, expected_gradients = gelu_in_float64(tf.cast(x, "float64").numpy(), approximate)
    np.testing.assert_allclose(tf.cast(values, "float64"), expected_values, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(tf.cast(gradients, "float64"), expected_gradients, rtol=0, atol=tolerance)


def test_the_values_of_gelu_in_float16_are_those_of_keras():
    x = tf.constant(every_float16())
    np.testing.assert_array_equal(hidden_activation("gelu")(x), keras.ops.gelu(x, approximate=True))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_norm_of_gradients_in_16_bits_is_that_of_their_numbers(dtype):
    # Half the sum of their squares overflows in float16, and stops growing at 256 in bfloat16.
    gradients = [tf.cast(tf.fill([300, 100], 3.0), dtype), None, tf.cast(tf.fill([10], 500.0), dtype)]
    expected = math.sqrt(9 * 30_000 + 250_000 * 10)
    assert float(updates.global_norm(gradients)) == pytest.approx(expected, rel=1e-6)
    clipped = updates.clip_by_global_norm(gradients, 100.0)
    assert clipped[1] is None
    np.testing.assert_allclose(clipped[0], tf.fill([300, 100], 300 / expected), rtol=1e-6)
    np.testing.assert_allclose(clipped[2], [50_000 / expected] * 10, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_slices_in_16_bits_are_summed_in_32(dtype):
    slices = tf.IndexedSlices(tf.ones([3000, 4], dtype), tf.zeros([3000], "int32"), tf.constant([2, 4]))
    np.testing.assert_array_equal(updates.dense_gradient(slices), [[3000.0] * 4, [0.0] * 4])
    assert float(updates.global_norm([slices])) == 6000.0


def seeded(*numbers):
    """A seed generator that returns these two numbers next."""
    generator = keras.random.SeedGenerator(0)
    generator.state.assign(numbers)
    return generator


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9, 0.999, 1 / 65536])
def test_every_number_is_kept_with_the_same_probability(rate):
    is_kept, scale = kernels.draw_kept((1200, 700), rate, seeded(5, 6))
    share = round(rate * 65536) / 65536
    dropped = 1 - np.asarray(is_kept, "float64")
    assert scale == 1 / (1 - share)
    # Within six standard deviations: all numbers, those of one column, and those of one row.
    assert abs(dropped.mean() - share) < 6 * np.sqrt(share / dropped.size)
    assert np.abs(dropped.mean(0) - share).max() < 6 * np.sqrt(share / 1200) + 6 / 1200
    assert np.abs(dropped.mean(1) - share).max() < 6 * np.sqrt(share / 700) + 6 / 700


def test_numbers_are_dropped_independently_of_their_neighbours_and_of_other_seeds():
    draws = [1 - np.asarray(kernels.draw_kept((600, 700), 0.2, seeded(1, n))[0], "float64") for n in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0], draws[1])
    bound = 6 * 0.2 / np.sqrt(draws[0].size)
    pairs = [(draws[0], draws[2]), (draws[0][1:], draws[0][:-1]), (draws[0][:, 1:], draws[0][:, :-1])]
    for one, other in pairs:
        assert abs(np.mean(one * other) - 0.04) < bound


def plain_attention(query, key, value, bias, factors):
    return tf.matmul(tf.nn.softmax(tf.matmul(query, key, transpose_b=True) + bias) * factors, value)


def test_a_bias_with_scores_for_every_head_gets_a_gradient():
    generator = np.random.default_rng(0)
    inputs = [generator.normal(size=(2, 3, length, 4)) for length in (5, 7, 7)]
    biases = generator.normal(size=(2, 3, 5, 7))
    ours = with_gradients(kernels.attention, *inputs, biases)
    check_same(ours, with_gradients(lambda *given: plain_attention(*given, 1.0), *inputs, biases), 1e-12)


def error(found, expected):
    """The root mean square error relative to the root mean square of the numbers."""
    return np.sqrt(np.mean((tf.cast(found, "float64") - expected) ** 2) / np.mean(expected**2))


def test_attention_in_sixteen_bits_is_about_as_exact_as_that_of_plain_operations():
    generator = np.random.default_rng(0)
    inputs = [generator.normal(size=(2, 3, 300, 8)) for _ in range(3)]
    bias = np.zeros((2, 1, 300, 300))
    halves = [tf.cast(given, tf.bfloat16) for given in inputs]

    def plain(query, key, value):
        scores = tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32)
        return tf.matmul(tf.cast(tf.nn.softmax(scores), tf.bfloat16), value)

    exact = with_gradients(lambda *given: plain_attention(*given, bias, 1.0), *inputs)
    ours = with_gradients(lambda *given: kernels.attention(*given, bias), *halves)
    for found, other, expected in zip(ours, with_gradients(plain, *halves), exact, strict=True):
        assert found.dtype == tf.bfloat16
        assert error(found, expected) < 1.25 * error(other, expected) < 0.02


def test_cross_entropy_of_logits_far_apart():
    logits = tf.constant([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4], [0.0, 90.0, -90.0]])
    losses = kernels.cross_entropy(logits, tf.constant([1, 0, 1]))
    np.testing.assert_allclose(losses, [2e4, np.log(3), 0], rtol=1e-6)


def test_labels_outside_the_classes_are_not_accepted():
    for label in (-1, 3):
        with tf.device("CPU:0"), pytest.raises(tf.errors.InvalidArgumentError):  # a GPU gives NaN
            kernels.cross_entropy(tf.zeros((2, 3)), tf.constant([0, label]))
    with pytest.raises(ValueError, match="incompatible"):
        kernels.cross_entropy(tf.zeros((2, 3)), tf.constant([0, 1, 2]))


def test_argmax_returns_the_first_of_equal_numbers():
    values = tf.constant([[1.0, 3.0, 3.0], [0.0, -0.0, -1.0]])
    assert kernels.argmax(values).numpy().tolist() == [1, 0]


def test_product_with_rows_has_a_gradient_of_rows():
    run = tf.function(lambda v, t: tf.gradients(kernels.product_with_rows(v, t), t), autograph=False)
    graph = run.get_concrete_function(tf.ones((3, 4)), tf.ones((5, 4))).graph
    assert "Transpose" not in [op.type for op in graph.get_operations()]


def test_a_layer_keeps_little_for_its_backward_pass():
    """Guards the memory of training: counts the numbers that a block keeps from its forward to its backward pass."""
    block = TransformerBlock(2, 64, dropout=0.1, attention_dropout=0.1)
    block.build((None, None, 16))
    hidden, bias = tf.ones((3, 6, 16)), tf.zeros((3, 1, 6, 6))

    forward = tf.function(lambda hidden: block(hidden, bias, training=True), autograph=False)

    @tf.function(autograph=False)
    def step(hidden):
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            output = forward(hidden)
        return tape.gradient(output, hidden)

    calls = [op for op in step.get_concrete_function(hidden).graph.get_operations() if "PartitionedCall" in op.type]
    handed_on = [(tuple(output.shape), output.dtype.name) for output in calls[0].outputs[1:]]
    # The input of GELU, its factor h, and the output twice, once as the output of an identity.
    assert handed_on.count(((18, 64), "float32")) == 4, handed_on
    # The attention probabilities before and after dropout.
    assert handed_on.count(((3, 2, 6, 6), "float32")) == 2, handed_on
    # The masks of dropout: one byte per number.
    assert [shape for shape, dtype in handed_on if dtype == "bool"] == [(18, 16), (3, 6, 16)], handed_on
