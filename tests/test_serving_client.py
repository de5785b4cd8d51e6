"""The clients against a small TF Serving of our own: formats, errors, retries, deadlines, threads."""

import asyncio
import concurrent.futures
import json
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from fake_tf_serving import FakeTfServing, probabilities

from keras_bert.errors import InputError
from keras_bert.serving.client import (
    AsyncGrpcClient,
    AsyncRestClient,
    DeadlineExceeded,
    GrpcClient,
    InvalidRequest,
    NotFound,
    RestClient,
    ServingError,
    Unavailable,
)
from keras_bert.serving.client.model_info import Tensor
from keras_bert.serving.client.rest_format import RestFormat
from keras_bert.serving.client.retrying import Attempts
from keras_bert.serving.client.rows import as_arrays, join_rows, split_rows

TEXTS = ["a", "", "a long text", "caf\u00e9", "NUL \0", "\u2028\U0001f600"]


@pytest.fixture(scope="module")
def running():
    server = FakeTfServing()
    yield server
    server.close()


@pytest.fixture
def server(running):
    running.requests.clear()
    running.misbehaviour.clear()
    running.grpc_misbehaviour.clear()
    return running


class Waiting:
    """An async client that is used as the others are: every call runs in an event loop of its own thread."""

    def __init__(self, kind, *arguments, **options):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

        async def make():
            return kind(*arguments, **options)

        self._client = self._run(make())

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def __getattr__(self, name):
        return lambda *arguments, **options: self._run(getattr(self._client, name)(*arguments, **options))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def make_client(kind: str, server, model="toy", **options):
    if kind == "rest":
        return RestClient(server.url, model, **options)
    if kind == "grpc":
        return GrpcClient(server.address, model, **options)
    if kind == "async rest":
        return Waiting(AsyncRestClient, server.url, model, **options)
    return Waiting(AsyncGrpcClient, server.address, model, **options)


KINDS = ["rest", "grpc", "async rest", "async grpc"]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def test_three_lines_suffice(server):
    with RestClient(server.url, "toy") as client:
        answer = client.predict(text=["a wonderful film"])
        assert (answer["label"][0], round(answer["probability"][0], 4)) == ("long", 0.8)


def test_outputs_have_names_and_strings_are_text(server, kind):
    with make_client(kind, server) as client:
        answer = client.predict(text=TEXTS)
    expected = probabilities([text.encode() for text in TEXTS])
    assert answer["probabilities"].astype(np.float32).tobytes() == expected.tobytes()
    assert answer["labels"].tolist() == [["short", "long"]] * 6
    assert answer["label"].tolist() == [["short", "long"][row.argmax()] for row in expected]
    assert all(type(label) is str for label in answer["label"])


def test_strings_that_are_not_utf_8_arrive_and_come_back_as_they_were(server, kind):
    values = [b"\xff\0", "caf\u00e9", b"", "\udcfe", b"a\0"]
    with make_client(kind, server) as client:
        answer = client.predict("echo", value_bytes=values)
        assert answer["value_bytes"].tolist() == [b"\xff\0", "caf\u00e9".encode(), b"", b"\xfe", b"a\0"]
        assert answer["text"].tolist() == [b"\xff\0", "caf\u00e9", "", b"\xfe", "a\0"]


def test_numbers_of_json_have_the_widths_of_json_and_grpc_has_its_own(server):
    given = np.array([[0.1, np.nan], [np.inf, -1e30]], np.float32)
    with make_client("rest", server) as rest, make_client("grpc", server) as grpc:
        by_rest, by_grpc = (client.predict("add", a=given, b=np.zeros_like(given)) for client in (rest, grpc))
    assert (by_rest["sum"].dtype, by_grpc["sum"].dtype) == (np.float64, np.float32)
    assert by_rest["places"].dtype == by_grpc["places"].dtype == np.int64
    assert by_rest["sum"].astype(np.float32).tobytes() == by_grpc["sum"].tobytes() == given.tobytes()


