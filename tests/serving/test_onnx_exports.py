"""ONNX files compute what the Keras models compute, share weights, and have the form that ONNX Runtime fuses."""

import collections
import functools

import keras
import numpy as np
import onnx
import onnxruntime
import pytest
import tiny
from slow_parameters import slow_except
from tiny_models import MODELS, make_model, new_model

from keras_bert import BertEncoder, ReplacedTokenDetector, SequenceClassifier, TokenClassifier
from keras_bert.models.trainable_parts import enable_lora, lora_layers
from keras_bert.program.errors import InputError
from keras_bert.serving.graph.input_divisors import balanced_divisors
from keras_bert.serving.graph.onnx_graph import OnnxGraph
from keras_bert.serving.portable.onnx_engine import OnnxEngine
from keras_bert.serving.portable.onnx_model import write_onnx

# Rows of one token make Keras warn that the softmax of a single score is always 1.
pytestmark = pytest.mark.filterwarnings("ignore:You are using a softmax over axis")
FAMILIES = ["bert", "roberta", "albert", "distilbert", "electra", "modernbert", "mpnet", "deberta-v2"]
FAMILIES += ["nomic_bert", "gte", "jina_embeddings_v3", "eurobert", "gemma3_text", "neobert"]
# These have the network of "classifier".
SAME_NETWORK = ("pairs", "several labels", "regression", "windows", "few-shot classifier", "cross-encoder")
# `test_scenarios.py` asks every model of every family for answers to texts.
FEW = [(family, "classifier") for family in FAMILIES[1:]] + [("modernbert", "pretrainer"), ("albert", "all poolings")]
FEW += [("mpnet", "pretrainer"), ("deberta-v2", "pretrainer")]
# As DeBERTa-v2: with a convolution, tables of positions and segments, and one product of distances by its own layer.
DEBERTA_V2 = {"conv_kernel_size": 3, "conv_act": "gelu", "share_att_key": False, "norm_rel_ebd": "none"}
DEBERTA_V2 |= {"position_biased_input": True, "type_vocab_size": 2, "embedding_size": 8, "pos_att_type": "p2c"}
DEBERTA_V2 |= {"position_buckets": -1, "max_relative_positions": 5, "legacy": True}


def features_of(model, length: int, rows: int = 3, seed: int = 1) -> dict[str, np.ndarray]:
    """Rows of 1 to `length` tokens, the first of them full; of three choices if the model takes choices. Predictions
    are of tokens, not of padding."""
    draw = np.random.default_rng(seed)
    shape = (rows, 3, length) if "choices" in model.feature_axes else (rows, length)
    lengths = draw.integers(1, length + 1, shape[:-1])
    lengths[0] = length
    found = {
        "input_ids": draw.integers(0, model.config.vocab_size, shape),
        "input_mask": np.arange(length) < lengths[..., None],
        "segment_ids": draw.integers(0, max(model.config.type_vocab_size, 1), shape),
        "masked_lm_positions": draw.integers(0, np.repeat(lengths.reshape(rows, -1)[:, :1], 4, axis=1)),
    }
    return {name: found[name].astype("int32") for name in model.feature_names}


def assert_computes_like(engine, model, features, tolerance: float = 1e-5) -> None:
    found, expected = engine.run(features), model(features)
    assert isinstance(found, dict) == isinstance(expected, dict)
    if not isinstance(found, dict):
        found, expected = {"": found}, {"": expected}
    assert set(found) == set(expected)
    for name, values in found.items():
        assert values.dtype == "float32"
        np.testing.assert_allclose(values, np.asarray(expected[name]), rtol=tolerance, atol=tolerance)


def written(model, path, weights=None) -> OnnxEngine:
    write_onnx(model, path, weights)
    return OnnxEngine(path, num_threads=1)


def with_biases(model):
    """Returns the model after it has got random biases."""
    draw = np.random.default_rng(1)
    for weight in model.weights:
        if weight.path.endswith(("bias", "beta")):
            weight.assign(draw.normal(0, 0.3, weight.shape))
    return model


def check_model(model, path) -> None:
    engine = written(model, path)
    assert engine.feature_names == tuple(model.feature_names)
    for length in (1, 2, 7, model.config.max_sequence_length):
        assert_computes_like(engine, model, features_of(model, length))
    file = onnx.load(path)
    onnx.checker.check_model(file, full_check=True)
    assert [(opset.domain, opset.version) for opset in file.opset_import] == [("", 12)]
    assert {node.domain for node in file.graph.node} == {""}


