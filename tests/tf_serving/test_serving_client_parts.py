"""The parts of the clients that need no server: formats, rows, pauses, arguments, imports."""

import json
import socket
import subprocess
import sys
import threading
import types

import numpy as np
import pytest
from tensorflow.core.framework import tensor_pb2

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.client import (
    DeadlineExceeded,
    GrpcClient,
    InvalidRequest,
    RestClient,
    ServingError,
    Unavailable,
)
from keras_bert.tf_serving.client.asking import Attempts
from keras_bert.tf_serving.client.errors import http_error
from keras_bert.tf_serving.client.grpc_api import GrpcFormat
from keras_bert.tf_serving.client.request_batches import as_arrays, join_rows, split_rows
from keras_bert.tf_serving.client.rest_format import RestFormat

BUSY = Unavailable("server", "UNAVAILABLE", "busy")


def test_pauses_double_with_chance_and_the_deadline_holds_for_all_attempts():
    now = [0.0]
    attempts = Attempts(10.0, 100, clock=lambda: now[0], draw=lambda: 1.0)
    pauses = []
    for _ in range(6):
        pauses.append(attempts.pause_after(BUSY))
        now[0] += pauses[-1]
    with pytest.raises(DeadlineExceeded, match="within 10 seconds; the last attempt ended with: busy"):
        attempts.pause_after(BUSY)
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
    assert attempts.remaining() == pytest.approx(10.0 - sum(pauses))
    half = Attempts(10.0, 1, clock=lambda: 0.0, draw=lambda: 0.0)
    assert half.pause_after(BUSY) == pytest.approx(0.05)
    with pytest.raises(Unavailable):
        half.pause_after(BUSY)
    patient = Attempts(100.0, 9, clock=lambda: 0.0, draw=lambda: 1.0)
    assert [patient.pause_after(BUSY) for _ in range(9)][6:] == [5.0, 5.0, 5.0], "no pause is longer than five seconds"
    with pytest.raises(InvalidRequest):
        Attempts(10.0, 5).pause_after(InvalidRequest("server", "INVALID_ARGUMENT", "wrong"))


def test_the_json_of_requests_is_as_documented():
    form = RestFormat("http://h:1", "", "m", None, None)
    request = form.predict("s", as_arrays({"text": ["a\u00e9", b"\xff"], "n": np.array([[1], [2]], np.int32)}))
    assert request.path == "/v1/models/m:predict"
    inputs = '{"text": ["a\u00e9", {"b64": "/w=="}], "n": [[1], [2]]}'
    assert request.body.decode() == f'{{"signature_name": "s", "inputs": {inputs}}}'
    request = form.classify("s", as_arrays({"text": ["a"], "x": [1.5]}))
    assert request.body.decode() == '{"signature_name": "s", "examples": [{"text": "a", "x": 1.5}]}'
    assert form.status().path == "/v1/models/m"
    assert form.metadata().path == "/v1/models/m/metadata"
    odd = np.array([np.nan, np.inf, -np.inf], np.float32)
    assert b"[NaN, Infinity, -Infinity]" in form.predict("s", {"x": odd}).body


def test_answers_are_read_as_tf_serving_prints_them():
    form = RestFormat("http://h:1", "", "m", 3, None)
    outputs = form.read_predict(
        b'{\n    "outputs": {\n        "p": [9e+06, 999999.0, NaN, -Infinity],\n        "n": [1, -1],\n "s": ["a"]}}'
    )
    np.testing.assert_array_equal(outputs["p"], [9e6, 999999.0, np.nan, -np.inf])
    assert (outputs["n"].dtype, outputs["n"].tolist(), outputs["s"].tolist()) == (np.int64, [1, -1], ["a"])
    assert form.read_predict(b'{"outputs": {"b64": "/w=="}}')[None].tolist() == b"\xff"
    status = b'{"version":"123","state":"AVAILABLE","status":{"error_code":"OK","error_message":""}}'
    [version] = form.read_status(b'{"model_version_status":[' + status + b"]}")
    assert (version.version, version.state, version.error_code, version.error_message) == (123, "AVAILABLE", "OK", "")
    assert json.loads(form.predict("s", {"x": np.zeros([0, 2])}).body)["inputs"] == {"x": []}