def test_an_only_output_has_its_name(server, kind):
    with make_client(kind, server) as client:
        assert {name: array.tolist() for name, array in client.predict("length", text=TEXTS[:3]).items()} == {
            "length": [1, 0, 11]
        }
        count = len(server.requests)
        client.predict("length", text=["a"])
        assert len(server.requests) == count + 1  # the name is asked for once


def test_classify_and_regress_take_rows_of_features(server, kind):
    expected = probabilities([text.encode() for text in TEXTS])
    with make_client(kind, server, batch_size=4) as client:
        answer = client.classify(text=TEXTS)
        assert answer["classes"].tolist() == [["short", "long"]] * 6
        assert answer["scores"].astype(np.float32).tobytes() == expected.tobytes()
        scores = client.regress(text=TEXTS)
        assert scores.astype(np.float32).tobytes() == np.ascontiguousarray(expected[:, 1]).tobytes()
        assert client.classify(text=[b"\xff"])["scores"].astype(np.float32).tolist() == probabilities([b"1"]).tolist()


def test_examples_on_the_wire_are_tensorflows_own(server):
    import tensorflow as tf

    with make_client("grpc", server) as client:
        client.classify(text=["a", b"\xff\0"], number=np.array([[1, 2], [3, 4]]), weight=[0.5, 1.5])
    [(_, message, _)] = server.requests
    rows = [tf.train.Example.FromString(x.SerializeToString()) for x in message.input.example_list.examples]
    assert rows[1] == tf.train.Example(
        features=tf.train.Features(
            feature={
                "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"\xff\0"])),
                "number": tf.train.Feature(int64_list=tf.train.Int64List(value=[3, 4])),
                "weight": tf.train.Feature(float_list=tf.train.FloatList(value=[1.5])),
            }
        )
    )
    assert len(rows) == 2


def test_many_rows_go_as_several_requests_and_keep_their_order(server, kind):
    texts = ["x" * (number % 23) for number in range(1000)]
    server.misbehave(0.1)  # the first is overtaken
    with make_client(kind, server, batch_size=30, max_in_flight=5) as client:
        answer = client.predict(text=texts)
    assert len(server.requests) == 34
    assert answer["probabilities"].astype(np.float32).tobytes() == probabilities(texts).tobytes()


def test_several_requests_are_under_way_at_once_and_no_more_than_allowed(server, kind):
    for in_flight, least, most in ((1, 1, 1), (4, 2, 4)):
        server.most_at_work = 0
        server.misbehave(*[0.05] * 8)
        server.grpc_misbehaviour.extend([0.05] * 8)
        with make_client(kind, server, batch_size=1, max_in_flight=in_flight) as client:
            client.predict(text=["a"] * 8)
        assert least <= server.most_at_work <= most
        server.misbehaviour.clear()
        server.grpc_misbehaviour.clear()


def test_outputs_of_other_widths_are_filled_up_as_a_server_fills_them(server, kind):
    with make_client(kind, server, batch_size=1) as client:
        parts = client.predict("pieces", text=["a", "b cd e", "f g"])
    with make_client(kind, server) as client:
        whole = client.predict("pieces", text=["a", "b cd e", "f g"])
    assert whole["starts"].tolist() == [[0, -1, -1], [0, 2, 5], [0, 2, -1]]
    assert {name: array.tolist() for name, array in parts.items()} == {
        name: array.tolist() for name, array in whole.items()
    }


def test_no_rows_are_asked_too(server, kind):
    with make_client(kind, server) as client:
        answer = client.predict(text=[])
    assert [len(answer[name]) for name in ("label", "probability", "labels", "probabilities")] == [0, 0, 0, 0]


