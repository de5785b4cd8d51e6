import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_contract import check_layer
from numpy_bert import gelu_erf, gelu_tanh

from keras_bert.encoders.deberta.block import DisentangledBlock
from keras_bert.encoders.mobile_bert.trigram_embeddings import TrigramEmbeddings
from keras_bert.encoders.rotary.attention import RotaryAttention, rotary_angles, rotary_frequencies
from keras_bert.encoders.rotary.block import RotaryBlock
from keras_bert.layers.activations import hidden_activation
from keras_bert.layers.attention import SelfAttention
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.embeddings import BertEmbeddings
from keras_bert.layers.heads import MaskedLanguageModelHead, Pooler, PredictionHead
from keras_bert.layers.layer_mixture import LayerMixture
from keras_bert.layers.layer_norm import LayerNorm
from keras_bert.layers.numbered_mask import attention_bias
from keras_bert.layers.token_embeddings import TokenEmbeddings
from keras_bert.layers.transformer_block import TransformerBlock
from keras_bert.program.errors import InputError

MASK = np.array([[1, 1, 2, 2, 0], [0, 1, 1, 1, 1]], "int32")


def vectors(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def bias():
    return np.asarray(attention_bias(MASK))


IDS, SEGMENTS = np.array([[2, 7, 3], [2, 10, 3]], "int32"), np.array([[0, 0, 2], [0, 1, 1]], "int32")
RANGES = {"layer_norm_epsilon": 1e-6, "initializer_range": 0.5}
TOKENS = {"vocab_size": 11, "hidden_size": 6, "dropout": 0.2, **RANGES}
BLOCK = {"num_heads": 2, "intermediate_size": 10, "attention_dropout": 0.3, **RANGES}
ATTENTION = {"num_heads": 2, "dropout": 0.2, "initializer_range": 0.5}
HIDDEN = [vectors(2, 5, 6), bias()]
ANGLES = rotary_angles(np.array([[0, 1, 0, 1, 0], [3, 0, 1, 2, 3]]), rotary_frequencies(4, 100.0))
ROTARY = [vectors(2, 5, 8), bias(), *map(np.asarray, ANGLES)]
ROTARY_ATTENTION = {**ATTENTION, "output_range": 0.3, "use_bias": True}
SHARED = {"head_size": 4, "key_value_heads": 1, "joined": False, "scale": 0.3, "norm_epsilon": 1e-5}
ROTARY_BLOCK = {
    **BLOCK,
    "activation": "gelu",
    "attention_dropout": 0.2,
    "feed_forward_dropout": 0.3,
    "output_range": 0.3,
}
ROTARY_BLOCK |= {"normalizes_input": False, "attention_bias": True, "feed_forward_bias": True, "norm_bias": True}
AROUND = {"norm": "rms_norm_plus_1", "norm_place": "around", "joined": False, "output_bias": False}
AROUND |= {"output_dropout": 0.1, "normalizes_input": True, "attention": {"key_value_heads": 1}}
AFTER = {"norm_place": "after", "gated": False, "normalizes_input": True}
# Not relu: it can make a whole vector 0, and then LayerNorm would amplify the rounding errors of 16 bits.
HEAD = {"activation": "tanh", **RANGES}


@pytest.mark.parametrize(
    ("layer_class", "arguments", "inputs", "expected_shape"),
    [
        (BertEmbeddings, {**TOKENS, "max_positions": 5, "num_segments": 3}, [IDS, SEGMENTS * 2, SEGMENTS], (2, 3, 6)),
        (TokenEmbeddings, {**TOKENS, "norm_bias": True}, [IDS], (2, 3, 6)),
        (TokenEmbeddings, {**TOKENS, "norm_bias": True, "num_segments": 2, "scale": 3.0}, [IDS, IDS % 2], (2, 3, 6)),
        (SelfAttention, ATTENTION, HIDDEN, (2, 5, 6)),
        (TransformerBlock, {**BLOCK, "activation": "gelu_erf", "dropout": 0.2}, HIDDEN, (2, 5, 6)),
        (RotaryAttention, ROTARY_ATTENTION, ROTARY, (2, 5, 8)),
        (RotaryAttention, ROTARY_ATTENTION | SHARED, ROTARY, (2, 5, 8)),
        (PredictionHead, {**HEAD, "use_bias": True, "norm_bias": True}, [vectors(2, 5, 6)], (2, 5, 6)),
        (LayerMixture, {}, [vectors(2, 5, 3, 6)], (2, 5, 6)),
        (Pooler, {"initializer_range": 0.5}, [vectors(2, 6)], (2, 6)),
        (Pooler, {"initializer_range": 0.5}, [vectors(2, 3, 6)], (2, 3, 6)),
        (LayerNorm, {"epsilon": 1e-6, "use_bias": False}, [vectors(2, 5, 6)], (2, 5, 6)),
        # The table has as many rows as there are examples, so that it can be passed like a batched input.
        (MaskedLanguageModelHead, {**HEAD, "vocab_size": 2}, [vectors(2, 3, 6), vectors(2, 6)], (2, 3, 2)),
    ],
)
def test_every_layer_keeps_the_contract(layer_class, arguments, inputs, expected_shape, tmp_path):
    output_dtype = "float32" if layer_class is MaskedLanguageModelHead else None
    check_layer(layer_class, arguments, inputs, expected_shape, tmp_path, output_dtype)


def test_every_form_of_a_rotary_block_keeps_the_contract(tmp_path):
    for changes in ({}, AROUND, AFTER):
        check_layer(RotaryBlock, ROTARY_BLOCK | changes, ROTARY, (2, 5, 8), tmp_path)


def test_a_config_has_the_arguments_of_base_classes_too():
    arguments = {"num_heads": 2, "intermediate_size": 10, "dropout": 0.2, "score_types": ("c2p",), "kernel_size": 3}
    config = DisentangledBlock(**arguments).get_config()
    assert {name: config[name] for name in arguments} == arguments
    tables = {"token_size": 4, "vocab_size": 11, "hidden_size": 6, "max_positions": 5}
    config = TrigramEmbeddings(**tables).get_config()
    assert {name: config[name] for name in tables} == tables
    assert TrigramEmbeddings.from_config(config).get_config() == config
    assert not {"tables_of", "projected_size"} & set(config)


def test_layer_mixture_is_the_mean_of_layers_until_it_learns_others():
    layer, hidden = LayerMixture(), vectors(2, 5, 3, 6)
    np.testing.assert_allclose(layer(hidden), hidden.mean(axis=2), atol=1e-6)
    layer.scores.assign([0.0, np.log(2.0), -np.inf])
    np.testing.assert_allclose(layer(hidden), hidden[:, :, 0] / 3 + hidden[:, :, 1] * 2 / 3, atol=1e-6)


@pytest.mark.parametrize(("name", "function"), [("gelu", gelu_tanh), ("gelu_erf", gelu_erf)])
def test_each_name_of_gelu_selects_its_formula(name, function):
    x = np.linspace(-6, 6, 101)
    np.testing.assert_allclose(np.asarray(hidden_activation(name)(x)), function(x), atol=1e-6)
    assert np.abs(gelu_tanh(x) - gelu_erf(x)).max() > 1e-4  # the two can be told apart


def test_an_unknown_activation_and_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match="divisible by num_heads=4. Received: 6"):
        SelfAttention(num_heads=4).build((None, None, 6))
    with pytest.raises(InputError, match="one of gelu, gelu_erf, relu, silu, tanh, linear. Received: 'swish'"):
        hidden_activation("swish")


