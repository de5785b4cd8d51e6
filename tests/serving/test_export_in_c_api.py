"""Exported models run in TensorFlow's C API, which has the loader and the session of TensorFlow Serving.

They run in a process without TensorFlow for Python, with XLA switched off as in stock servers.
"""

import glob
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest
import signature_questions
import tensorflow as tf
from signature_questions import Question

# Reads questions from standard input and prints the answers. A question is a folder, the values of the tensors to feed
# and the names of those to fetch. The first argument is the folder of TensorFlow's libraries, the others are libraries
# of text operations.
SERVER = """
import ctypes, json, math, sys

FLOAT, INT32, STRING, BOOL = 1, 3, 7, 10
STRING_SIZE = 24


class Output(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


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
    if not values or not isinstance(values[0], list):
        return values, [len(values)]
    rows = [flatten(row) for row in values]
    return [item for row, _ in rows for item in row], [len(values), *rows[0][1]]


def tensor_of(values):
    flat, shape = flatten(values)
    is_text = not flat or isinstance(flat[0], str)
    data_type, size = (STRING, STRING_SIZE) if is_text else (INT32, 4)
    tensor = pointer(call("TF_AllocateTensor", data_type, (ctypes.c_int64 * len(shape))(*shape), len(shape),
                          ctypes.c_size_t(size * len(flat))))
    data = call("TF_TensorData", tensor)
    if not is_text:
        ctypes.memmove(data, (ctypes.c_int32 * len(flat))(*flat), 4 * len(flat))
        return tensor
    for index, text in enumerate(flat):
        text, string = text.encode("utf-8", "surrogateescape"), pointer(data + STRING_SIZE * index)
        call("TF_StringInit", string)
        call("TF_StringCopy", string, text, ctypes.c_size_t(len(text)))
    return tensor


def text_at(address):
    start = call("TF_StringGetDataPointer", pointer(address))
    size = call("TF_StringGetSize", pointer(address), result=ctypes.c_size_t)
    return ctypes.string_at(start, size).decode("utf-8", "surrogateescape")


def values_of(tensor):
    shape = [call("TF_Dim", tensor, axis, result=ctypes.c_int64)
             for axis in range(call("TF_NumDims", tensor, result=ctypes.c_int))]
    count = math.prod(shape)
    data, kind = call("TF_TensorData", tensor), call("TF_TensorType", tensor, result=ctypes.c_int)
    if kind == STRING:
        return shape, [text_at(data + STRING_SIZE * index) for index in range(count)]
    kinds = {FLOAT: ctypes.c_float, INT32: ctypes.c_int32, BOOL: ctypes.c_bool}
    return shape, list((kinds[kind] * count).from_address(data or 1)[:])


def load(folder):
    graph = pointer(call("TF_NewGraph"))
    options = pointer(call("TF_NewSessionOptions"))
    tags = (ctypes.c_char_p * 1)(b"serve")
    folder = folder.encode()
    session = pointer(call("TF_LoadSessionFromSavedModel", options, None, folder, tags, 1, graph, None, status))
    check()
    return graph, session


loaded = {}


def answer(folder, feeds, fetches):
    if folder not in loaded:
        loaded[folder] = load(folder)
    graph, session = loaded[folder]

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


def tensor_names(folder, signature):
    """Name on the wire -> tensor, for inputs and for outputs, as a server reads them."""
    from tensorflow.core.protobuf import saved_model_pb2

    graph = saved_model_pb2.SavedModel.FromString(pathlib.Path(folder, "saved_model.pb").read_bytes()).meta_graphs[0]
    tensors = graph.signature_def[signature]
    return [{name: tensor.name for name, tensor in side.items()} for side in (tensors.inputs, tensors.outputs)]


def serve(questions, folders, text_operations):
    """Answers questions in a process of its own; returns the process."""
    tensorflow_folder = os.path.dirname(tf.__file__)
    if not os.path.isfile(f"{tensorflow_folder}/libtensorflow_cc.so.2"):
        pytest.skip("this TensorFlow does not ship libtensorflow_cc.so.2")
    asked = []
    for question in questions:
        feeds, fetches = tensor_names(folders[question.model], question.signature)
        inputs = {feeds[name]: values for name, values in question.inputs.items()}
        asked.append((folders[question.model], inputs, fetches))
    return subprocess.run(
        [sys.executable, "-I", "-c", SERVER, tensorflow_folder, *text_operations],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
    )


def text_libraries(*names):
    [folder] = importlib.util.find_spec("tensorflow_text").submodule_search_locations
    return [library for name in names for library in glob.glob(f"{folder}/python/ops/{name}.so")]


MODELS = sorted({question.model for question in signature_questions.questions()})


@pytest.mark.parametrize(
    # `make test` tests one model.
    "model",
    [pytest.param(name, marks=[] if name == "single" else pytest.mark.slow) for name in MODELS],
)
def test_the_c_api_gives_the_answers_of_tensorflow_for_python_with_xla_switched_off(served, model):
    _, folders = served
    questions = [question for question in signature_questions.questions() if question.model == model]
    result = serve(questions, folders, text_libraries("_fast_bert_normalizer", "_fast_wordpiece_tokenizer"))
    assert result.returncode == 0, result.stderr
    result = json.loads(result.stdout)
    assert not result["tensorflow"]
    signature_questions.assert_answers(questions, result["answers"], folders)


def test_a_server_without_the_text_operations_says_so_when_loading(served):
    question = Question("single", "serving_default", {"text": ["the fox"]})
    result = serve([question], served[1], text_libraries("_fast_wordpiece_tokenizer"))
    assert result.returncode == 1
    assert "Op type not registered 'FastBertNormalize'" in result.stderr
