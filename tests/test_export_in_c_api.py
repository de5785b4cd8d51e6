"""An exported model in TensorFlow's C API, which has the loader and the session of TensorFlow Serving.

It runs in a process without TensorFlow for Python, with XLA switched off as stock servers have it.
"""

import glob
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.models.sequence_classifier import BertSequenceClassifier
from keras_bert.serving.export import export_for_serving
from keras_bert.tokenization.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "fox", "##es", "jump", "dog", "."])
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY),
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
    initializer_range=0.5,
)

# Reads questions from standard input and prints the answers. A question is a folder, the values of the tensors to feed
# and the names of those to fetch. The first argument is the folder of TensorFlow's libraries, the others are libraries
# of text operations.
SERVER = """
import ctypes, json, sys

FLOAT, INT32, STRING, BOOL = 1, 3, 7, 10


class Output(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


class String(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("pointer", ctypes.c_char_p), ("unused", ctypes.c_size_t)]


framework = ctypes.CDLL(sys.argv[1] + "/libtensorflow_framework.so.2", ctypes.RTLD_GLOBAL)
tensorflow = ctypes.CDLL(sys.argv[1] + "/libtensorflow_cc.so.2", ctypes.RTLD_GLOBAL)


def call(name, *arguments, result=ctypes.c_void_p):
    function = getattr(tensorflow, name, None) or getattr(framework, name)
    function.restype = result
    return function(*arguments)


def pointer(value):
    return ctypes.c_void_p(value)


status = pointer(call("TF_NewStatus"))


def check():
    if call("TF_GetCode", status, result=ctypes.c_int):
        sys.exit(call("TF_Message", status, result=ctypes.c_char_p).decode())


call("_ZN10tensorflow21DisableXlaCompilationEv", result=None)
for library in sys.argv[2:]:
    call("TF_LoadLibrary", library.encode(), status)
    check()


def flatten(values):
    if values and isinstance(values[0], list):
        return [item for row in values for item in row], [len(values), len(values[0])]
    return values, [len(values)]


kept = []


def tensor_of(values):
    flat, shape = flatten(values)
    is_text = not flat or isinstance(flat[0], str)
    data_type, size = (STRING, ctypes.sizeof(String)) if is_text else (INT32, 4)
    tensor = pointer(call("TF_AllocateTensor", data_type, (ctypes.c_int64 * len(shape))(*shape), len(shape),
                          ctypes.c_size_t(size * len(flat))))
    data = call("TF_TensorData", tensor)
    if is_text:
        texts = [text.encode("utf-8", "surrogateescape") for text in flat]
        kept.append(texts)
        # The lowest bits 11 mean a view of bytes that belong to somebody else.
        strings = (String * len(flat))(*(String(len(text) << 2 | 3, text, 0) for text in texts))
        kept.append(strings)
        ctypes.memmove(data, strings, ctypes.sizeof(strings))
    else:
        ctypes.memmove(data, (ctypes.c_int32 * len(flat))(*flat), 4 * len(flat))
    return tensor


def text_at(address):
    kind = ctypes.c_ubyte.from_address(address).value & 3
    if kind == 0:
        return ctypes.string_at(address + 1, ctypes.c_ubyte.from_address(address).value >> 2)
    size = ctypes.c_size_t.from_address(address).value >> 2
    where = ctypes.c_size_t.from_address(address + (16 if kind == 1 else 8)).value
    assert kind in (1, 3), kind
    return ctypes.string_at(where, size)


def values_of(tensor):
    shape = [call("TF_Dim", tensor, axis, result=ctypes.c_int64)
             for axis in range(call("TF_NumDims", tensor, result=ctypes.c_int))]
    count = 1
    for length in shape:
        count *= length
    data, kind = call("TF_TensorData", tensor), call("TF_TensorType", tensor, result=ctypes.c_int)
    if kind == STRING:
        return shape, [text_at(data + 24 * index).decode() for index in range(count)]
    number = {FLOAT: ctypes.c_float, INT32: ctypes.c_int32, BOOL: ctypes.c_bool}[kind]
    return shape, list((number * count).from_address(data or 1)[:])


def answer(folder, feeds, fetches):
    graph = pointer(call("TF_NewGraph"))
    options = pointer(call("TF_NewSessionOptions"))
    tags = (ctypes.c_char_p * 1)(b"serve")
    folder = folder.encode()
    session = pointer(call("TF_LoadSessionFromSavedModel", options, None, folder, tags, 1, graph, None, status))
    check()

    def output(name):
        operation, _, index = name.partition(":")
        found = call("TF_GraphOperationByName", graph, operation.encode())
        assert found, name
        return Output(found, int(index))

    inputs = (Output * len(feeds))(*map(output, feeds))
    given = (ctypes.c_void_p * len(feeds))(*(tensor_of(values).value for values in feeds.values()))
    outputs = (Output * len(fetches))(*map(output, fetches.values()))
    taken = (ctypes.c_void_p * len(fetches))()
    call("TF_SessionRun", session, None, inputs, given, len(feeds), outputs, taken, len(fetches), None, 0, None, status)
    check()
    return {name: values_of(pointer(value)) for name, value in zip(fetches, taken)}


answers = [answer(*question) for question in json.loads(sys.stdin.read())]
print(json.dumps({"answers": answers, "tensorflow": "tensorflow" in sys.modules or "numpy" in sys.modules}))
"""


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports")
    keras.utils.set_random_seed(1)
    classifier, pretrainer = BertSequenceClassifier(CONFIG, labels=["animal", "none"]), BertPretrainer(CONFIG)
    classifier.vocabulary = pretrainer.vocabulary = VOCABULARY
    return {
        "single": export_for_serving(classifier, folder / "single"),
        "pairs": export_for_serving(classifier, folder / "pairs", text_pairs=True),
        "masked": export_for_serving(pretrainer, folder / "masked", top_k=3),
    }


