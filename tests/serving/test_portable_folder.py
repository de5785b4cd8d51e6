"""The folders of portable exports: their files, sizes and operations, and bad input."""

import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tiny
from ai_edge_litert import schema_py_generated as schema
from tiny_models import make_model

from keras_bert import BertConfig, InputError, SequenceClassifier, load_vocabulary
from keras_bert.serving import load
from keras_bert.serving.portable.checked_engine import CheckedEngine
from keras_bert.serving.portable.folder import read_portable, write_portable
from keras_bert.serving.portable.litert_engine import LiteRTEngine
from keras_bert.tasks.pretraining.replaced_token_detector import ReplacedTokenDetector
from keras_bert.tokenization.kinds import as_tokenizer
from run_scripts import export_model


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder of an exported classifier. Tests that change it copy it."""
    return make_model("classifier").export_for_serving(tmp_path_factory.mktemp("export") / "single", format="litert")


@pytest.fixture
def copied(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "copy")


def operations(path) -> set[str]:
    """The names of the built-in operations of a LiteRT file; a custom operation is named CUSTOM."""
    with open(path, "rb") as file:
        model = schema.Model.GetRootAs(file.read(), 0)
    names = {value: name for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
    return {names[model.OperatorCodes(number).BuiltinCode()] for number in range(model.OperatorCodesLength())}


def test_a_folder_has_the_files_that_the_page_lists(exported):
    names = ["bert_config.json", "export.json", "model.tflite", "tokenizer_vectors.json", "vocab.txt"]
    assert sorted(os.listdir(exported)) == names
    folder = read_portable(exported)
    assert (folder.format, folder.model, folder.weights) == ("litert", "SequenceClassifier", "float32")
    assert folder.settings == {"labels": ["animal", "none", "größer"]}
    assert folder.max_seq_length == 48


def test_a_litert_file_has_built_in_operations_only(exported):
    found = operations(os.path.join(exported, "model.tflite"))
    assert {"FULLY_CONNECTED", "SOFTMAX", "GELU", "BATCH_MATMUL"} <= found
    assert "CUSTOM" not in found


def test_the_test_vectors_are_those_of_the_tokenizer(exported):
    with open(os.path.join(exported, "tokenizer_vectors.json"), encoding="utf-8") as file:
        vectors = json.load(file)
    graph = as_tokenizer(load_vocabulary(exported), True).graph()
    assert len(vectors["texts"]) > 20
    ids = graph.tokenize([vector["text"] for vector in vectors["texts"]])
    assert [vector["ids"] for vector in vectors["texts"]] == ids.to_list()
    for vector in vectors["texts"]:
        assert len(vector["starts"]) == len(vector["ends"]) == len(vector["ids"])
        for start, end in zip(vector["starts"], vector["ends"], strict=True):
            assert 0 <= start <= end <= len(vector["text"])
    single, _, pair, _ = vectors["rows"]
    assert [len(single[name]) for name in ("input_ids", "input_mask", "segment_ids")] == [12, 12, 12]
    assert single["input_ids"][0] == vectors["special_tokens"]["cls"]
    assert (max(single["segment_ids"]), max(pair["segment_ids"])) == (0, 1)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Folders of a model large enough for 8 bits, by weights."""
    vocabulary = tiny.vocabulary(*(f"w{n}" for n in range(1995)))
    model = SequenceClassifier(tiny.config(vocabulary, hidden_size=128, intermediate_size=512), ["a", "b"])
    model.vocabulary = vocabulary
    folder = tmp_path_factory.mktemp("weights")
    kinds = {None: "float32", "float16": "float16", "int8": "int8"}
    return model, {name: write_portable(model, folder / name, "litert", kind) for kind, name in kinds.items()}


def test_smaller_weights_make_smaller_files_and_nearly_equal_answers(weights):
    model, folders = weights
    sizes = {name: os.path.getsize(os.path.join(folder, "model.tflite")) for name, folder in folders.items()}
    assert sizes["float16"] < 0.55 * sizes["float32"]
    assert sizes["int8"] < 0.3 * sizes["float32"]
    texts = [" ".join(f"w{n}" for n in range(first, first + 20)) for first in range(0, 200, 20)]
    expected = [answer.probability for answer in model.predict(texts)]
    for name, tolerance in {"float32": 1e-5, "float16": 1e-3, "int8": 1e-2}.items():
        found = [answer.probability for answer in load(folders[name]).predict(texts)]
        np.testing.assert_allclose(found, expected, atol=tolerance)


