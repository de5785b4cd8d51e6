"""Every kernel has the same values, gradients and arguments as the plain formula of its name."""

import inspect
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from layers.test_kernels import with_gradients

from keras_bert.accelerate import backend, kernels
from keras_bert.layers import formulas
from keras_bert.layers.choosing import attention_for, formulas_for, layouts_for

DRAW = np.random.default_rng(0)
BIAS = np.where(DRAW.random((2, 1, 5, 7)) < 0.3, -30000.0, 0.0)
ROW_BIAS = BIAS[:, :, :1]
KEPT = DRAW.random((2, 3, 5, 7)) < 0.8
ANGLES = [function(DRAW.normal(size=(2, 1, 5, 4))) for function in (np.cos, np.sin)]
LABELS = DRAW.integers(0, 11, (4, 3))
QUERY_KEY_VALUE = [(2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4)]
# Name -> (function of the module and the inputs that get gradients, shapes of these inputs).
CASES = {
    "attention": (lambda form, *given: form.attention(*given, BIAS), QUERY_KEY_VALUE),
    "attention with one bias for a row": (lambda form, *given: form.attention(*given, ROW_BIAS), QUERY_KEY_VALUE),
    "attention with dropout": (lambda form, *given: form.attention(*given, BIAS, KEPT, 1.25), QUERY_KEY_VALUE),
    "swap_middle_axes": (lambda form, x: form.swap_middle_axes(x, (2, 5, 3)), [(2, 5, 3, 4)]),
    "gelu": (lambda form, x: form.gelu(x, approximate=True), [(40, 7)]),
    "exact gelu": (lambda form, x: form.gelu(x, approximate=False), [(40, 7)]),
    "layer_norm": (lambda form, *given: form.layer_norm(*given, 1e-6), [(2, 3, 16), (16,), (16,)]),
    "layer_norm without beta": (lambda form, *given: form.layer_norm(*given, None, 1e-6), [(2, 3, 16), (16,)]),
    "rotate": (lambda form, x: form.rotate(x, *(tf.cast(part, x.dtype) for part in ANGLES)), [(2, 3, 5, 8)]),
    "dropout": (lambda form, x: form.dropout(x, KEPT, 1.25), [(2, 3, 5, 7)]),
    "cross_entropy": (lambda form, x: form.cross_entropy(x, tf.constant(LABELS)), [(4, 3, 11)]),
    "product_with_rows": (lambda form, *given: form.product_with_rows(*given), [(6, 4), (9, 4)]),
}
# The largest difference relative to the largest number; bfloat16 has 8 significant bits, float16 has 11.
TOLERANCES = {"float64": 1e-6, "float32": 2e-6, "float16": 0.004, "bfloat16": 0.03}


def public_functions(module):
    return {
        name: function
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
    }


def check_same(ours, plain, dtype):
    for found, expected in zip(ours, plain, strict=True):
        assert found.dtype == expected.dtype == tf.as_dtype(dtype)
        found, expected = (np.asarray(tf.cast(values, "float64")) for values in (found, expected))
        assert np.abs(expected).max() > 0.1
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCES[dtype] * np.abs(expected).max())


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("case", CASES)
def test_a_kernel_has_the_values_and_gradients_of_its_formula(case, dtype):
    function, shapes = CASES[case]
    draw = np.random.default_rng(2)
    inputs = [tf.cast(tf.constant(draw.normal(size=shape)), dtype) for shape in shapes]
    ours = with_gradients(lambda *given: function(kernels, *given), *inputs)
    check_same(ours, with_gradients(lambda *given: function(formulas, *given), *inputs), dtype)


@pytest.mark.parametrize("bias", [BIAS, ROW_BIAS], ids=["a bias for every query", "one bias for a row"])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_fused_attention_has_the_values_and_gradients_of_its_formula(dtype, bias):
    inputs = [tf.cast(tf.constant(DRAW.normal(size=shape)), dtype) for shape in QUERY_KEY_VALUE]
    bias = tf.cast(bias, dtype)
    ours = with_gradients(lambda *given: backend.fused_attention(*given, bias), *inputs)
    check_same(ours, with_gradients(lambda *given: formulas.attention(*given, bias), *inputs), dtype)


def test_only_inference_on_other_backends_than_tensorflow_fuses_attention(monkeypatch):
    assert [attention_for(training) for training in (False, True)] == [formulas.attention, kernels.attention]
    monkeypatch.setattr(backend, "on_tensorflow", lambda: False)
    assert [attention_for(training) for training in (False, True)] == [backend.fused_attention, kernels.attention]


def test_kernels_and_formulas_have_the_same_functions_with_the_same_arguments():
    plain, ours = public_functions(formulas), public_functions(kernels)
    assert set(plain) == set(ours)
    for name, function in plain.items():
        arguments = list(inspect.signature(function).parameters)
        # The kernel would give the probabilities no gradient.
        assert list(inspect.signature(ours[name]).parameters) == [a for a in arguments if a != "return_probabilities"]
    tried = {case.split()[-1] if case.startswith("exact") else case.split()[0] for case in CASES}
    assert set(plain) - tried == {"argmax", "draw_kept"}, "these two have no gradients"


def test_both_find_the_largest_number_and_keep_the_same_share():
    values = DRAW.normal(size=(5, 9))
    np.testing.assert_array_equal(kernels.argmax(tf.constant(values)), formulas.argmax(values))
    for form in (kernels, formulas):
        is_kept, scale = form.draw_kept((300, 400), 0.25, keras.random.SeedGenerator(3))
        assert scale == pytest.approx(4 / 3)
        assert np.mean(is_kept) == pytest.approx(0.75, abs=6 * np.sqrt(0.25 * 0.75 / 120_000))


def test_the_probabilities_are_those_before_dropout():
    draw = np.random.default_rng(2)
    query, key, value = (tf.constant(draw.normal(size=shape)) for shape in CASES["attention"][1])
    gathered, probabilities = formulas.attention(query, key, value, BIAS, KEPT, 1.25, return_probabilities=True)
    np.testing.assert_allclose(np.asarray(probabilities).sum(-1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(gathered, np.asarray(probabilities) * KEPT * 1.25 @ np.asarray(value), atol=1e-12)


def test_training_takes_the_kernels_and_inference_the_plain_formulas(monkeypatch):
    assert formulas_for(training=True) is layouts_for(training=False) is kernels
    assert formulas_for(training=False) is layouts_for(training=True) is formulas
    monkeypatch.setattr("keras_bert.layers.choosing.kernels", None)  # another backend of Keras
    assert formulas_for(training=True) is layouts_for(training=False) is formulas


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
