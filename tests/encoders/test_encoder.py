import json

import keras
import numpy as np
import pytest
import tiny
from encoder_contract import check_encoder
from numpy_bert import NumpyBert, scatter_weights, weights_by_name

from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.program.errors import InputError


def small_config(**changes):
    shape = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
    return tiny.config(30, **{**shape, "type_vocab_size": 3, **changes})


def features(masks, seed=0, vocab_size=30):
    masks = np.array(masks, "int32")
    generator = np.random.default_rng(seed)
    return {
        "input_ids": generator.integers(0, vocab_size, masks.shape).astype("int32"),
        "input_mask": masks,
        "segment_ids": generator.integers(0, 2, masks.shape).astype("int32"),
    }


# Padded on the right, not at all, on the left, packed, packed behind and between padding, one token.
MASKS = [
    [1, 1, 1, 1, 1, 0, 0, 0],
    [1, 1, 1, 1, 1, 1, 1, 1],
    [0, 0, 0, 1, 1, 1, 1, 1],
    [1, 1, 1, 2, 2, 3, 3, 0],
    [0, 1, 1, 0, 2, 2, 2, 0],
    [1, 0, 0, 0, 0, 0, 0, 0],
]


# TensorFlow's GELUs round their constants to float32, in float64 too.
@pytest.mark.parametrize(("activation", "tolerance"), [("gelu", 1e-6), ("gelu_erf", 1e-6), ("relu", 1e-11)])
def test_outputs_are_those_of_the_paper_written_in_numpy(activation, tolerance):
    config = small_config(hidden_act=activation)
    encoder = BertEncoder(config, output_hidden_states=True, output_attentions=True, dtype="float64")
    scatter_weights(encoder)
    inputs = features(MASKS)
    outputs = encoder(inputs)
    hidden_states, attentions = NumpyBert(weights_by_name(encoder), config).rows(**inputs)

    real = ~np.isnan(hidden_states)
    ours = np.stack(outputs["hidden_states"])
    np.testing.assert_allclose(ours[real], hidden_states[real], rtol=0, atol=tolerance)
    np.testing.assert_array_equal(np.asarray(outputs["sequence_output"]), ours[-1])
    real = ~np.isnan(attentions)
    np.testing.assert_allclose(np.stack(outputs["attentions"])[real], attentions[real], rtol=0, atol=tolerance)
    starts_with_a_token = np.array(MASKS)[:, 0] != 0
    pooled = NumpyBert(weights_by_name(encoder), config).pooled(hidden_states[-1][starts_with_a_token])
    np.testing.assert_allclose(
        np.asarray(outputs["pooled_output"])[starts_with_a_token], pooled, rtol=0, atol=tolerance
    )


