"""AdamW and the learning rate schedule against independent implementations."""

import json
import re

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.checkpoints.checkpoint import numpy_dtype
from keras_bert.config import BertConfig
from keras_bert.optimization import LAMB, AdamW, StableAdamW, WarmupLinearDecay, WarmupPolynomialDecay
from keras_bert.optimization.moments import is_excluded
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier

NAMES = ["kernel", "bias", "gamma"]
SHAPES = [(3, 4), (4,), (4,)]
IS_DECAYED = [True, False, False]


def to_numpy(variable):
    # Not np.array(variable): NumPy 2 warns about the conversion of a TensorFlow variable.
    return variable.value.numpy()


def numpy_steps(weights, gradients, learning_rates, *, decay, correct, clip, b1=0.9, b2=0.999, epsilon=1e-6):
    """The formula of the docstring in plain NumPy and float64."""
    weights = [weight.astype("float64") for weight in weights]
    m = [np.zeros_like(weight) for weight in weights]
    v = [np.zeros_like(weight) for weight in weights]
    for t, (step_gradients, rate) in enumerate(zip(gradients, learning_rates, strict=True), start=1):
        norm = np.sqrt(sum((g.astype("float64") ** 2).sum() for g in step_gradients))
        scale = min(1.0, clip / norm) if clip else 1.0
        for i, gradient in enumerate(step_gradients):
            g = gradient.astype("float64") * scale
            m[i] = b1 * m[i] + (1 - b1) * g
            v[i] = b2 * v[i] + (1 - b2) * g**2
            m_hat, v_hat = (m[i] / (1 - b1**t), v[i] / (1 - b2**t)) if correct else (m[i], v[i])
            update = m_hat / (np.sqrt(v_hat) + epsilon) + (decay * weights[i] if IS_DECAYED[i] else 0.0)
            weights[i] = weights[i] - rate * update
    return weights


def random_problem(num_steps, gradient_scale=1.0, seed=0):
    draw = np.random.default_rng(seed)
    weights = [draw.normal(size=shape) for shape in SHAPES]
    gradients = [[gradient_scale * draw.normal(size=shape) for shape in SHAPES] for _ in range(num_steps)]
    return weights, gradients


def keras_steps(optimizer, weights, gradients, dtype="float64"):
    variables = [keras.Variable(weight, dtype=dtype, name=name) for weight, name in zip(weights, NAMES, strict=True)]
    for step_gradients in gradients:
        optimizer.apply([keras.ops.convert_to_tensor(g, dtype=dtype) for g in step_gradients], variables)
    return [to_numpy(variable) for variable in variables]


def copy_of(thing):
    """Returns what Keras makes of the configuration of an optimiser or a schedule."""
    return keras.saving.deserialize_keras_object(json.loads(json.dumps(keras.saving.serialize_keras_object(thing))))


@pytest.mark.parametrize("correct", [False, True])
@pytest.mark.parametrize(("gradient_scale", "clip"), [(0.01, 1.0), (10.0, 1.0), (50.0, None)])
def test_adamw_is_the_formula_of_its_docstring(correct, gradient_scale, clip):
    weights, gradients = random_problem(num_steps=7, gradient_scale=gradient_scale)
    schedule = WarmupLinearDecay(peak=0.1, num_train_steps=10, num_warmup_steps=3)
    rates = [0.0, 0.1 / 3, 0.2 / 3, 0.07, 0.06, 0.05, 0.04]
    optimizer = AdamW(schedule, weight_decay=0.3, bias_correction=correct, global_clipnorm=clip)
    found = keras_steps(optimizer, weights, gradients)
    expected = numpy_steps(weights, gradients, rates, decay=0.3, correct=correct, clip=clip)
    for name, left, right in zip(NAMES, found, expected, strict=True):
        # The rate is computed in float32 for every dtype of the weights.
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.parametrize(
    ("layer_name", "weight_name", "is_decayed"),
    [
        ("query", "kernel", True),
        ("query", "bias", False),
        ("word_embeddings", "embeddings", True),
        ("predictions", "output_bias", False),
        ("attention_layer_norm", "gamma", False),
        ("LayerNorm", "scale", False),
        ("layer_normalization_3", "scale", False),
        ("norm", "beta", False),
        ("alphabet", "betas", True),
    ],
)
def test_layer_norm_and_biases_are_not_decayed(layer_name, weight_name, is_decayed):
    layer = keras.layers.Layer(name=layer_name)
    weight = layer.add_weight(shape=(2,), initializer="ones", name=weight_name, dtype="float32")
    optimizer = AdamW(0.5, weight_decay=0.1)
    optimizer.apply([keras.ops.zeros((2,))], [weight])
    expected = 0.95 if is_decayed else 1.0
    np.testing.assert_allclose(to_numpy(weight), [expected, expected], rtol=1e-6)


