"""The development server: its routes, both forms of predict, deadlines, and a clean stop."""

import concurrent.futures
import json
import signal
import socket
import subprocess
import sys
import threading

import pytest
from places import TESTS
from served_models import KINDS, MODEL, NUMBERS, HttpClient, Model, Signature, half_plus_two

from keras_bert.program.errors import InputError
from keras_bert.program.record_files import framed_record
from keras_bert.tf_serving.server import run_server
from keras_bert.tf_serving.server.http_protocol import ImpatientProtocol
from keras_bert.tf_serving.server.page import about_model
from keras_bert.tf_serving.server.request_limits import ServerOptions
from keras_bert.tf_serving.server.run_server import background_server
from run_scripts import serve


@pytest.fixture(scope="module")
def server():
    with background_server({MODEL: half_plus_two()}, ServerOptions(port=0)) as address:
        yield address


@pytest.fixture
def client(server):
    with HttpClient(server.port) as client:
        yield client


ONE_OF_EACH = dict.fromkeys(KINDS, 1) | {"int8": -5, "uint64": 2**64 - 1, "double": 0.1, "bool": True}
PAIR = {"signature_name": "pair"}


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ({"instances": [1.0, 2]}, {"predictions": [2.5, 3.0]}),
        ({"instances": [{"x": 1.0}, {"x": 2.0}]}, {"predictions": [2.5, 3.0]}),
        ({"instances": [[1, 2], [3, 4]]}, {"predictions": [[2.5, 3.0], [3.5, 4.0]]}),
        ({"inputs": {"x": [1.0, 2.0]}}, {"outputs": [2.5, 3.0]}),
        ({"inputs": [1.0, 2.0], "signature_name": "serving_default"}, {"outputs": [2.5, 3.0]}),
        ({"inputs": 4.0}, {"outputs": 4.0}),
        ({"inputs": []}, {"outputs": []}),
        (
            {**PAIR, "instances": [{"a": [1, 2], "b": "\u00e9"}, {"a": [3, 4], "b": {"b64": "YQ=="}}]},
            {
                "predictions": [
                    {"length": 2, "sum": 3.0, "text": "\u00e9", "text_bytes": {"b64": "w6k="}},
                    {"length": 1, "sum": 7.0, "text": "a", "text_bytes": {"b64": "YQ=="}},
                ]
            },
        ),
        (
            {**PAIR, "inputs": {"a": [[1, 2]], "b": ["\u00e9"]}},
            {"outputs": {"length": [2], "sum": [3.0], "text": ["\u00e9"], "text_bytes": [{"b64": "w6k="}]}},
        ),
        ({"signature_name": "kinds", "instances": [ONE_OF_EACH]}, {"predictions": [ONE_OF_EACH]}),
    ],
)
def test_predict_takes_rows_and_columns(client, request_, answer):
    assert client.ask(request_) == (200, answer)


def test_numbers_without_a_value_are_those_of_pythons_json_and_bytes_come_back_as_they_are(client):
    status, body = client.raw("POST", f"{client.path}:predict", b'{"inputs": [NaN, 1e300, -Infinity]}')
    assert (status, body) == (200, b'{"outputs": [NaN, Infinity, -Infinity]}')
    request = json.dumps({**PAIR, "inputs": {"a": [[1, 2]], "b": [{"b64": "/w=="}]}})  # not UTF-8
    _, body = client.raw("POST", f"{client.path}:predict", request)
    assert b'"text": ["\xff"], "text_bytes": [{"b64": "/w=="}]' in body


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (b"", "The body of the request is not JSON"),
        (b'{"a"', "The body of the request is not JSON"),
        (b'{"inputs": ["\xff"]}', "The body of the request is not JSON"),
        (b"[1]", "The body of the request must be a JSON object. Received: [1]"),
        (b'{"inputs": ' + b"[" * 200 + b"]" * 200 + b"}", "is nested more than 100 deep"),
        (b'{"inputs": ' + b"[" * 1_000_000, "is nested more than 100 deep"),
        (b'{"inputs": [' + b"[]," * 4_200_000 + b"1]}", "more than the 4,194,304"),
        ({}, 'Give either "instances" or "inputs". Received: neither'),
        ({"instances": [1], "inputs": [1]}, 'Give either "instances" or "inputs"'),
        ({"instances": []}, '"instances" must be a list with one value for each row. Received: []'),
        ({"instances": 1}, '"instances" must be a list'),
        ({"inputs": [1], "signature_name": "none"}, '"signature_name" must be a signature of the model: broken, '),
        ({"inputs": [1], "signature_name": 5}, '"signature_name" must be a signature of the model'),
        ({**PAIR, "inputs": [1]}, "inputs must have the keys a, b. Received: [1]"),
        ({**PAIR, "instances": [{"a": [1, 2], "b": ""}, {"a": [1, 2]}]}, "instances[1] must have the keys a, b."),
        ({"inputs": {"z": 1}}, "inputs must have the keys x."),
        ({"inputs": ["a"]}, "The input x takes values of type float. Received: 'a'"),
        ({"inputs": [True]}, "The input x takes values of type float. Received: True"),
        ({"inputs": [None]}, "The input x takes values of type float. Received: None"),
        ({"inputs": [[1], [1, 2]]}, "The rows of the input x have different lengths or depths"),
        ({"inputs": [1, [2]]}, "The rows of the input x have different lengths or depths"),
        ({"inputs": [10**400]}, "The input x has a number that does not fit into float."),
        ({**PAIR, "inputs": {"a": [[1, 2, 3]], "b": [""]}}, "a must have the shape [any, 2]. Received: [1, 3]"),
        ({**PAIR, "inputs": {"a": [], "b": []}}, "a must have the shape [any, 2]. Received: [0]"),
        ({**PAIR, "inputs": {"a": [[1, 2]], "b": [1]}}, "The input b takes values of type string. Received: 1"),
        ({**PAIR, "inputs": {"a": [[1, 2]], "b": [{"b64": "?"}]}}, "A string of bytes must be"),
        ({**PAIR, "inputs": {"a": [[1, 2]], "b": [{"b65": "YQ=="}]}}, "A string of bytes must be"),
        ({"signature_name": "kinds", "instances": [ONE_OF_EACH | {"int8": 300}]}, "does not fit into int8."),
        ({"signature_name": "kinds", "instances": [ONE_OF_EACH | {"int64": 1.5}]}, "The input int64 takes values of"),
        ({"signature_name": "scalar", "instances": [1.0]}, 'Rows need outputs of one batch. Use "inputs".'),
        ({"signature_name": "complex", "inputs": [1.0]}, "JSON cannot carry the output y, of type complex"),
        ({"inputs": [0] * 10_001}, "The request has 10001 rows, but this server accepts at most 10000 (--max_rows)."),
    ],
)
def test_wrong_requests_are_400_and_say_what_is_wrong(client, request_, error):
    status, answer = client.ask(request_)
    assert status == 400
    assert error in answer["error"]