def test_float32_stays_within_1e_5_of_the_paper_in_float64_and_padding_is_as_exact():
    config = small_config(hidden_size=48, num_hidden_layers=4, intermediate_size=192)
    encoder, exact = BertEncoder(config), BertEncoder(config, dtype="float64")
    scatter_weights(encoder, spread=0.1)
    exact.set_weights(encoder.get_weights())
    inputs = features(MASKS)
    found, expected = (np.asarray(each(inputs)["sequence_output"]) for each in (encoder, exact))
    assert [found.dtype, expected.dtype] == ["float32", "float64"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    of_paper = NumpyBert(weights_by_name(encoder), config).rows(**inputs)[0][-1]
    real = ~np.isnan(of_paper)
    np.testing.assert_allclose(found[real], of_paper[real], rtol=0, atol=1e-5)


def test_padding_changes_nothing_and_is_finite():
    encoder = BertEncoder(small_config())
    scatter_weights(encoder)
    short = features([[1, 1, 1, 1]])
    padded = {name: np.pad(array, [(0, 1), (0, 3)]) for name, array in short.items()}  # the second row is all padding
    padded["input_ids"][:, 4:] = 17
    outputs = encoder(padded)
    expected = np.asarray(encoder(short)["sequence_output"])
    np.testing.assert_allclose(np.asarray(outputs["sequence_output"])[:1, :4], expected, rtol=0, atol=1e-5)
    assert all(np.all(np.isfinite(np.asarray(values))) for values in outputs.values())


def test_hidden_states_and_attentions_are_there_only_if_asked_for():
    inputs = features(MASKS)
    plain = BertEncoder(small_config())(inputs)
    assert set(plain) == {"sequence_output", "pooled_output"}
    with_states = BertEncoder(small_config(), output_hidden_states=True)(inputs)
    assert set(with_states) == {*plain, "hidden_states"}
    assert [array.shape for array in with_states["hidden_states"]] == [(6, 8, 12)] * 3
    with_attentions = BertEncoder(small_config(), output_attentions=True)(inputs)
    assert set(with_attentions) == {*plain, "attentions"}
    assert [array.shape for array in with_attentions["attentions"]] == [(6, 3, 8, 8)] * 2


@pytest.mark.parametrize("cls_positions", [None, [[0, 0], [0, 3], [0, 4]]])
def test_vectors_at_chosen_columns_are_the_same_and_so_are_their_gradients(cls_positions):
    """The last layer then computes only these columns and [CLS]."""
    import tensorflow as tf

    config = small_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    encoder = BertEncoder(config, output_hidden_states=True, dtype="float64")
    batch = features([[1, 1, 1, 1, 1, 1], [1, 1, 1, 2, 2, 0], [0, 1, 1, 1, 3, 3]])
    if cls_positions:
        batch["cls_positions"] = np.array(cls_positions)
    columns = np.array([[5, 1, 1, 0], [3, 4, 0, 2], [2, 5, 3, 4]])  # out of order, and one twice
    found = []
    for selected in (True, False):
        with tf.GradientTape() as tape:
            outputs = encoder.vectors_at(batch, columns, training=True) if selected else encoder(batch, training=True)
            vectors = outputs["sequence_output"]
            if not selected:
                vectors = tf.gather(vectors, columns, batch_dims=1)
            loss = tf.reduce_sum(vectors**3) + tf.reduce_sum(outputs["pooled_output"] ** 2)
        gradients = tape.gradient(loss, [weight.value for weight in encoder.trainable_variables])
        assert ("hidden_states" in outputs) == (not selected)
        found.append([vectors, outputs["pooled_output"], *map(tf.convert_to_tensor, gradients)])
    for chosen, among_all in zip(*found, strict=True):
        np.testing.assert_allclose(chosen, among_all, rtol=0, atol=1e-11)


@pytest.mark.parametrize("places", [[9, 0, 16, 7, 7], []])  # out of order, and one twice
def test_vectors_at_chosen_places_are_the_same_and_so_are_their_gradients(places):
    import tensorflow as tf

    config = small_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    encoder = BertEncoder(config, output_hidden_states=True, dtype="float64")
    batch, places = features([[1, 1, 1, 1, 1, 1], [1, 1, 1, 2, 2, 0], [0, 1, 1, 1, 3, 3]]), np.array(places, "int32")
    found = []
    for selected in (True, False):
        with tf.GradientTape() as tape:
            if selected:
                vectors = encoder.vectors_at_flat(batch, places, training=True)
            else:
                vectors = encoder(batch, training=True)["sequence_output"]
                vectors = tf.gather(tf.reshape(vectors, [-1, vectors.shape[-1]]), places)
            loss = tf.reduce_sum(vectors**3)
        weights = [weight.value for weight in encoder.trainable_variables if "pooler" not in weight.path]
        found.append([vectors, *map(tf.convert_to_tensor, tape.gradient(loss, weights))])
    for chosen, among_all in zip(*found, strict=True):
        np.testing.assert_allclose(chosen, among_all, rtol=0, atol=1e-11)
    unpadded = BertEncoder(config, unpadded=True, dtype="float64")
    unpadded.set_weights(encoder.get_weights())
    np.testing.assert_allclose(unpadded.vectors_at_flat(batch, places), found[0][0], rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("method", "selected", "number"),
    [
        ("vectors_at", [[2, 7]] * len(MASKS), len(MASKS) * 3),  # [CLS] and two columns
        ("vectors_at_flat", [2, 7, 30], 3),
    ],
)
def test_the_last_layer_computes_for_chosen_tokens_alone(method, selected, number):
    import tensorflow as tf

    encoder = BertEncoder(small_config())
    vectors_of = getattr(encoder, method)
    graph = tf.function(lambda inputs: vectors_of(inputs, tf.constant(selected), training=True), autograph=False)
    operations = graph.get_concrete_function(features(MASKS)).graph.get_operations()
    rows = [op.outputs[0].shape[0] for op in operations if op.type == "MatMul" and op.outputs[0].shape[1] == 20]
    assert rows == [len(MASKS) * 8, number]  # the wide products of two layers


def test_dropout_acts_in_training_only():
    encoder = BertEncoder(small_config(hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5))
    inputs = features(MASKS)

    def run(training):
        return np.asarray(encoder(inputs, training=training)["pooled_output"])

    np.testing.assert_array_equal(run(False), run(False))
    np.testing.assert_array_equal(run(False), np.asarray(encoder(inputs)["pooled_output"]))
    assert not np.array_equal(run(True), run(True))
    assert not np.array_equal(run(True), run(False))


@pytest.mark.parametrize(("policy", "tolerance"), [("mixed_bfloat16", 0.1), ("mixed_float16", 0.01)])
def test_mixed_precision_stays_close_to_float32(policy, tolerance):
    exact, mixed = BertEncoder(small_config()), BertEncoder(small_config(), dtype=policy)
    scatter_weights(exact)
    mixed.set_weights(exact.get_weights())
    inputs = features(MASKS)
    real = inputs["input_mask"] > 0
    expected, outputs = exact(inputs), mixed(inputs)
    assert {weight.dtype for weight in mixed.weights} == {"float32"}
    assert keras.backend.standardize_dtype(outputs["sequence_output"].dtype) == policy.removeprefix("mixed_")
    for name, rows in (("sequence_output", real), ("pooled_output", inputs["input_mask"][:, 0] > 0)):
        ours = np.asarray(keras.ops.cast(outputs[name], "float32"))
        np.testing.assert_allclose(ours[rows], np.asarray(expected[name])[rows], atol=tolerance)
        assert np.all(np.isfinite(ours))


def test_the_global_dtype_policy_is_followed():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        encoder = BertEncoder(small_config())
    finally:
        keras.config.set_dtype_policy("float32")
    assert encoder.compute_dtype == "bfloat16"
    assert encoder.blocks[1].attention.query.compute_dtype == "bfloat16"


def test_config_round_trip_gives_the_same_model():
    encoder = BertEncoder(
        small_config(extra={"note": "kept"}), output_attentions=True, dtype="mixed_bfloat16", name="mine"
    )
    twin = BertEncoder.from_config(json.loads(json.dumps(encoder.get_config())))
    assert twin.get_config() == encoder.get_config()
    assert twin.config == encoder.config
    assert twin.config.extra == {"note": "kept"}
    assert twin.compute_dtype == "bfloat16"
    assert [weight.path for weight in twin.weights] == [weight.path for weight in encoder.weights]


def test_the_encoder_is_a_part_of_a_functional_model(without_graphs):
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in features(MASKS)}
    encoder = BertEncoder(small_config())
    outputs = keras.layers.Dense(1)(encoder(inputs)["pooled_output"])
    model = keras.Model(inputs, outputs)
    model.compile("sgd", loss="mse")
    model.fit(features(MASKS), np.zeros((6, 1)), verbose=0)
    assert model.predict(features(MASKS), verbose=0).shape == (6, 1)
    assert len(model.trainable_weights) == len(encoder.trainable_weights) + 2