def test_metadata_and_status_say_what_is_there(server, kind):
    with make_client(kind, server) as client:
        metadata = client.metadata()
        assert (metadata.name, metadata.version) == ("toy", 3)
        signature = metadata.signatures["serving_default"]
        assert signature.inputs == {"text": Tensor("string", (None,))}
        assert signature.outputs["probabilities"] == Tensor("float", (None, None))
        assert signature.method_name == "tensorflow/serving/predict"
        assert [(version.version, version.state, version.error_code) for version in client.status()] == [
            (2, "END", "OK"),
            (3, "AVAILABLE", "OK"),
        ]
        assert client.wait_until_available(timeout=5) == 3


def test_versions_and_labels_choose(server, kind):
    for chosen in ({"version": 3}, {"label": "stable"}):
        with make_client(kind, server, **chosen) as client:
            assert client.predict(text=["a"])["label"].tolist() == ["short"]
    for chosen in ({"version": 2}, {"label": "canary"}):
        with make_client(kind, server, **chosen) as client, pytest.raises(NotFound, match="Servable not found for"):
            client.predict(text=["a"])


def test_names_of_models_may_hold_any_sign(server):
    with RestClient(server.url + "/", "a/b c\u00e9", label="x y") as client, pytest.raises(NotFound):
        client.predict(text=["a"])
    assert server.requests[-1][1] == "/v1/models/a%2Fb%20c%C3%A9/labels/x%20y:predict"
    below = RestClient(server.url + "/below/", "toy")
    with below, pytest.raises(InvalidRequest, match="Malformed request: GET /below/v1/models/toy"):
        below.status()


def test_what_the_request_has_wrong_is_said_and_not_tried_again(server, kind):
    with make_client(kind, server, model="other") as client, pytest.raises(NotFound) as caught:
        client.predict(text=["a"])
    assert caught.value.code == "NOT_FOUND"
    assert caught.value.server_text == "Servable not found for request: Latest(other)"
    assert "Check the name of the model" in str(caught.value)
    with make_client(kind, server) as client:
        with pytest.raises(InvalidRequest, match='signature.* "none" ?not found|key "none" not found'):
            client.predict("none", text=["a"])
        with pytest.raises(InvalidRequest, match="issing.*text"):
            client.predict(txt=["a"])
    assert len(server.requests) == 3


def test_every_status_has_its_error(server):
    found = {}
    with make_client("rest", server, retries=0) as client:
        for status in (400, 401, 403, 404, 409, 413, 418, 429, 499, 500, 501, 503, 504):
            server.misbehave(status)
            with pytest.raises(ServingError) as caught:
                client.predict(text=["a"])
            found[status] = (caught.value.code, type(caught.value).__name__)
            assert caught.value.http_status == status
            assert f"HTTP {status}): told to answer {status}." in str(caught.value)
    assert found == {
        400: ("INVALID_ARGUMENT", "InvalidRequest"),
        401: ("UNAUTHENTICATED", "ServingError"),
        403: ("PERMISSION_DENIED", "ServingError"),
        404: ("NOT_FOUND", "NotFound"),
        409: ("ALREADY_EXISTS", "ServingError"),
        413: ("UNKNOWN", "ServingError"),
        418: ("UNKNOWN", "ServingError"),
        429: ("RESOURCE_EXHAUSTED", "Unavailable"),
        499: ("CANCELLED", "ServingError"),
        500: ("INTERNAL", "ServingError"),
        501: ("UNIMPLEMENTED", "ServingError"),
        503: ("UNAVAILABLE", "Unavailable"),
        504: ("DEADLINE_EXCEEDED", "DeadlineExceeded"),
    }
    with make_client("grpc", server, retries=0) as client:
        for code, error in [
            ("INVALID_ARGUMENT", InvalidRequest),
            ("FAILED_PRECONDITION", InvalidRequest),
            ("OUT_OF_RANGE", InvalidRequest),
            ("NOT_FOUND", NotFound),
            ("RESOURCE_EXHAUSTED", Unavailable),
            ("UNAVAILABLE", Unavailable),
            ("DEADLINE_EXCEEDED", DeadlineExceeded),
            ("INTERNAL", ServingError),
        ]:
            server.grpc_misbehaviour.append(code)
            with pytest.raises(ServingError, match=f"gave {code}: told to answer {code}") as caught:
                client.predict(text=["a"])
            assert type(caught.value) is error