def test_lists_are_read_as_tensorflow_reads_them():
    import tensorflow as tf

    for value in ([1, 2], [[1.5], [2]], [2**40], [True], [1, 2.5], ["a", b"b"], [["a"], ["b"]], [np.int64(3)]):
        expected = tf.constant(value).numpy() if not isinstance(value[0], np.int64) else np.array([3])
        [array] = as_arrays({"x": value}).values()
        assert array.dtype == expected.dtype, value
        assert array.tolist() == expected.tolist()
    assert as_arrays({"x": []})["x"].dtype == object
    assert as_arrays({"x": np.array(["a", "\u00e9"])})["x"].tolist() == [b"a", "\u00e9".encode()]
    assert as_arrays({"x": ("a\0", b"b")})["x"].tolist() == [b"a\0", b"b"]
    assert as_arrays({"x": "a film", "y": b"b"}) == {"x": [b"a film"], "y": [b"b"]}


def sent(**inputs):
    return list(split_rows(as_arrays(inputs), 8))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RestClient("localhost:8501", "m"), "is not the URL of a server. Write http://host:port"),
        (lambda: RestClient("http://", "m"), "is not the URL of a server"),
        (lambda: RestClient("http://h:port", "m"), "is not a URL"),
        (lambda: RestClient("http://h", ""), "The model is ''"),
        (lambda: RestClient("http://h", "m", 1, "stable"), "a number or a label"),
        (lambda: RestClient("http://h", "m", -1), "version must be a whole number of at least 0"),
        (lambda: RestClient("http://h", "m", retries=-1), "retries must be a whole number of at least 0"),
        (lambda: RestClient("http://h", "m", headers={"a": "b\r\nc: d"}), "The header 'a': 'b.*' cannot be sent"),
        (lambda: RestClient("http://h", "m", batch_size=0).predict(text=["a"]), "batch_size must be a whole number"),
        (lambda: RestClient("http://h", "m").predict(x=np.zeros(1, np.complex64)), "JSON has no values"),
        (lambda: GrpcClient("http://h:1", "m"), "is not the address of a gRPC server. Write host:port"),
        (lambda: sent(), "No input was given"),
        (lambda: sent(text=[["a"], ["b", "c"]]), "The rows of text have different lengths; fill the short ones up"),
        (lambda: sent(x=[[1], [1, 2]]), "The rows of x have different lengths"),
        (lambda: sent(text=["a", None]), "text: A tensor of strings holds None"),
        (lambda: sent(text=["a", 1]), "text: A tensor of strings holds 1"),
        (lambda: sent(text=["\ud800"]), "half a surrogate pair"),
        (lambda: sent(x=[2**70]), "x has a whole number that does not fit into 64 bits"),
        (lambda: sent(a=["a"], b=["b", "c"]), "All inputs must have equally many rows: a has 1, b has 2"),
        (lambda: sent(a=["a"], b=np.float32(1)), "a has 1, b is a single value"),
        (lambda: join_rows([{"x": np.array(1)}, {"x": np.array(2)}]), "The output x cannot be joined: it has no rows"),
    ],
)
def test_what_cannot_be_a_client_or_be_asked_is_one_clear_error(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_answers_of_other_widths_are_filled_up_as_exports_fill_them():
    narrow = {"words": np.array([["a"]], object), "starts": np.array([[0]]), "word_ids": [[7]], "scores": [[0.5]]}
    wide = {"words": np.array([["b", "c"]], object), "starts": np.array([[0, 2]]), "word_ids": [[8, 9]]}
    parts = [narrow, wide | {"scores": [[1.5, 2.5]]}, {name: np.zeros([2, 0]) for name in narrow}]
    joined = join_rows([{name: np.asarray(values) for name, values in part.items()} for part in parts])
    assert {name: array.tolist() for name, array in joined.items()} == {
        "words": [["a", ""], ["b", "c"], ["", ""], ["", ""]],
        "starts": [[0, -1], [0, 2], [-1, -1], [-1, -1]],
        "word_ids": [[7, 0], [8, 9], [0, 0], [0, 0]],
        "scores": [[0.5, 0], [1.5, 2.5], [0, 0], [0, 0]],
    }


def test_rest_clients_need_numpy_only_and_a_grpc_client_imports_tensorflow_when_it_is_made():
    program = (
        "import sys, keras_bert.tf_serving.client as c\n"
        "heavy = lambda: [m for m in ('tensorflow', 'keras', 'grpc', 'google.protobuf', 'numpy') if m in sys.modules]\n"
        "c.RestClient('http://127.0.0.1:1', 'm'); c.AsyncRestClient('http://127.0.0.1:1', 'm'); print(heavy())\n"
        "kinds = c.GrpcClient, c.AsyncGrpcClient; print(heavy())\n"
        "c.GrpcClient('127.0.0.1:1', 'm'); print(heavy())\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    of_grpc = "['tensorflow', 'keras', 'grpc', 'google.protobuf', 'numpy']"
    assert result.stdout.splitlines() == ["['numpy']", "['numpy']", of_grpc], result.stderr


@pytest.mark.parametrize("package", ["tensorflow_serving.apis.classification_pb2", "grpc"])
def test_without_the_extra_a_grpc_client_says_what_to_install(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "keras_bert.tf_serving.client.grpc_api")
    with pytest.raises(InputError, match=r"tensorflow-serving-api, .* not installed.* pip install '\.\[client\]'"):
        GrpcClient("127.0.0.1:1", "m")


@pytest.mark.parametrize(
    "array",
    [
        *(np.array([[1], [0]]).astype(kind) for kind in ("f2", "f4", "f8", "i1", "i4", "i8", "u1", "u8", "?", "c8")),
        np.array([b"a\0", b"", b"\xff"], object),
        np.array(1.5, np.float32),
        np.zeros([0, 2], np.float32),
    ],
)
def test_arrays_pass_through_the_messages_of_grpc_as_they_are(array):
    form = GrpcFormat("h:1", "m", None, None)
    message = form.predict("s", {"x_bytes": array}).message
    found = form.read_predict(types.SimpleNamespace(outputs=message.inputs))["x_bytes"]
    assert (found.dtype, found.shape, found.tolist()) == (array.dtype, array.shape, array.tolist())


def test_tensors_that_cannot_be_sent_or_read_are_one_clear_error():
    form = GrpcFormat("h:1", "m", None, None)
    with pytest.raises(InputError, match="The input x, an array of type datetime64.*, cannot be sent"):
        form.predict("s", {"x": np.array(["2026-01-01"], "datetime64[D]")})
    for shape, kind in (([1 << 40], 1), ([-1], 1), ([2], 99)):
        tensor = tensor_pb2.TensorProto(dtype=kind)
        for size in shape:
            tensor.tensor_shape.dim.add(size=size)
        with pytest.raises(ServingError, match="the output y cannot be read"):
            form.read_predict(types.SimpleNamespace(outputs={"y": tensor}))


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("Unrecognized servable version label: nobody", "Check the label"),
        ("Malformed request: GET /v1/foo", "Check the URL of the server"),
        ("Not found: /v1/foo", "Check the URL of the server"),
        ("any other text", "Check the names, types and shapes of the inputs"),
    ],
)
def test_advice_fits_what_the_server_refused(text, advice):
    assert f"{text}. {advice}" in str(http_error("server", 400, text))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        # The first bytes of gRPC servers: a SETTINGS frame.
        (b"\0\0\x06\x04\0\0\0\0\0\0\x05\0\0\x40\0", "this port speaks gRPC, not HTTP/1.1. Give the port of the REST"),
        (b"SSH-2.0-OpenSSH\r\n", "the answer is not HTTP/1.1. Give the port of the REST API"),
    ],
)
def test_a_port_that_speaks_something_else_is_named(answer, text):
    def serve():
        with listener.accept()[0] as connection:
            connection.recv(1 << 16)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with RestClient(url, "m", timeout=5) as client, pytest.raises(ServingError) as caught:
            client.status()
        thread.join()
    assert text in str(caught.value)
    assert str(caught.value).isprintable()