def test_other_features_are_ignored_and_any_integer_type_is_taken():
    encoder = BertEncoder(small_config())
    inputs = features(MASKS)
    expected = np.asarray(encoder(inputs)["pooled_output"])
    more = {name: array.astype("int64") for name, array in inputs.items()}
    more["label_ids"] = np.zeros((6, 1))
    np.testing.assert_array_equal(np.asarray(encoder(more)["pooled_output"]), expected)
    np.testing.assert_array_equal(encoder.predict(more, verbose=0)["pooled_output"].shape, expected.shape)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"input_ids": MASKS, "input_mask": MASKS}, "Missing: segment_ids. Received: input_ids, input_mask$"),
        (
            np.zeros((2, 3), "int32"),
            "takes a dictionary with input_ids, .*Received: ndarray. Make it from texts: text_features",
        ),
        (features([1] * 5), r"input_ids must be an array \[batch, length\]. Received the shape \(5,\)"),
        (features([[1] * 17]), "17 is more than this model's 16 positions"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs, message):
    with pytest.raises(InputError, match=message):
        BertEncoder(small_config())(inputs)
    with pytest.raises(InputError, match="is made from a BertConfig. Received: {'vocab_size': 3}"):
        BertEncoder({"vocab_size": 3})


def test_a_long_sequence_of_unknown_length_fails_when_it_comes():
    import tensorflow as tf

    with tf.device("CPU:0"):  # a GPU reads other rows
        encoder = BertEncoder(small_config())
        specification = {name: tf.TensorSpec([None, None], tf.int32) for name in features(MASKS)}
        call = tf.function(lambda inputs: encoder(inputs)["pooled_output"], input_signature=[specification])
        assert call(features([[1] * 16])).shape == (1, 12)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"not in \[0, 16\)"):
            call(features([[1] * 17]))


def test_a_bert_keeps_the_contract_of_encoders():
    encoder = BertEncoder(small_config())
    scatter_weights(encoder)
    check_encoder(encoder)


def test_an_encoder_that_cannot_take_padding_out_says_so():
    class PaddedEncoder(BertEncoder):
        supports = ()

    encoder = PaddedEncoder(small_config())
    with pytest.raises(InputError, match="PaddedEncoder cannot compute without padding. Set unpadded=False"):
        encoder.unpadded = True