def test_8_bit_products_are_in_the_file(weights):
    _, folders = weights
    with open(os.path.join(folders["int8"], "model.tflite"), "rb") as file:
        model = schema.ModelT.InitFromPackedBuf(file.read(), 0)
    tensors = model.subgraphs[0].tensors
    is_dense = [code.builtinCode == schema.BuiltinOperator.FULLY_CONNECTED for code in model.operatorCodes]
    dense = [operator for operator in model.subgraphs[0].operators if is_dense[operator.opcodeIndex]]
    kinds = [tensors[operator.inputs[1]].type for operator in dense]
    assert kinds.count(schema.TensorType.INT8) >= 6


def test_the_command_exports_for_litert(tmp_path, run_here, refused_here):
    make_model("classifier").save_pretrained(tmp_path / "model")
    arguments = ["--model_dir", tmp_path / "model", "--output_dir", tmp_path / "out", "--format=litert"]
    code, shown = run_here(export_model, *arguments, "--max_seq_length=20")
    assert (code, shown.out.splitlines()[-1]) == (0, f"SequenceClassifier exported to {tmp_path / 'out'}")
    assert load(tmp_path / "out").max_seq_length == 20
    shown = refused_here(export_model, *arguments)
    assert "out is not empty. Remove it or give another name." in shown.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"format": "coreml"},
            "must be one of: saved_model, litert, onnx, huggingface-onnx. Received: 'coreml'",
        ),
        ({"weights": "int4"}, r"must be float16, int8 or None \(float32\). Received: 'int4'"),
        ({"dtype": "bfloat16"}, "dtype is for SavedModels. .*'bfloat16'. Give weights='float16' or"),
        ({"core_operations": True}, "core_operations is for SavedModels. Received: format='litert'"),
        ({"compute": "int8"}, "Exports have no option compute"),
        ({"top_k": 3}, "Exports for litert have no option top_k. Use one of: max_seq_length, pooling, normalize"),
        ({"pooling": "mean"}, "pooling is for exports of Encoder only. Received: SequenceClassifier"),
        ({"normalize": True}, "normalize is for exports of Encoder, SentenceEncoder only. Received: Seq"),
        ({"max_seq_length": 49}, "A sequence length of 49 is more than this model's 48 positions"),
    ],
)
def test_bad_options_are_named(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        make_model("classifier").export_for_serving(tmp_path / "out", **{"format": "litert", **options})
    assert not os.path.exists(tmp_path / "out")


class Unusual(SequenceClassifier):
    def call(self, inputs, training=False):
        return tf.math.erfinv(0.1 * super().call(inputs, training=training))


@pytest.mark.parametrize(
    ("kind", "has_vocabulary", "message"),
    [
        (Unusual, True, "LiteRT cannot hold this Unusual: it has no operation 'tf.Erfinv'"),
        (ReplacedTokenDetector, True, "Only these models can be exported: .* Received: ReplacedTokenDetector"),
        (SequenceClassifier, False, "The model has no vocabulary"),
    ],
)
def test_a_model_that_the_format_cannot_hold_is_named(kind, has_vocabulary, message, tmp_path):
    model = kind(make_model("classifier").config, **({} if kind is ReplacedTokenDetector else {"labels": ["a", "b"]}))
    model.vocabulary = make_model("classifier").vocabulary if has_vocabulary else None
    with pytest.raises(InputError, match=message):
        write_portable(model, tmp_path / "out", "litert")
    assert not os.path.exists(tmp_path / "out")


def changed(folder, **values) -> None:
    path = os.path.join(folder, "export.json")
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content | values, file)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"format": "openvino"}, "unknown format 'openvino'. This version reads: litert, onnx, saved_model"),
        ({"version": 1}, "export.json: version 1 of the format. This version of keras_bert reads 2. Export the model"),
        ({"network": None}, "export.json: network must be an object. Received: None"),
        ({"model": "BertEncoder2"}, "unknown model 'BertEncoder2'. This version loads: .*SequenceClassifier"),
        ({"max_seq_length": 4096}, "max_seq_length must be between 3 and the model's 48 positions. Received: 4096"),
        ({"max_seq_length": 10**400}, "max_seq_length must be between 3"),
        ({"max_seq_length": "long"}, "max_seq_length must be a whole number. Received: 'long'"),
        ({"model": "TextToText"}, "the format of a TextToText is saved_model only"),
        ({"model": 3}, "model must be a string"),
        ({"settings": {"labels": ["a", "a"]}}, r"the setting labels is not valid. Received: \['a', 'a'\]"),
        ({"settings": {"labels": ["a", "b", "c"], "doc_stride": 0}}, "doc_stride is not valid. Received: 0"),
        ({"settings": {"problem_type": []}}, "the setting problem_type is not valid"),
        ({"settings": None}, "settings must be an object. Received: None"),
    ],
)
def test_a_crafted_description_is_refused(copied, values, message):
    changed(copied, **values)
    with pytest.raises(InputError, match=message):
        load(copied)


