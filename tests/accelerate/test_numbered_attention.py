"""Attention by the numbers of sequences has the values and gradients of the formula, in little memory, on JAX.

These tests call JAX in this process; tests/test_fused_attention_on_jax.py trains encoders with Keras on JAX.
"""

import functools

import keras
import numpy as np
import pytest

from keras_bert.accelerate import backend

jax = pytest.importorskip("jax")

from keras_bert.accelerate import numbered_attention  # noqa: E402
from keras_bert.accelerate.numbered_attention import attention, by_lengths, by_segments, in_blocks  # noqa: E402

# The largest difference relative to the largest number; bfloat16 has 8 significant bits.
TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 0.03}


def numbers_of(*rows, length=300):
    """Returns rows from pairs of a number and how many tokens have it, padded on the right."""
    full = [np.repeat([number for number, _ in row], [count for _, count in row]) for row in rows]
    return np.stack([np.pad(row, (0, length - len(row))) for row in full]).astype("int32")


PADDED = numbers_of([(1, 300)], [(1, 170)])
ROWS = {
    "full": numbers_of([(1, 300)], [(1, 300)]),
    "padded": PADDED,
    "padded on the left": PADDED[:, ::-1],
    "packed": numbers_of([(1, 40), (2, 140), (3, 100)], [(1, 129), (2, 1), (0, 20), (3, 150)]),
    "numbers in any order": numbers_of([(3, 140), (1, 10), (3, 140)], [(2, 130), (1, 130), (2, 40)]),
}


def formula(query, key, value, query_numbers, key_numbers):
    query_numbers, key_numbers = query_numbers[:, None, :, None], key_numbers[:, None, None, :]
    allowed = ((query_numbers == key_numbers) | (query_numbers == 0)) & (key_numbers != 0)
    scores = jax.numpy.where(allowed, query @ jax.numpy.swapaxes(key, 2, 3), -30000.0)
    return jax.nn.softmax(scores) @ value


def values_and_gradients(function, inputs, numbers, upstream):
    def compute(inputs, numbers, upstream):
        found, gradients_of = jax.vjp(lambda *inputs: function(*inputs, *numbers), *inputs)
        return found, *gradients_of(upstream.astype(found.dtype))

    return [np.asarray(part, "float64") for part in jax.jit(compute)(inputs, numbers, upstream)]


def inputs_of(query_numbers, key_numbers, dtype="float64", size=8):
    """Returns queries, keys and values; and the gradients of the outputs, 0 for padding."""
    draw = np.random.default_rng(0)
    shapes = [(2, 2, numbers.shape[1], size) for numbers in (query_numbers, key_numbers, key_numbers, query_numbers)]
    *inputs, upstream = (jax.numpy.asarray(draw.normal(size=shape), dtype) for shape in shapes)
    return inputs, upstream * (query_numbers > 0)[:, None, :, None]


def assert_equals_formula(function, query_numbers, key_numbers, dtype, has_padding=True):
    """Compares a function with the formula in float64; without `has_padding`, not the vectors of padding."""
    numbers = (query_numbers, key_numbers)
    with jax.enable_x64():
        inputs, upstream = inputs_of(*numbers, dtype)
        found = values_and_gradients(function, inputs, numbers, upstream)
        expected = values_and_gradients(formula, [part.astype("float64") for part in inputs], numbers, upstream)
    for part, theirs in zip(found, expected, strict=True):
        if part is found[0] and not has_padding:
            part, theirs = (values * (query_numbers > 0)[:, None, :, None] for values in (part, theirs))
        np.testing.assert_allclose(part, theirs, rtol=0, atol=TOLERANCES[dtype] * np.abs(theirs).max())


# Pallas' interpreter computes the GPU's kernel on a CPU. Padding attends to padding there.
interpreted_segments = functools.partial(by_segments, interpret=True)
# cuDNN's kernel needs a GPU, so JAX's plain form computes with the same arguments.
plain_lengths = functools.partial(by_lengths, implementation="xla")


@pytest.mark.parametrize(
    ("function", "rows", "dtype"),
    [
        *((in_blocks, rows, "float64") for rows in ROWS),
        *((in_blocks, "packed", dtype) for dtype in ("float32", "bfloat16")),
        (interpreted_segments, "packed", "float32"),
        (plain_lengths, "padded", "float32"),
    ],
)
def test_kernels_have_the_values_and_gradients_of_the_formula(function, rows, dtype):
    has_padding = function is in_blocks
    assert_equals_formula(function, ROWS[rows], ROWS[rows], dtype, has_padding)