@pytest.mark.parametrize("model_name", ["debias_bert", "layer_norm_study", "gamma", "bias"])
def test_the_name_of_a_model_excludes_nothing(model_name):
    config = BertConfig.from_size("tiny", vocab_size=9).replace(num_hidden_layers=1)
    ordinary, named = (SequenceClassifier(config, labels=["a", "b"], name=name) for name in ("bert", model_name))
    left_out = [[is_excluded(variable.path) for variable in model.trainable_variables] for model in (ordinary, named)]
    assert left_out[0] == left_out[1]
    by_google = [re.search("layer_norm|bias", variable.path) is not None for variable in ordinary.trainable_variables]
    assert left_out[0] == by_google
    assert 0 < sum(by_google) < len(by_google)


@pytest.mark.parametrize("optimizer_class", [AdamW, LAMB, StableAdamW])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_in_16_bits_are_updated_in_32_and_rounded_once(dtype, optimizer_class):
    narrow, wide = (optimizer_class(2.0**-4, weight_decay=0.25, global_clipnorm=1.0) for _ in range(2))
    draw = np.random.default_rng(0)
    weights = draw.normal(size=(40, 50))
    in_16_bits, in_32_bits = keras.Variable(weights, dtype=dtype, name="w"), keras.Variable(weights, name="w")
    for _ in range(4):
        in_32_bits.assign(keras.ops.cast(in_16_bits, "float32"))
        # Some squares are 0 in float16, and the sum of all is infinite.
        gradient = keras.ops.cast(draw.normal(size=(40, 50)) * draw.choice([1e-4, 30.0], size=(40, 50)), dtype)
        narrow.apply([gradient], [in_16_bits])
        wide.apply([keras.ops.cast(gradient, "float32")], [in_32_bits])
        found, expected = (np.asarray(keras.ops.cast(given, "float64")) for given in (in_16_bits, in_32_bits))
        np.testing.assert_allclose(found, expected, rtol=0.5001 * float(ml_dtypes.finfo(numpy_dtype(dtype)).eps))
    for one, other in zip(narrow.slots()[0][1:], wide.slots()[0][1:], strict=True):
        assert one.dtype == "float32"
        np.testing.assert_allclose(to_numpy(one), to_numpy(other), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_averages_of_weights_in_16_bits_are_averages(dtype):
    optimizer = AdamW(0.0, use_ema=True, ema_momentum=0.999)
    variable = keras.Variable([1.0, -3.0], dtype=dtype, name="w")
    for value in ([1.0, -3.0], *[[0.5, -1.0]] * 30):
        variable.assign(value)
        optimizer.apply([keras.ops.zeros((2,), dtype)], [variable])
    optimizer.finalize_variable_values([variable])
    expected = [0.5 + 0.5 * 0.999**30, -1 - 2 * 0.999**30]
    found = np.asarray(keras.ops.cast(variable, "float64"))
    np.testing.assert_allclose(found, expected, rtol=0.5001 * float(ml_dtypes.finfo(numpy_dtype(dtype)).eps))


def test_the_norm_of_an_embedding_gradient_is_that_of_the_summed_rows():
    embeddings = keras.Variable(np.zeros((4, 1)), dtype="float64", name="embeddings")
    with tf.GradientTape() as tape:
        rows = tf.gather(embeddings.value, [1, 1, 2])
        loss = tf.reduce_sum(rows * [[3.0], [1.0], [3.0]])
    gradient = tape.gradient(loss, embeddings.value)
    assert isinstance(gradient, tf.IndexedSlices)

    optimizer = AdamW(1.0, weight_decay=0.0, beta_1=0.0, beta_2=0.0, epsilon=1.0, bias_correction=False)
    optimizer.apply([gradient], [embeddings])

    clipped = np.array([0.0, 4.0, 3.0, 0.0]) / 5.0
    np.testing.assert_allclose(to_numpy(embeddings)[:, 0], -clipped / (clipped + 1.0), rtol=1e-6)


@pytest.mark.parametrize("make", [AdamW, LAMB])
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("clip", [1.0, None])
def test_slices_of_an_embedding_are_a_gradient_like_any_other(clip, jit_compile, make):
    """Updates from slices (rows 1 and 2 appear twice) equal updates from the dense gradient."""
    start = np.random.default_rng(5).normal(size=(5, 2)).astype("float32")

    def after_three_steps(as_slices):
        table, other = (keras.Variable(start, name=name) for name in ("embeddings", "kernel"))
        optimizer = make(0.1, global_clipnorm=clip)
        optimizer.build([table, other])

        @tf.function(jit_compile=jit_compile)
        def step(values):
            slices = tf.IndexedSlices(values, tf.constant([2, 1, 1, 4, 2]), tf.constant([5, 2]))
            optimizer.apply([slices if as_slices else tf.convert_to_tensor(slices), values], [table, other])

        for number in range(3):
            step(tf.constant(np.random.default_rng(number).normal(size=(5, 2)), "float32"))
        return np.concatenate([to_numpy(table), to_numpy(other)])

    found = after_three_steps(as_slices=True)
    np.testing.assert_allclose(found, after_three_steps(as_slices=False), rtol=1e-5)
    assert not np.allclose(found[:5], start)


@pytest.mark.parametrize("make", [AdamW, LAMB])
def test_a_gradient_that_is_not_finite_makes_the_weights_nan(make):
    variable = keras.Variable([1.0, 2.0], name="kernel")
    make(0.1).apply([keras.ops.convert_to_tensor([1.0, float("inf")])], [variable])
    assert np.isnan(to_numpy(variable)).all()


@pytest.mark.parametrize(
    "optimizer",
    [
        AdamW(WarmupLinearDecay(1e-3, 20, 5), weight_decay=0.02, epsilon=1e-5, bias_correction=False),
        LAMB(WarmupPolynomialDecay(1e-2, 20, 5, power=0.5), weight_decay=0.02, epsilon=1e-5, beta_2=0.98),
    ],
)
def test_optimizer_and_schedule_survive_serialisation(optimizer):
    copy = copy_of(optimizer)
    assert type(copy) is type(optimizer)
    assert copy.get_config() == optimizer.get_config()
    weights, gradients = random_problem(num_steps=4)
    one, other = (keras_steps(made, weights, gradients) for made in (optimizer, copy))
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("optimizer", [AdamW, LAMB, StableAdamW])
def test_no_tensor_as_large_as_the_weights_is_computed_before_the_gradient(optimizer):
    # Such tensors would stay in memory until then, and take as much memory as all weights.
    made = optimizer(0.1, weight_decay=0.3)
    variable = keras.Variable(np.ones((7, 5)), dtype="float32", name="kernel")
    made.build([variable])

    @tf.function(autograph=False)
    def step(gradient):
        made.apply([gradient], [variable])

    graph = step.get_concrete_function(tf.TensorSpec((7, 5))).graph
    gradient, after = graph.inputs[0].op, set()
    for node in graph.get_operations():  # in the order in which they were made
        if node is gradient or any(op in after for op in [*(x.op for x in node.inputs), *node.control_inputs]):
            after.add(node)
    early = [node for node in graph.get_operations() if node not in after and node.type != "ReadVariableOp"]
    assert [node.name for node in early if any(output.shape == (7, 5) for output in node.outputs)] == []


def test_layer_decay_survives_the_config():
    assert AdamW.from_config(AdamW(0.1, layer_decay=0.8).get_config()).layer_decay == 0.8


def test_layer_decay_that_makes_no_sense_is_refused():
    with pytest.raises(InputError, match="layer_decay must be a number above 0 and at most 1. Received: 1.5"):
        AdamW(0.1, layer_decay=1.5)
    with pytest.raises(InputError, match="layer_decay is 0.9, but no layer of an encoder is trained"):
        AdamW(0.1, layer_decay=0.9).build([keras.Variable(np.ones(2), name="kernel")])