def tensor_names(folder, signature):
    """Name on the wire -> tensor, for inputs and for outputs, as a server reads them."""
    from tensorflow.core.protobuf import saved_model_pb2

    graph = saved_model_pb2.SavedModel.FromString(pathlib.Path(folder, "saved_model.pb").read_bytes()).meta_graphs[0]
    tensors = graph.signature_def[signature]
    return [{name: tensor.name for name, tensor in side.items()} for side in (tensors.inputs, tensors.outputs)]


def serve(questions, text_operations):
    """Answers `(folder, signature, inputs)` in a process of its own; returns the process."""
    tensorflow_folder = os.path.dirname(tf.__file__)
    if not os.path.isfile(f"{tensorflow_folder}/libtensorflow_cc.so.2"):
        pytest.skip("this TensorFlow does not ship libtensorflow_cc.so.2")
    asked = []
    for folder, signature, inputs in questions:
        feeds, fetches = tensor_names(folder, signature)
        asked.append((folder, {feeds[name]: values for name, values in inputs.items()}, fetches))
    return subprocess.run(
        [sys.executable, "-I", "-c", SERVER, tensorflow_folder, *text_operations],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
    )


def text_libraries(*names):
    [folder] = importlib.util.find_spec("tensorflow_text").submodule_search_locations
    return [library for name in names for library in glob.glob(f"{folder}/python/ops/{name}.so")]


def test_the_c_api_gives_the_answers_of_tensorflow_for_python_with_xla_switched_off(exports):
    texts = ["the fox", "", "the foxes jump. " * 20, "\udcff the dog", "ﬁ ß"]
    rows = [[2, 5, 6, 3, 2], [2, 5, 4, 7, 3]]
    questions = [
        (exports["single"], "serving_default", {"text": texts}),
        (exports["single"], "tokens", {"input_ids": rows, "lengths": [4, 5]}),
        (exports["single"], "serving_default", {"text": []}),
        (exports["pairs"], "serving_default", {"text": texts, "text_b": texts[::-1]}),
        (exports["pairs"], "tokens", {"input_ids": rows, "segment_ids": [[0] * 5, [1] * 5], "lengths": [4, 5]}),
        (exports["masked"], "serving_default", {"text": ["the [MASK] jump [MASK]", "", "[MASK]"]}),
        (exports["masked"], "serving_default", {"text": ["the dog"]}),
        (exports["masked"], "tokens", {"input_ids": rows, "lengths": [4, 5]}),
    ]
    result = serve(questions, text_libraries("_fast_bert_normalizer", "_fast_wordpiece_tokenizer"))
    assert result.returncode == 0, result.stderr
    result = json.loads(result.stdout)
    assert not result["tensorflow"]
    loaded = {folder: tf.saved_model.load(folder) for folder in exports.values()}
    for (folder, signature, inputs), answer in zip(questions, result["answers"], strict=True):
        inputs = {name: as_tensor(name, values) for name, values in inputs.items()}
        expected = loaded[folder].signatures[signature](**inputs)
        assert set(answer) == set(expected)
        for name, (shape, values) in answer.items():
            assert shape == expected[name].shape.as_list()
            if expected[name].dtype == tf.string:
                assert values == [value.decode() for value in expected[name].numpy().reshape(-1)]
            else:
                np.testing.assert_allclose(values, expected[name].numpy().reshape(-1), atol=1e-5)


def as_tensor(name, values):
    if name.startswith("text"):
        return tf.constant(
            [value.encode("utf-8", "surrogateescape") for value in values], tf.string, shape=[len(values)]
        )
    return tf.constant(values)


def test_a_server_without_the_text_operations_says_so_when_loading(exports):
    question = (exports["single"], "serving_default", {"text": ["the fox"]})
    result = serve([question], text_libraries("_fast_wordpiece_tokenizer"))
    assert result.returncode == 1
    assert "Op type not registered 'FastBertNormalize'" in result.stderr