@pytest.mark.parametrize("name", [name for name in MODELS if name not in SAME_NETWORK])
def test_every_model_computes_as_in_keras(name, tmp_path):
    check_model(make_model(name), tmp_path / "model.onnx")


@pytest.mark.parametrize(("family", "name"), FEW)
def test_every_family_computes_as_in_keras(family, name, tmp_path):
    check_model(make_model(name, family), tmp_path / "model.onnx")


@pytest.mark.parametrize("family", ["electra", "deberta-v2"])
def test_a_discriminator_computes_as_in_keras(family, tmp_path):
    check_model(with_biases(ReplacedTokenDetector(make_model("encoder", family).config)), tmp_path / "model.onnx")


@pytest.mark.parametrize("name", ["classifier", *slow_except([], ["pretrainer", "encoder"])])
def test_a_modern_bert_that_pools_the_mean_and_has_biases_computes_as_in_keras(name, tmp_path):
    changes = {"classifier_pooling": "mean", "attention_bias": True, "mlp_bias": True, "norm_bias": True}
    # The last layer is local, and its reach is 1.
    changes |= {"local_attention": 2, "num_hidden_layers": 3}
    check_model(with_biases(new_model(name, "modernbert", **changes)), tmp_path / "model.onnx")


@pytest.mark.parametrize("num_layers", [1, 2])
def test_a_deberta_with_a_convolution_and_all_tables_computes_as_in_keras(num_layers, tmp_path):
    model = with_biases(new_model("pretrainer", "deberta-v2", **DEBERTA_V2, num_hidden_layers=num_layers))
    check_model(model, tmp_path / "model.onnx")
    features = features_of(model, 24)
    found = written(model, tmp_path / "model.onnx", "int8").run(features)
    for name, values in model(features).items():
        assert np.corrcoef(found[name].ravel(), np.asarray(values).ravel())[0, 1] > 0.98


@pytest.mark.parametrize("act", ["gelu_erf", "tanh", *slow_except([], ["gelu", "relu", "linear"])])
def test_every_activation_computes_as_in_keras(act, tmp_path):
    model = small_tagger(hidden_act=act)
    assert_computes_like(written(model, tmp_path / "model.onnx"), model, features_of(model, 9))


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert", "deberta-v2"])
def test_padding_on_the_left_and_rows_of_padding_compute_as_in_keras(family, tmp_path):
    model = make_model("encoder", family)
    features = features_of(model, 6)
    features["input_mask"] = np.array([[0, 0, 1, 1, 1, 1], [0] * 6, [0, 1, 1, 1, 0, 0]], "int32")
    assert_computes_like(written(model, tmp_path / "model.onnx"), model, features)


def test_models_in_bfloat16_and_with_lora_are_written_as_float32_models(tmp_path):
    keras.utils.set_random_seed(1)
    config = small_tagger().config
    low = TokenClassifier(config, labels=["a", "b"], dtype="bfloat16")
    assert_computes_like(written(low, tmp_path / "low.onnx"), low, features_of(low, 9), tolerance=0.1)
    adapted = small_tagger.__wrapped__()  # LoRA changes it
    before = np.asarray(adapted(features_of(adapted, 9)))
    enable_lora(adapted, rank=2)
    for layer in lora_layers(adapted):
        layer.lora_kernel_b.assign(np.random.default_rng(1).normal(0, 0.3, layer.lora_kernel_b.shape))
    assert np.abs(np.asarray(adapted(features_of(adapted, 9))) - before).max() > 0.05
    assert_computes_like(written(adapted, tmp_path / "adapted.onnx"), adapted, features_of(adapted, 9))


@functools.cache
def small_tagger(model_type="bert", **changes) -> TokenClassifier:
    """A tagger with three layers and weights that are not small."""
    keras.utils.set_random_seed(2)
    shape = {"num_hidden_layers": 3, "max_position_embeddings": 32, "initializer_range": 0.3, "intermediate_size": 32}
    config = tiny.config(50, model_type=model_type, **shape | changes)
    return TokenClassifier(config, labels=["O", "B-A", "I-A"])


def stored_numbers(path) -> int:
    """The numbers in the tensors of a file, constants of formulas left out."""
    return sum(int(np.prod(tensor.dims)) for tensor in onnx.load(path).graph.initializer if "/" in tensor.name)