def test_layer_norm_matches_a_hand_calculation():
    layer = LayerNorm()
    layer.build((None, 4))
    layer.gamma.assign([1, 1, 1, 2])
    layer.beta.assign([0, 0, 0, 5])
    # Mean 4 and variance (9 + 1 + 1 + 9) / 4 = 5.
    expected = np.array([[-3, -1, 1, 3]]) / np.sqrt(5) * [1, 1, 1, 2] + [0, 0, 0, 5]
    np.testing.assert_allclose(np.asarray(layer(np.array([[1.0, 3.0, 5.0, 7.0]]))), expected, rtol=1e-6)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16", "float16"])
def test_layer_norm_of_equal_numbers_is_finite_in_every_precision(policy):
    # 1e-12 is 0 in float16, so a variance of 0 would lead to a division by 0.
    outputs = LayerNorm(1e-12, dtype=policy)(np.full((1, 8), 3.0, "float32"))
    np.testing.assert_array_equal(np.asarray(keras.ops.cast(outputs, "float32")), np.zeros((1, 8)))


def test_layer_norm_in_float16_is_rounded_once_at_the_end():
    inputs = (vectors(4, 256) * 100 + 1000).astype("float16")  # its squares are infinite in float16
    exact = np.asarray(LayerNorm()(inputs.astype("float32")))
    rounded = np.asarray(LayerNorm(dtype="mixed_float16")(inputs)).astype("float32")
    np.testing.assert_allclose(rounded, exact, rtol=1e-3, atol=1e-3)