def test_a_busy_server_is_asked_again_until_it_answers(server, kind):
    server.misbehave(503, 429, "close")
    server.grpc_misbehaviour.extend(["UNAVAILABLE", "RESOURCE_EXHAUSTED", "UNAVAILABLE"])
    with make_client(kind, server) as client:
        assert client.predict(text=["a"])["label"].tolist() == ["short"]
    assert len(server.requests) == 4


def test_patience_ends_with_the_retries(server, kind):
    server.misbehave(503, 503, 503)
    server.grpc_misbehaviour.extend(["UNAVAILABLE"] * 3)
    with make_client(kind, server, retries=1) as client, pytest.raises(Unavailable, match="after 2 attempts"):
        client.predict(text=["a"])
    assert len(server.requests) == 2


def test_no_server_is_unavailable(kind):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    class Nobody:
        url, address = f"http://127.0.0.1:{port}", f"127.0.0.1:{port}"

    with make_client(kind, Nobody, retries=1) as client:
        with pytest.raises(Unavailable, match="after 2 attempts: .*Check that the server runs at this address"):
            client.predict(text=["a"])
        with pytest.raises(DeadlineExceeded, match=r"no version was available within 0.3 seconds: .*onnect"):
            client.wait_until_available(timeout=0.3)


def test_pauses_double_with_chance_and_the_deadline_holds_for_all_attempts():
    now = [0.0]
    attempts = Attempts(10.0, 100, clock=lambda: now[0], draw=lambda: 1.0)
    pauses = []
    for _ in range(6):
        pauses.append(attempts.pause_after(Unavailable("server", "UNAVAILABLE", "busy")))
        now[0] += pauses[-1]
    with pytest.raises(DeadlineExceeded, match="no answer within 10 seconds; the last attempt ended with: busy"):
        attempts.pause_after(Unavailable("server", "UNAVAILABLE", "busy"))
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
    assert attempts.remaining() == pytest.approx(10.0 - sum(pauses))
    half = Attempts(10.0, 1, clock=lambda: 0.0, draw=lambda: 0.0)
    assert half.pause_after(Unavailable("server", "UNAVAILABLE", "busy")) == pytest.approx(0.05)
    with pytest.raises(Unavailable):
        half.pause_after(Unavailable("server", "UNAVAILABLE", "busy"))
    with pytest.raises(InvalidRequest):
        Attempts(10.0, 5).pause_after(InvalidRequest("server", "INVALID_ARGUMENT", "wrong"))


def test_slow_answers_end_at_the_deadline(server, kind):
    server.misbehave(1.0)
    server.grpc_misbehaviour.append(1.0)
    with make_client(kind, server, timeout=0.3) as client:
        start = time.monotonic()
        with pytest.raises(DeadlineExceeded, match="Allow more time"):
            client.predict(text=["a"])
        assert 0.25 < time.monotonic() - start < 0.95  # the answer comes after 1.0
        assert client.predict(text=["a"])["label"].tolist() == ["short"]


def test_an_answer_that_trickles_in_ends_at_the_deadline(server):
    server.misbehave("drip")
    with make_client("rest", server, timeout=0.4) as client:
        start = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            client.predict(text=["a"])
        assert 0.3 < time.monotonic() - start < 3.0  # the answer takes 10


def test_connections_are_kept_and_those_that_the_server_has_closed_are_replaced(server):
    server.connections = 0
    with make_client("rest", server, retries=0) as client:
        for _ in range(20):
            client.predict(text=["a"])
        assert server.connections == 1
        for kind in ("close", "reset"):  # without retries: it is not the server that failed
            server.misbehave(kind)
            assert client.predict(text=["a"])["label"].tolist() == ["short"]
        assert server.connections == 3
    with make_client("rest", server, retries=0) as client:
        server.misbehave("close")
        with pytest.raises(Unavailable, match="no connection, or it broke"):
            client.predict(text=["a"])