def test_blocks_equal_the_formula_where_some_tokens_attend():
    columns = np.random.default_rng(1).integers(0, 300, (2, 37))
    queries = np.take_along_axis(ROWS["packed"], columns, axis=1)
    assert_equals_formula(in_blocks, queries, ROWS["packed"], "float64")


@pytest.mark.parametrize("function", [in_blocks, interpreted_segments])
def test_gradients_between_packed_sequences_are_exactly_0(function):
    numbers = ROWS["packed"]
    inputs, _ = inputs_of(numbers, numbers, "float32")
    upstream = np.ones((2, 2, 300, 8), "float32") * (numbers == 2)[:, None, :, None]
    gradients = values_and_gradients(function, inputs, (numbers, numbers), upstream)[1:]
    for gradient in gradients:
        by_token = np.abs(gradient).max(axis=(1, 3))
        assert (by_token[numbers != 2] == 0).all()
    assert (np.abs(gradients[2]).max(axis=(1, 3))[numbers == 2] > 0).all()


def test_rows_without_tokens_give_finite_numbers():
    numbers = numbers_of([(1, 300)], [(0, 300)])
    inputs, _ = inputs_of(numbers, numbers, "float32")
    for part in values_and_gradients(in_blocks, inputs, (numbers, numbers), np.ones((2, 2, 300, 8), "float32")):
        assert np.isfinite(part).all()


def test_memory_grows_linearly_with_the_row():
    def memory_of(function, length):
        shape = jax.ShapeDtypeStruct((1, 2, length, 16), "float32")
        numbers = jax.ShapeDtypeStruct((1, length), "int32")

        def compute(query, key, value, numbers):
            found, gradients_of = jax.vjp(lambda *inputs: function(*inputs, numbers, numbers), query, key, value)
            return gradients_of(found)

        return jax.jit(compute).lower(shape, shape, shape, numbers).compile().memory_analysis().temp_size_in_bytes

    blocks, plain = ([memory_of(function, length) for length in (2048, 4096)] for function in (in_blocks, formula))
    assert blocks[1] < 2.1 * blocks[0]
    assert plain[1] > 3.5 * plain[0]
    assert blocks[0] < plain[0] / 20


def test_a_gpu_program_calls_the_fused_kernels(monkeypatch):
    # The program for a GPU is made on a CPU, but it was never run.
    monkeypatch.setattr(numbered_attention, "_has_kernels", lambda *_: True)
    monkeypatch.setattr(jax._src.cudnn.fused_attention_stablehlo, "check_cudnn_version", lambda: 91000)
    inputs, upstream = inputs_of(PADDED, PADDED, "bfloat16", size=64)

    def compute(query, key, value, numbers):
        found, gradients_of = jax.vjp(lambda *inputs: attention(*inputs, None, numbers), query, key, value)
        return gradients_of(found)

    program = jax.jit(compute).trace(*inputs, PADDED).lower(lowering_platforms=("cuda",)).as_text()
    calls = ("__cudnn$fmhaSoftmax(", "__cudnn$fmhaSoftmaxBackward(", "__gpu$xla.gpu.triton")
    assert [call for call in calls if call not in program] == []


def test_long_rows_are_chosen_on_a_cpu_unless_keras_disables_it(monkeypatch):
    assert [numbered_attention.is_chosen(length, 64, "float32", True) for length in (511, 512)] == [False, True]
    monkeypatch.setattr(keras.config, "is_flash_attention_enabled", lambda: False)
    assert not numbered_attention.is_chosen(512, 64, "float32", True)


@pytest.mark.parametrize(
    ("dtype", "head_size", "capability", "training", "is_chosen"),
    [
        ("bfloat16", 64, "8.0", True, True),
        ("float16", 128, "10.0", True, True),
        ("bfloat16", 64, "9.0", False, False),  # inference has Keras' function
        ("float32", 64, "9.0", True, False),
        ("bfloat16", 60, "9.0", True, False),
        ("bfloat16", 256, "9.0", True, False),
        ("bfloat16", 64, "7.5", True, False),
        ("bfloat16", 64, "gfx942", True, False),
    ],
)
def test_a_gpu_has_kernels_for_training_in_16_bits(monkeypatch, dtype, head_size, capability, training, is_chosen):
    device = type("Device", (), {"compute_capability": capability})
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "local_devices", lambda: [device])
    assert numbered_attention.is_chosen(512, head_size, dtype, training) == is_chosen


def test_on_tensorflow_nothing_of_this_is_imported():
    assert backend.numbered_attention is None