@pytest.mark.parametrize(
    ("method", "path", "status", "error"),
    [
        ("GET", "/nothing", 404, "Not found: /nothing"),
        ("GET", "/v1/models", 404, "Not found: /v1/models"),
        ("GET", "/v1/models/other", 404, f"There is no model other. This server has: {MODEL}"),
        ("POST", "/v1/models/other:predict", 404, "There is no model other."),
        ("GET", "/models/other", 404, "There is no model other."),
        ("GET", f"/v1/models/{MODEL}/versions/1", 404, "no numbers or labels of versions. Ask /v1/models/half_plus"),
        ("POST", f"/v1/models/{MODEL}/labels/stable:predict", 404, "or serve the folder with TensorFlow Serving."),
        ("POST", f"/v1/models/{MODEL}:classify", 501, "This server answers half_plus_two:predict only."),
        ("POST", f"/v1/models/{MODEL}:regress", 501, "Received: half_plus_two:regress"),
        ("GET", f"/v1/models/{MODEL}:predict", 405, "answers POST only. Received: GET"),
        ("DELETE", f"/v1/models/{MODEL}", 405, "answers GET only. Received: DELETE"),
        ("POST", "/", 405, "/ answers GET only. Received: POST"),
    ],
)
def test_what_the_server_does_not_do_is_refused_with_what_to_do(client, method, path, status, error):
    found, body = client.raw(method, path, b"{}" if method == "POST" else None)
    assert (found, error in json.loads(body)["error"]) == (status, True)