def test_half_an_answer_is_no_answer(server):
    server.misbehave("cut", "cut")
    with make_client("rest", server, retries=1) as client, pytest.raises(Unavailable, match="IncompleteRead"):
        client.predict(text=["a"])
    server.misbehave("cut")
    with make_client("rest", server, retries=1) as client:
        assert client.predict(text=["a"])["label"].tolist() == ["short"]


def test_a_server_may_refuse_a_large_body_before_it_has_read_it():
    def refuse(listener):
        connection, _ = listener.accept()
        connection.recv(1000)
        text = b'{"error": "too large"}'
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
        connection.shutdown(socket.SHUT_WR)
        time.sleep(0.3)
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse, args=(listener,))
        thread.start()
        client = RestClient(f"http://127.0.0.1:{listener.getsockname()[1]}", "toy", retries=0, timeout=5)
        with client, pytest.raises(ServingError, match="HTTP 413.*too large"):
            client.predict(text=["x" * 20_000_000])
        thread.join()


def test_answers_that_are_none_of_tf_serving_are_shown(server):
    for body in (b"<html>", b"[1]", b'{"outputs": {"a": [[1], [1, 2]]}}', b'{"outputs": [null]}', b'{"outputs": [{}]}'):
        server.misbehave(body)
        with make_client("rest", server) as client:
            with pytest.raises(ServingError, match="the answer is not one of TF Serving's API: ") as caught:
                client.predict(text=["a"])
            assert caught.value.code == "UNKNOWN"
    for method, body in [("status", b"{}"), ("status", b'{"model_version_status": [1]}'), ("metadata", b"[]")]:
        server.misbehave(body)
        with make_client("rest", server) as client, pytest.raises(ServingError, match="not one of TF Serving's API"):
            getattr(client, method)()
    for verb in ("classify", "regress"):
        for results in (b'["a", {}]', b'[[["a", 0.5], [1, 0.5]]]', b"[1" + b"0" * 400 + b"]"):
            server.misbehave(b'{"results": ' + results + b"}")
            with make_client("rest", server) as client, pytest.raises(ServingError, match="not one of TF Serving's"):
                getattr(client, verb)(text=["a"])


def test_threads_share_a_client_and_get_their_own_answers(server, kind):
    with make_client(kind, server) as client, concurrent.futures.ThreadPoolExecutor(12) as pool:

        def ask(number):
            text = "x" * (number % 40)
            return (
                client.predict(text=[text])["probabilities"].astype(np.float32).tolist()
                == probabilities([text]).tolist()
            )

        assert all(pool.map(ask, range(200)))


def test_the_error_of_a_part_says_which_rows(server, kind):
    server.misbehave(0.05, 500)
    server.grpc_misbehaviour.extend([0.05, "INTERNAL"])
    client = make_client(kind, server, batch_size=10, max_in_flight=1)
    with client, pytest.raises(ServingError, match="for rows 10 to 19: told") as caught:
        client.predict(text=["a"] * 35)
    assert caught.value.rows == range(10, 20)