@pytest.mark.parametrize("weights", [None, "float16", "int8"])
def test_layers_that_share_weights_share_them_in_the_file(weights, tmp_path):
    changes = {"embedding_size": 8, "num_hidden_groups": 1}
    one, many = (small_tagger("albert", num_hidden_layers=layers, **changes) for layers in (1, 6))
    write_onnx(one, tmp_path / "one.onnx", weights)
    write_onnx(many, tmp_path / "many.onnx", weights)
    assert stored_numbers(tmp_path / "one.onnx") == stored_numbers(tmp_path / "many.onnx")
    if weights is None:
        assert stored_numbers(tmp_path / "many.onnx") == many.count_params() - pooler_numbers(many)


def pooler_numbers(model) -> int:
    return sum(int(np.prod(weight.shape)) for weight in model.encoder.pooler.weights)


def test_a_masked_lm_stores_its_table_of_tokens_once(tmp_path):
    model = make_model("masked words")
    write_onnx(model, tmp_path / "model.onnx")
    assert stored_numbers(tmp_path / "model.onnx") == model.count_params() - pooler_numbers(model)


def fused_nodes(path) -> collections.Counter:
    """The operations of the graph that ONNX Runtime runs."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path) + ".optimized"
    options.log_severity_level = 4
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return collections.Counter(node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node)


@pytest.mark.parametrize(("act", "gelu"), [("gelu", "FastGelu"), ("gelu_erf", "BiasGelu")])
@pytest.mark.parametrize("weights", [None, "float16"])
def test_onnx_runtime_fuses_attention_gelu_and_layer_norm_of_every_layer(weights, act, gelu, tmp_path):
    write_onnx(small_tagger(hidden_act=act), tmp_path / "model.onnx", weights)
    nodes = fused_nodes(tmp_path / "model.onnx")
    assert (nodes["Attention"], nodes[gelu], nodes["SkipLayerNormalization"]) == (3, 3, 1 + 2 * 3)
    assert not {"Softmax", "Erf", "Tanh", "ReduceMean"} & set(nodes)


def test_onnx_runtime_fuses_gelu_and_layer_norm_of_a_modern_bert(tmp_path):
    model = make_model("tagger", "modernbert")
    write_onnx(model, tmp_path / "model.onnx")
    nodes, layers = fused_nodes(tmp_path / "model.onnx"), model.config.num_hidden_layers
    # The first layer's attention has no LayerNorm; there are one behind the embeddings, a last one, and the head's.
    assert (nodes["LayerNormalization"], nodes["Gelu"], nodes["Softmax"]) == (2 * layers - 1 + 3, layers + 1, layers)
    assert not {"Erf", "ReduceMean"} & set(nodes)


def test_the_last_layer_of_a_classifier_runs_for_the_first_token_only(tmp_path):
    tagger = small_tagger(hidden_act="gelu_erf")
    write_onnx(SequenceClassifier(tagger.config, labels=["a", "b"]), tmp_path / "model.onnx")
    nodes = fused_nodes(tmp_path / "model.onnx")
    assert (nodes["Attention"], nodes["Softmax"], nodes["BiasGelu"], nodes["SkipLayerNormalization"]) == (2, 1, 3, 7)


@pytest.fixture(scope="module")
def int8_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("int8") / "model.onnx"
    write_onnx(small_tagger(), path, "int8")
    return path


def test_products_of_8_bit_numbers_are_fused(int8_file):
    nodes = fused_nodes(int8_file)
    # In each layer: query, key and value in one; output; two of the feed-forward part.
    assert (nodes["DynamicQuantizeMatMul"], nodes["SkipLayerNormalization"], nodes["FastGelu"]) == (4 * 3, 7, 3)


def test_the_feed_forward_parts_have_divided_inputs_and_rows_with_ranges(int8_file):
    graph = onnx.load(int8_file).graph
    assert sum(node.op_type == "ReduceMax" for node in graph.node) == 3
    assert sum(weight.name.endswith("/factors") for weight in graph.initializer) == 3


def test_integers_of_kernels_cannot_overflow_on_any_processor(int8_file):
    for tensor in onnx.load(int8_file).graph.initializer:
        if tensor.data_type == onnx.TensorProto.INT8:
            # Processors without VNNI add two products with numbers up to 255 in 16 bits.
            assert 2 * 255 * np.abs(onnx.numpy_helper.to_array(tensor).astype(int)).max() < 2**15


def test_smaller_weights_make_smaller_files(tmp_path):
    model = small_tagger(hidden_size=64, intermediate_size=256, vocab_size=500)
    for name, weights in (("float32", None), ("float16", "float16"), ("int8", "int8")):
        write_onnx(model, tmp_path / name, weights)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes["float16"] < 0.55 * sizes["float32"]
    assert sizes["int8"] < 0.35 * sizes["float32"]


def test_large_inputs_and_rows_leave_the_others_their_precision_in_8_bit_products():
    draw = np.random.default_rng(0)
    kernel = draw.normal(size=(24, 10)).astype(np.float32)
    usual = draw.integers(-1000, 1000, (12, 24)).astype(np.int32)
    sizes = np.where(np.arange(24) == 3, 50, 1)
    graph = OnnxGraph("int8", {"divided": balanced_divisors(sizes, kernel), "rows": None})
    values = graph.to_float("numbers")
    names = ("plain", "divided", "rows")
    outputs = {name: (graph.dense(name, values, kernel, None), ("rows", 10)) for name in names}
    file = graph.model({"numbers": ("rows", 24)}, outputs, "three products").SerializeToString()
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])

    def products_and_errors(numbers):
        found = dict(zip(names, session.run(names, {"numbers": numbers}), strict=True))
        exact = numbers @ kernel.astype(np.float64)
        return found, {name: np.abs(found[name] - exact)[:7].mean() for name in names}

    large_column, large_row = usual.copy(), usual.copy()
    large_column *= sizes.astype(np.int32)
    large_row[7] *= 100
    large_row[8] = 0
    _, errors = products_and_errors(large_column)
    assert errors["divided"] < 0.5 * errors["plain"]
    found, errors = products_and_errors(large_row)
    assert errors["rows"] < 0.1 * errors["plain"]
    np.testing.assert_array_equal(found["rows"][8], 0)


@pytest.mark.parametrize("family", slow_except(["bert", "modernbert"], FAMILIES))
@pytest.mark.parametrize(("weights", "least"), [("float16", 0.99999), ("int8", 0.98)])
def test_smaller_weights_change_the_vectors_little(family, weights, least, tmp_path):
    model = make_model("encoder", family)
    features = features_of(model, 24)
    found = written(model, tmp_path / "model.onnx", weights).run(features)
    is_token = features["input_mask"] > 0
    for name, rows in (("sequence_output", is_token), ("pooled_output", slice(None))):
        one, other = found[name][rows].ravel(), np.asarray(model(features)[name])[rows].ravel()
        assert np.corrcoef(one, other)[0, 1] > least


def test_the_same_model_gives_the_same_file(tmp_path):
    for name in ("a.onnx", "b.onnx"):
        write_onnx(make_model("classifier"), tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def with_large_numbers():
    model = BertEncoder(make_model("encoder").config)
    model.embeddings.token_embeddings.assign(0 * model.embeddings.token_embeddings + 1e5)
    return model


# The encoders that ONNX files can hold.
HELD = "BertEncoder, ModernBertEncoder, MPNetEncoder, DebertaEncoder, RotaryEncoder"


@pytest.mark.parametrize(
    ("make", "weights", "message"),
    [
        (lambda: keras.layers.Dense(2), None, "can hold these models: .*CrossEncoder, .*Received: Dense"),
        (lambda: BertEncoder(make_model("encoder").config, output_attentions=True), None, "output_attentions to False"),
        (lambda: make_model("encoder"), "int4", "must be float16, int8 or None .* Received: 'int4'"),
        (with_large_numbers, "float16", "float16 cannot hold the numbers of .*token_embeddings"),
        (lambda: make_model("encoder", "mobilebert"), None, f"{HELD}. MobileBertEncoder has others"),
        (lambda: make_model("masked words", "longformer"), None, f"{HELD}. LongEncoder has others"),
    ],
)
def test_models_that_the_format_cannot_hold_are_refused(make, weights, message, tmp_path):
    with pytest.raises(InputError, match=message):
        write_onnx(make(), tmp_path / "model.onnx", weights)
    assert not list(tmp_path.iterdir())


def test_a_file_above_the_limit_of_the_format_is_refused_before_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_bert.serving.portable.onnx_model._MOST_BYTES", 1000)
    with pytest.raises(InputError, match="at most 1,000 bytes, .* Use weights=float16"):
        write_onnx(make_model("encoder"), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
