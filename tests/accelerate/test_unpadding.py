import collections
import functools
import resource

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from encoders.test_encoder import MASKS, features, small_config
from numpy_bert import scatter_weights
from slow_parameters import slow_except
from tensorflow.python.eager import context

from keras_bert.accelerate.unpadding import lay_out, pack_rows
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.models import unpadded_encoder
from keras_bert.program.errors import InputError
from keras_bert.serving.export import export_for_serving
from keras_bert.tasks.classification.model import SequenceClassifier

# The masks of the encoder's tests, and a row without tokens.
MIXED_MASKS = [*MASKS, [0, 0, 0, 0, 0, 0, 0, 0]]


def first_fit(counts, width):
    """The expected layout by a plain loop: (row, column) of every sequence."""
    room, places = [], {}
    for number in sorted(range(len(counts)), key=lambda number: -counts[number]):
        fitting = [row for row, free in enumerate(room) if free >= counts[number]]
        if not fitting:
            fitting = [len(room)]
            room.append(width)
        places[number] = (fitting[0], width - room[fitting[0]])
        room[fitting[0]] -= counts[number]
    return [places[number] for number in range(len(counts))], len(room)


def peak_memory():
    """The peak memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def rounded(number, sizes_of_a_power):
    """Rounds up to a grid with this number of sizes per power of 2; with two: 1, 2, 3, 4, 6, 8, 12, ..."""
    unit = 1
    while number > 2 * sizes_of_a_power * unit:
        unit *= 2
    return -(-number // unit) * unit


@pytest.mark.parametrize("few_shapes", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_the_layout_is_first_fit_of_the_cheapest_width(seed, few_shapes):
    generator = np.random.default_rng(seed)
    counts = generator.integers(1, generator.integers(2, 60), generator.integers(1, 40)).astype("int32")
    hidden_size = int(generator.choice([8, 64, 768]))
    found = lay_out(tf.constant(counts), tf.constant(hidden_size), tf.constant(few_shapes))
    rows, columns, order, width = (value.numpy() for value in found)

    longest = -(-int(counts.max()) // 8) * 8
    candidates = [-(-int(longest * factor) // 8) for factor in (1, 1.25, 1.5)]
    candidates = [8 * (rounded(one, 2) if few_shapes and len(counts) > 1 else one) for one in candidates]
    numbers = [first_fit(counts, one)[1] for one in candidates]
    numbers = [rounded(number, 4) if few_shapes else number for number in numbers]
    costs = [number * one * (2 * hidden_size + one) for number, one in zip(numbers, candidates, strict=True)]
    best = candidates[int(np.argmin(costs))]
    assert width == best
    assert list(zip(rows, columns, strict=True)) == first_fit(counts, best)[0]
    is_earlier = (rows[:, None] == rows) & (columns < columns[:, None])
    assert order.tolist() == is_earlier.sum(axis=1).tolist()


def test_the_costs_of_three_thousand_long_rows_do_not_overflow():
    # Rows of 512 cost 2.10e9, of 640 2.61e9, of 768 2.65e9: the last two are negative in 32 bits.
    counts = tf.constant(np.repeat([512, 130], 1500), tf.int32)
    rows, columns, _, width = (value.numpy() for value in lay_out(counts, tf.constant(768), tf.constant(False)))
    assert width == 512
    assert list(zip(rows, columns, strict=True)) == first_fit(counts.numpy(), 512)[0]


def test_the_memory_of_a_layout_grows_with_the_rows_and_not_with_their_square():
    # 30,000 by 30,000 numbers are 3.6 GB each.
    spec = tf.TensorSpec([None, None], tf.int32)
    pack = tf.function(functools.partial(pack_rows, hidden_size=384, few_shapes=True), [spec] * 4, autograph=False)
    mask = tf.ones([30_000, 3], tf.int32)
    before = peak_memory()
    packed = pack(mask, mask, mask, mask)
    assert peak_memory() - before < 500 << 20
    assert len(set(packed.first_flat_indices.numpy().tolist())) == 30_000


def encoders(unpadded=True, **arguments):
    # ReLU, because TensorFlow's GELUs round their constants to float32 even in float64.
    padded = BertEncoder(small_config(hidden_act="relu"), dtype="float64", **arguments)
    scatter_weights(padded)
    unpadded = BertEncoder(padded.config, dtype="float64", unpadded=unpadded, **arguments)
    unpadded.set_weights(padded.get_weights())
    return padded, unpadded


@pytest.mark.parametrize(
    "masks",
    [
        MIXED_MASKS,
        [[1, 1, 1]],
        [[1, 1, 1], [1, 1, 1]],
        [[3, 0, 0], [0, 2, 2]],
        # A row without a token shares a packed row with one before it and with one after it.
        [[1, 1, 1], [0, 0, 0], [1, 1, 0]],
        [[0, 0, 0], [1, 2, 2], [0, 0, 0]],
    ],
)
@pytest.mark.parametrize("unpadded", slow_except(["few_shapes"], [True, "few_shapes"]))
def test_real_tokens_get_the_vectors_of_padded_rows(masks, unpadded):
    padded, unpadded = encoders(unpadded, output_hidden_states=True)
    inputs = features(masks)
    expected, received = padded(inputs), unpadded(inputs)
    real = inputs["input_mask"] > 0
    for one, other in zip(expected["hidden_states"], received["hidden_states"], strict=True):
        np.testing.assert_allclose(np.asarray(other)[real], np.asarray(one)[real], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(
        np.asarray(received["sequence_output"])[real], np.asarray(received["hidden_states"][-1])[real]
    )
    begins = real[:, 0]
    np.testing.assert_allclose(
        np.asarray(received["pooled_output"])[begins], np.asarray(expected["pooled_output"])[begins], rtol=0, atol=1e-12
    )
    only = unpadded.vectors_at(inputs)
    assert list(only) == ["pooled_output"]
    np.testing.assert_allclose(only["pooled_output"], received["pooled_output"], rtol=0, atol=1e-12)
    columns = np.argsort(~real, axis=1, kind="stable")[:, :2]  # of tokens, where a row has two
    chosen = unpadded.vectors_at(inputs, columns)
    assert set(chosen) == {"sequence_output", "pooled_output"}
    np.testing.assert_array_equal(
        chosen["sequence_output"], np.take_along_axis(np.asarray(received["sequence_output"]), columns[..., None], 1)
    )


def test_padding_gets_no_vector_of_another_row():
    _, unpadded = encoders()
    inputs = features([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0]])
    outputs = np.asarray(unpadded(inputs)["sequence_output"])
    for row in range(3):
        alone = unpadded({name: values[row : row + 1] for name, values in inputs.items()})["sequence_output"]
        np.testing.assert_allclose(outputs[row], np.asarray(alone)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("unpadded", slow_except(["few_shapes"], [True, "few_shapes"]))
def test_a_batch_without_rows(unpadded):
    _, unpadded = encoders(unpadded)
    inputs = {name: tf.constant(values[:0]) for name, values in features([[1, 1]]).items()}
    specs = [{name: tf.TensorSpec([None, None], tf.int32) for name in inputs}]
    encode = tf.function(unpadded, input_signature=specs, autograph=False)  # as served
    assert encode(inputs)["sequence_output"].shape == (0, 2, 12)
    pool = tf.function(unpadded.vectors_at, input_signature=specs, autograph=False)
    assert pool(inputs)["pooled_output"].shape == (0, 12)


@pytest.mark.parametrize("few_shapes", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_tokens_have_the_same_number_only_in_the_same_sequence_of_the_same_row(seed, few_shapes):
    generator = np.random.default_rng(seed)
    mask = generator.integers(0, generator.integers(2, 5), (12, 6)).astype("int32")
    mask[generator.permutation(12)[:5]] = 0  # rows without a token keep one column each
    rows = np.broadcast_to(np.arange(12)[:, None], mask.shape).astype("int32")
    packed = pack_rows(rows, tf.constant(mask), mask, mask, 8, few_shapes)
    numbers, places = packed.input_mask.numpy().ravel(), packed.flat_indices.numpy()
    is_token = (mask != 0) | (~mask.any(axis=1, keepdims=True) & (np.arange(6) == 0))
    found, expected = numbers[places[is_token]], rows[is_token] * 10 + mask[is_token]
    assert (found > 0).all()
    assert np.count_nonzero(numbers) == len(found)
    np.testing.assert_array_equal(found[:, None] == found, expected[:, None] == expected)


def test_joined_requests_have_few_shapes():
    # oneDNN keeps compiled code for each shape, so the memory of a server grows with them.
    generator = np.random.default_rng(0)
    spec = tf.TensorSpec([None, None], tf.int32)
    pack = functools.partial(pack_rows, hidden_size=384, few_shapes=True)
    pack = tf.function(pack, input_signature=[spec] * 4, autograph=False)
    rows_and_widths, shapes = set(), set()
    for _ in range(200):
        counts = generator.integers(3, 103, generator.integers(17, 65))
        mask = tf.constant(np.arange(counts.max()) < counts[:, None], tf.int32)
        packed = pack(mask, mask, mask, mask)
        assert len(set(packed.first_flat_indices.numpy())) == len(counts)
        rows_and_widths.add(tuple(packed.input_ids.shape))
        shapes.add((*packed.input_ids.shape, packed.first_columns.shape[1]))
        assert packed.input_ids.shape[0] == rounded(packed.input_ids.shape[0], 4)
        assert packed.input_ids.shape[1] == 8 * rounded(packed.input_ids.shape[1] // 8, 2)
    assert len(rows_and_widths) <= 24
    assert len(shapes) <= 30


def test_exports_have_few_shapes_and_leave_the_model_as_it_was(monkeypatch, tmp_path):
    asked = []

    def pack(*rows, few_shapes):
        asked.append(few_shapes)
        return pack_rows(*rows, few_shapes=few_shapes)

    monkeypatch.setattr(unpadded_encoder, "pack_rows", pack)
    model = SequenceClassifier(small_config(vocab_size=6), labels=["a", "b"])
    model.vocabulary = tiny.vocabulary("word")
    export_for_serving(model, tmp_path / "served")
    assert asked
    assert all(asked)
    assert model.encoder.unpadded is False


def test_training_keeps_the_rows_and_draws_as_before():
    padded, unpadded = encoders()
    inputs = features(MASKS)
    np.testing.assert_array_equal(
        unpadded(inputs, training=True)["sequence_output"].shape, padded(inputs, training=True)["sequence_output"].shape
    )
    no_dropout = small_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    one, other = BertEncoder(no_dropout), BertEncoder(no_dropout, unpadded=True)
    other.set_weights(one.get_weights())
    np.testing.assert_array_equal(
        one(inputs, training=True)["sequence_output"], other(inputs, training=True)["sequence_output"]
    )


@pytest.mark.parametrize("unpadded", [True, "few_shapes"])
def test_the_choice_is_saved(tmp_path, unpadded):
    encoder = BertEncoder(small_config(), unpadded=unpadded)
    encoder.save(tmp_path / "encoder.keras")
    assert keras.saving.load_model(tmp_path / "encoder.keras").unpadded == unpadded


def test_what_cannot_be_unpadded_is_refused(monkeypatch):
    with pytest.raises(InputError, match="must be False, True or 'few_shapes'. Received: 'some'"):
        BertEncoder(small_config(), unpadded="some")
    with pytest.raises(InputError, match="unpadded and output_attentions cannot be combined"):
        BertEncoder(small_config(), unpadded=True, output_attentions=True)
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(InputError, match="needs Keras on TensorFlow. Received: Keras on jax"):
        BertEncoder(small_config()).unpadded = True


def operations_that_run(function, *arguments):
    """Counts the operations in the optimised graphs of a function on this machine."""
    context.context().enable_graph_collection()
    try:
        function(*arguments)
        graphs = context.context().export_run_metadata().function_graphs
    finally:
        context.context().disable_graph_collection()
    counts = collections.Counter()
    for node in (node for graph in graphs for partition in graph.partition_graphs for node in partition.node):
        fused = [name.decode() for name in node.attr["fused_ops"].list.s] if "fused_ops" in node.attr else []
        counts[" + ".join([node.op.replace("_MklNative", "_").replace("_Mkl", ""), *fused])] += 1
    return counts


@pytest.mark.parametrize("unpadded", slow_except([True], [False, True]))
def test_tensorflow_fuses_the_operations_of_a_layer(unpadded):
    """Guards the speed: a change that breaks a fusion, or adds a change of layout, changes these numbers."""
    config = small_config(hidden_act="gelu_erf")
    inputs = {name: tf.constant(values) for name, values in features(MASKS).items()}
    counts = []
    for num_layers in (1, 2):
        encoder = BertEncoder(config.replace(num_hidden_layers=num_layers), unpadded=unpadded)
        specs = [{name: tf.TensorSpec([None, None], tf.int32) for name in inputs}]
        function = tf.function(
            lambda x, encoder=encoder: encoder(x)["sequence_output"], input_signature=specs, autograph=False
        )
        counts.append(operations_that_run(function, inputs))
    layer = counts[1] - counts[0]
    if not any("Gelu" in name for name in layer):
        pytest.skip("TensorFlow runs without oneDNN here, and fuses less.")
    fusions = {name: number for name, number in layer.items() if "FusedMatMul" in name}
    assert fusions == {
        "_FusedMatMul + BiasAdd": 4,  # query, key, value, and the output of attention
        "_FusedMatMul + BiasAdd + GeluExact": 1,
        "_FusedMatMul + BiasAdd + Add": 1,
    }
    assert (layer["BatchMatMulV2"], layer["Softmax"]) == (2, 1)
    assert (layer["GatherV2"], layer["Transpose"]) == (4, 0)  # query, key, value, and back
    assert layer["MatMul"] + layer["Cast"] + layer["Tile"] + layer["Einsum"] == 0
    # LayerNorms: 2 means, 1 difference, 1 square and 1 root each. Sums: 2 in each, 1 residual, 1 of the scores.
    assert (layer["Mean"], layer["Sub"], layer["Square"], layer["Rsqrt"]) == (4, 2, 2, 2)
    assert (layer["AddV2"], layer["Mul"]) == (6, 5)