def test_headers_are_sent(server, kind):
    with make_client(kind, server, headers={"X-Key": "secret"}) as client:
        client.predict(text=["a"])
    assert {name.lower(): value for name, value in server.requests[-1][-1].items()}["x-key"] == "secret"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """The files of a certificate for 127.0.0.1 that signs itself, and of its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    files = (str(folder / "certificate.pem"), str(folder / "key.pem"))
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=toy -addext"
    subject = "subjectAltName=IP:127.0.0.1"
    line = [*command.split(), subject, "-out", files[0], "-keyout", files[1]]
    subprocess.run(line, check=True, capture_output=True)
    return files


@pytest.fixture(scope="module")
def tls_server(certificate):
    server = FakeTfServing(certificate)
    yield server
    server.close()


def test_tls_checks_the_certificate(tls_server, certificate):
    import grpc

    trusted = ssl.create_default_context(cafile=certificate[0])
    credentials = grpc.ssl_channel_credentials(pathlib.Path(certificate[0]).read_bytes())
    for kind, tls in (("rest", {"tls": trusted}), ("grpc", {"credentials": credentials})):
        with make_client(kind, tls_server, **tls) as client:
            for _ in range(2):
                assert client.predict(text=["a"])["label"].tolist() == ["short"]
        # Certificates of the system do not have this one.
        other = {} if kind == "rest" else {"credentials": grpc.ssl_channel_credentials()}
        with make_client(kind, tls_server, retries=0, **other) as client, pytest.raises(Unavailable):
            client.predict(text=["a"])
    plain = RestClient(tls_server.url.replace("https", "http"), "toy", retries=0)
    with plain, pytest.raises(Unavailable):
        plain.predict(text=["a"])


def test_the_json_of_requests_is_as_documented():
    form = RestFormat("http://h:1", "", "m", None, None)
    request = form.predict("s", as_arrays({"text": ["a\u00e9", b"\xff"], "n": np.array([[1], [2]], np.int32)}))
    assert request.path == "/v1/models/m:predict"
    assert request.body.decode() == (
        '{"signature_name": "s", "inputs": {"text": ["a\u00e9", {"b64": "/w=="}], "n": [[1], [2]]}}'
    )
    request = form.classify("s", as_arrays({"text": ["a"], "x": [1.5]}))
    assert request.body.decode() == '{"signature_name": "s", "examples": [{"text": "a", "x": 1.5}]}'
    assert form.status().path == "/v1/models/m"
    assert form.metadata().path == "/v1/models/m/metadata"
    odd = np.array([np.nan, np.inf, -np.inf], np.float32)
    assert b"[NaN, Infinity, -Infinity]" in form.predict("s", {"x": odd}).body


def test_answers_are_read_as_tf_serving_prints_them():
    form = RestFormat("http://h:1", "", "m", 3, None)
    answer = (
        b'{\n    "outputs": {\n        "p": [9e+06, 999999.0, NaN, -Infinity],\n        "n": [1, -1],\n "s": ["a"]}}'
    )
    outputs = form.read_predict(answer)
    assert outputs["p"].tolist()[:2] == [9e6, 999999.0]
    assert np.isnan(outputs["p"][2])
    assert outputs["p"][3] == -np.inf
    assert (outputs["n"].dtype, outputs["n"].tolist(), outputs["s"].tolist()) == (np.int64, [1, -1], ["a"])
    assert form.read_predict(b'{"outputs": {"b64": "/w=="}}')[None].tolist() == b"\xff"
    status = (
        b'{"model_version_status":[{"version":"123","state":"AVAILABLE",'
        b'"status":{"error_code":"OK","error_message":""}}]}'
    )
    [version] = form.read_status(status)
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


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "No input was given"),
        ({"text": "a film"}, r"text is a single text; give a list of texts: text=\['a film'\]"),
        ({"text": [["a"], ["b", "c"]]}, "The rows of text have different lengths; fill the short ones up"),
        ({"x": [[1], [1, 2]]}, "The rows of x have different lengths"),
        ({"text": ["a", None]}, "text: A tensor of strings holds None"),
        ({"text": ["a", 1]}, "text: A tensor of strings holds 1"),
        ({"text": ["\ud800"]}, "half a surrogate pair"),
        ({"x": [2**70]}, "x has a whole number that does not fit into 64 bits"),
        ({"a": ["a"], "b": ["b", "c"]}, "All inputs must have equally many rows: a has 1, b has 2"),
        ({"a": ["a"], "b": np.float32(1)}, "a has 1, b is a single value"),
    ],
)
def test_inputs_that_cannot_be_sent_are_one_clear_error(inputs, message):
    with pytest.raises(InputError, match=message):
        list(split_rows(as_arrays(inputs), 8))


def test_what_cannot_be_a_client_is_one_clear_error():
    for arguments, message in [
        (("localhost:8501", "m"), "is no URL of a server. Write http://host:port"),
        (("http://", "m"), "is no URL of a server"),
        (("http://h:port", "m"), "is no URL"),
        (("http://h", ""), "The model is ''; give its name"),
        (("http://h", "m", 1, "stable"), "a version has a number or a label"),
        (("http://h", "m", -1), "a version is a whole number that is not negative"),
    ]:
        with pytest.raises(InputError, match=message):
            RestClient(*arguments)
    with pytest.raises(InputError, match="the retries not negative"):
        RestClient("http://h", "m", retries=-1)
    with pytest.raises(InputError, match="The header 'a': 'b.*' cannot be sent"):
        RestClient("http://h", "m", headers={"a": "b\r\nc: d"})
    with pytest.raises(InputError, match="is no address of a gRPC server. Write host:port"):
        GrpcClient("http://h:1", "m")
    with RestClient("http://h:1", "m", batch_size=0) as client, pytest.raises(InputError, match="batch_size is 0"):
        client.predict(text=["a"])
    with RestClient("http://h:1", "m") as client, pytest.raises(InputError, match="JSON has no values for arrays of"):
        client.predict(x=np.zeros(1, np.complex64))


def test_outputs_without_rows_cannot_be_joined():
    with pytest.raises(InputError, match="The output x cannot be joined: it has no rows. Use batch_size=None"):
        join_rows([{"x": np.array(1)}, {"x": np.array(2)}])
    joined = join_rows([{"x": np.zeros([1, 0])}, {"x": np.array([["a", "b"]], object)}, {"x": np.zeros([2, 0])}])
    assert joined["x"].tolist() == [["", ""], ["a", "b"], ["", ""], ["", ""]]


def test_a_client_needs_no_tensorflow_and_rest_no_protobuf_either():
    program = (
        "import sys, keras_bert.serving.client as c\n"
        "heavy = lambda: [m for m in ('tensorflow', 'keras', 'grpc', 'google.protobuf', 'numpy') if m in sys.modules]\n"
        "print(heavy())\n"
        "c.RestClient('http://127.0.0.1:1', 'm'); c.AsyncRestClient('http://127.0.0.1:1', 'm'); print(heavy())\n"
        "c.GrpcClient('127.0.0.1:1', 'm'); print(heavy())\n"
        "print(sorted(c.__all__) == dir(c))\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout.splitlines() == [
        "[]",
        "['numpy']",
        "['grpc', 'google.protobuf', 'numpy']",
        "True",
    ], result.stderr


def test_without_grpcio_a_grpc_client_says_what_to_install():
    program = (
        "import sys; sys.modules['grpc'] = None\n"
        "from keras_bert.serving.client import GrpcClient\n"
        "GrpcClient('127.0.0.1:1', 'm')\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "InputError: grpcio is not installed" in result.stderr
    assert "pip install 'keras-bert-pipeline[client]'" in result.stderr


def test_the_scripts_of_the_page_run_as_they_stand(server, capsys):
    page = (pathlib.Path(__file__).parent.parent / "docs" / "serving_client.md").read_text("utf-8")
    for script in re.findall(r"```python\n(.*?)```", page, re.S):
        script = script.replace("http://127.0.0.1:8501", server.url).replace("127.0.0.1:8500", server.address)
        exec(compile(script.replace('"sentiment"', '"toy"'), "serving_client.md", "exec"), namespace := {})
        if "client" in namespace:
            namespace["client"].close()
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "long 0.800000012"
    assert "serving_default ['text'] -> ['label', 'labels', 'probabilities', 'probability']" in shown
    assert "[(2, 'END'), (3, 'AVAILABLE')]" in shown
    assert "100 100" in shown
    assert shown[-1].startswith("NOT_FOUND - http://127.0.0.1:")