def test_status_and_metadata_have_the_form_of_tensorflow_serving(client):
    state = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    assert client.look(client.path) == (200, {"model_version_status": [state]})
    status, metadata = client.look(f"{client.path}/metadata")
    assert status == 200
    assert metadata["model_spec"] == {"name": MODEL, "signature_name": "", "version": "1"}
    pair = metadata["metadata"]["signature_def"]["signature_def"]["pair"]
    assert pair["method_name"] == "tensorflow/serving/predict"
    shape = {"dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}], "unknown_rank": False}
    assert pair["inputs"]["a"] == {"dtype": "DT_FLOAT", "name": "a", "tensor_shape": shape}
    assert pair["outputs"]["text"]["dtype"] == "DT_STRING"


def test_the_page_and_what_it_shows_of_models(client):
    status, page = client.raw("GET", "/")
    assert status == 200
    assert b"// page_lines.js" not in page
    assert b"function askLines" in page
    assert client.raw("HEAD", "/") == (200, b"")
    assert client.look("/models") == (200, {"models": [MODEL]})
    assert client.look(f"/models/{MODEL}") == (200, {"labels": ["no", "yes"], "examples": []})


def test_labels_and_examples_of_the_page_are_bounded():
    about = about_model(Model({}, labels=["x" * 2000] * 200))
    assert (len(about["labels"]), len(about["labels"][0])) == (100, 1000)


def logged(signature: str, *rows: dict[str, str]) -> bytes:
    """A record of a file for warming up: a request with these texts."""
    from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

    log = PredictionLog()
    request = log.predict_log.request
    request.model_spec.signature_name = signature
    for name in rows[0]:
        request.inputs[name].string_val.extend(row[name].encode() for row in rows)
        request.inputs[name].tensor_shape.dim.add(size=len(rows))
    return framed_record(log.SerializeToString())


def test_examples_of_the_page_are_the_first_short_texts_of_a_kit(tmp_path):
    texts = ["Rechnung", "Mahnung", "x" * 2000, "the of and", "Größe", "mehr"]  # words of the kit are made up
    seconds = ["offen"] * 3 + ["of"] * 3
    examples = [{"text": text, "text_b": second} for text, second in zip(texts, seconds, strict=True)]
    usual = logged("serving_default", *examples[:2])
    file = tmp_path / "assets.extra" / "tf_serving_warmup_requests"
    file.parent.mkdir()
    file.write_bytes(logged("other", {"text": "no"}) + usual + logged("", *examples[1:]))
    expected = [examples[number] for number in (0, 1, 4)]
    assert about_model(Model({}, path=str(tmp_path))) == {"labels": [], "examples": expected}
    file.write_bytes(usual + b"damaged")
    assert about_model(Model({}, path=str(tmp_path)))["examples"] == examples[:2]


def test_an_error_of_the_model_is_500_and_the_server_runs_on(client):
    error = {"error": "Internal error; the server's log says more."}
    assert client.ask({"inputs": [1.0], "signature_name": "broken"}) == (500, error)
    assert client.ask({"inputs": [1.0]})[0] == 200


def test_a_small_answer_is_sent_at_once(monkeypatch):
    options = []

    class Watched(ImpatientProtocol):
        def connection_made(self, transport):
            super().connection_made(transport)
            connection = transport.get_extra_info("socket")
            options.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(run_server, "ImpatientProtocol", Watched)
    served = {MODEL: half_plus_two()}
    with background_server(served, ServerOptions(port=0)) as address, HttpClient(address.port) as client:
        client.ask({"instances": [1]})
    assert options[0], "TCP waits 40 ms for more to send unless it is told not to"


def test_requests_that_are_out_of_time_are_not_computed():
    may_go_on, computed = threading.Event(), []

    def compute(x):
        computed.append(x.tolist())
        may_go_on.wait(30)
        return {"y": x}

    model = Model({"serving_default": Signature(compute, {"x": NUMBERS}, {"y": NUMBERS})})
    with background_server({MODEL: model}, ServerOptions(port=0, num_threads=1, timeout_seconds=0.3)) as address:

        def ask(number: int) -> int:
            with HttpClient(address.port) as client:
                return client.ask({"instances": [number]})[0]

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            try:
                late = list(pool.map(ask, range(1, 5)))  # one is in the thread, the others wait
            finally:
                may_go_on.set()
            assert late == [504] * 4
            assert ask(8) == 200
    assert len(computed) == 2
    assert computed[-1] == [8]


def test_a_port_that_is_taken_is_one_clear_error(server):
    with (
        pytest.raises(InputError, match=r"cannot listen on 127.0.0.1:\d+.* choose another --port"),
        background_server({}, ServerOptions(port=server.port)),
    ):
        pass


SERVE = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from served_models import MODEL, half_plus_two
from keras_bert.tf_serving.server.run_server import run_server
from keras_bert.tf_serving.server.request_limits import ServerOptions
run_server({{MODEL: half_plus_two()}}, ServerOptions(port=0), on_start=lambda address: print(address.port, flush=True))
"""


def test_sigterm_answers_what_is_under_way_and_exits_with_0():
    command = [sys.executable, "-c", SERVE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            port = int(process.stdout.readline())
            with HttpClient(port, timeout=120) as client, HttpClient(port) as other:
                body = json.dumps({"signature_name": "slow", "instances": [1.5]})
                client._connection.request("POST", f"{client.path}:predict", body)
                assert other.look("/models")[0] == 200  # the server has read the request before this one
                process.send_signal(signal.SIGTERM)
                response = client._connection.getresponse()
                assert (response.status, json.load(response)) == (200, {"predictions": [1.5]})
            assert process.wait(60) == 0
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        ([], 1, "Give the folders of exported models. See --help."),
        (["{}/none"], 1, "There is no folder"),
        (["{}"], 1, "is no export: it has neither export.json"),
        (["{}", "{}"], 1, "Two models have the same name. Use NAME=FOLDER."),
        (["a:b={}"], 1, "A model cannot be named 'a:b', since its name is part of URLs."),
        (["--enable_batching", "{}"], 2, "TensorFlow Serving joins them."),
    ],
)
def test_what_cannot_be_served_is_one_line(tmp_path, run_here, arguments, code, error):
    found, printed = run_here(serve, *(argument.format(tmp_path) for argument in arguments))
    assert (found, printed.err.count("\n")) == (code, 1)
    assert error in printed.err