def reverse_tokens(path) -> None:
    path.write_text("".join(reversed(path.read_text("utf-8").splitlines(keepends=True))), "utf-8")


def link_elsewhere(path) -> None:
    path.rename(path.parents[1] / "elsewhere")
    path.symlink_to(path.parents[1] / "elsewhere")


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("model.tflite", lambda path: path.write_bytes(path.read_bytes()[:1000]), "is not the file that was exported"),
        ("model.tflite", lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"), "export.json has another"),
        ("model.tflite", lambda path: flip(path, 5000), "is not the file that was exported"),
        ("vocab.txt", reverse_tokens, "is not the file that was exported"),
        ("model.tflite", lambda path: path.unlink(), ". Copy the whole folder of the export."),
        ("model.tflite", link_elsewhere, "is a link out of the folder"),
        ("copy", lambda path: shutil.rmtree(path.parent), "Give the folder of an export"),
    ],
)
def test_damaged_folders_are_refused(copied, name, damage, message):
    damage(copied / name)
    with pytest.raises(InputError, match=f"{name}.*{message}"):
        load(copied)


def flip(path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(("size", "start", "message"), [(1000, 0, "is damaged or of another kind"), (99, 9, "TFL3")])
def test_a_damaged_network_is_named(copied, size, start, message):
    network = copied / "model.tflite"
    network.write_bytes(network.read_bytes()[start:size])
    with pytest.raises(InputError, match=message):
        LiteRTEngine(network)


class _Echo:
    feature_names = ("input_ids", "input_mask", "segment_ids")

    def run(self, features):
        return np.float32(features["input_ids"])


def rows(ids):
    ids = np.array(ids)
    return {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (rows([[2, 100, 3]]), "input_ids must be from 0 to 99, since the vocabulary has 100 tokens. Received: 100"),
        (rows([[2, -1, 3]]), "input_ids must be from 0 to 99.* Received: -1. Use the tokenizer of the model"),
        (rows([[1] * 17]), "A sequence length of 17 is more than this model's 16 positions"),
        (rows([[1]]) | {"segment_ids": np.array([[2]])}, "segment_ids must be from 0 to 1"),
        (rows([[1]]) | {"input_mask": np.ones((1, 2))}, "arrays of one shape, 2 axes or more. Received: .*mask"),
        (rows([1]), "must be arrays of one shape, 2 axes or more"),
        ({"input_ids": np.array([[1]])}, "The model takes .* Missing: input_mask, segment_ids. Received: input_ids"),
    ],
)
def test_features_that_a_runtime_would_read_beyond_its_tables_with_are_refused(features, message):
    config = BertConfig.from_size("tiny", vocab_size=100, max_position_embeddings=16)
    with pytest.raises(InputError, match=message):
        CheckedEngine(_Echo(), config).run(features)


def test_leading_axes_are_restored():
    config = BertConfig.from_size("tiny", vocab_size=100)
    ids = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(CheckedEngine(_Echo(), config).run(rows(ids)), ids)