def test_weights_start_as_truncated_normals_with_zero_biases():
    block = TransformerBlock(num_heads=4, intermediate_size=512, initializer_range=0.02)
    block.build((None, None, 128))
    for weight in block.weights:
        values = np.asarray(weight)
        if weight.path.endswith("kernel"):
            assert np.abs(values).max() <= 0.04, "cut at two standard deviations, as tf.truncated_normal is"
            assert 0.016 < values.std() < 0.0185  # truncation leaves 0.88 of the standard deviation 0.02
        else:
            assert np.all(values == (1.0 if weight.path.endswith("gamma") else 0.0))


def test_attention_probabilities_add_up_to_one_and_stay_in_the_sequence():
    layer = SelfAttention(num_heads=2, initializer_range=0.5)
    outputs, probabilities = layer(vectors(2, 5, 6), bias(), return_attention=True)
    probabilities = np.asarray(probabilities)
    assert probabilities.shape == (2, 2, 5, 5)
    np.testing.assert_allclose(probabilities.sum(-1), 1.0, rtol=1e-5)
    first_row = probabilities[0, 0]
    assert np.all(first_row[:2, 2:] == 0)
    assert np.all(first_row[2:4, [0, 1, 4]] == 0)
    assert np.all(first_row[:2, :2] > 0)
    np.testing.assert_array_equal(np.asarray(layer(vectors(2, 5, 6), bias())), np.asarray(outputs))


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_dropout_drops_its_share_and_keeps_the_mean(dtype, jit_compile):
    layer = Dropout(0.1, seed=3, dtype=dtype)
    values = np.ones((301, 333), "float32")  # an odd number of values
    run = tf.function(lambda values: layer(values, training=True), jit_compile=jit_compile)
    first, second = (np.asarray(keras.ops.cast(run(values), "float32")) for _ in range(2))
    assert np.mean(first == 0) == pytest.approx(0.1, abs=0.005)
    assert set(np.unique(first)) <= {0.0, first.max()}
    assert first.max() == pytest.approx(1 / 0.9, rel=0.01)
    # Rows, columns and calls are independent.
    assert np.mean(first == second) == pytest.approx(0.82, abs=0.01)
    for axis in (0, 1):
        assert np.std(np.mean(first == 0, axis=axis)) < 0.025
    np.testing.assert_array_equal(layer(values, training=False), values)


def test_dropout_of_the_same_seed_is_the_same():
    values = np.ones((20, 30), "float32")
    np.testing.assert_array_equal(*(Dropout(0.5, seed=7)(values, training=True) for _ in range(2)))


@pytest.mark.parametrize("num_heads", [1, 2])
def test_a_learned_bias_that_all_heads_share_gets_its_gradient(num_heads):
    attention = SelfAttention(num_heads, dropout=0.0, initializer_range=1.0, dtype="float64")
    attention.learns_bias = True
    draw = np.random.default_rng(0)
    hidden, bias = draw.normal(size=(2, 5, 8)), tf.Variable(draw.normal(size=(2, 1, 5, 5)))

    def loss(bias):
        return tf.reduce_sum(tf.sin(attention(hidden, bias, training=True)))

    with tf.GradientTape() as tape:
        value = loss(bias)
    step = np.zeros(bias.shape)
    step[1, 0, 2, 3] = 1e-6
    expected = (loss(bias + step) - loss(bias - step)) / 2e-6
    assert abs(expected) > 1e-3
    np.testing.assert_allclose(tape.gradient(value, bias)[1, 0, 2, 3], expected, rtol=1e-6)


def test_attention_and_hidden_dropout_are_separate():
    hidden, allowed = vectors(2, 5, 6), bias()

    def changes(dropout, attention_dropout, training):
        block = TransformerBlock(2, 10, dropout=dropout, attention_dropout=attention_dropout)
        first, second = (np.asarray(block(hidden, allowed, training=training)) for _ in range(2))
        return not np.array_equal(first, second)

    assert not changes(0.0, 0.0, training=True)
    assert changes(0.5, 0.0, training=True)
    assert changes(0.0, 0.5, training=True)
    assert not changes(0.5, 0.5, training=False)
