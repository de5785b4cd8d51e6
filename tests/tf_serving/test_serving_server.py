"""The server against tiny SavedModels: a rewrite of TensorFlow Serving's handler tests."""

import concurrent.futures
import functools
import json
import os
import shutil
import socket
import threading
import time

import numpy as np
import pytest
from small_saved_models import MODEL, HttpClient, save_model

from keras_bert.program.errors import InputError
from keras_bert.serving.request_joining import RequestJoiner
from keras_bert.tf_serving.server.loaded_model import ServedModel
from keras_bert.tf_serving.server.model_config import ModelConfig, read_model_configs
from keras_bert.tf_serving.server.run_server import background_server
from keras_bert.tf_serving.server.server_options import ServerOptions
from keras_bert.tf_serving.server.status import Code, StatusError
from keras_bert.tf_serving.server.warm_up import WARM_UP_FILE, load_and_warm_up, replay
from keras_bert.tf_serving.wire import messages
from keras_bert.tf_serving.wire.tensors import array_to_tensor_proto


@pytest.fixture(scope="module")
def base_path(tmp_path_factory):
    """Versions 1 and 123, of which 123 adds 2 and 1 adds 1."""
    folder = tmp_path_factory.mktemp("served")
    save_model(folder / "1", plus=1.0)
    save_model(folder / "00000123", plus=2.0)
    return folder


def wait_until(port: int, version: int, state: str = "AVAILABLE") -> None:
    for _ in range(600):
        with HttpClient(port) as client:
            status, answer = client.look(f"/versions/{version}")
        if status == 200 and answer["model_version_status"][0]["state"] == state:
            return
        time.sleep(0.05)
    raise AssertionError(f"version {version} did not become {state}: {answer}")


@pytest.fixture(scope="module")
def server(base_path):
    config = ModelConfig(MODEL, str(base_path), all_versions=True, labels={"stable": 1})
    options = ServerOptions(port=0, max_body_bytes=1 << 20, body_seconds=2, poll_seconds=0.2)
    with background_server([config], options) as address:
        wait_until(address.port, 1)
        wait_until(address.port, 123)
        yield address


@pytest.fixture
def client(server):
    with HttpClient(server.port) as client:
        yield client


def predict_request(signature_name="", **inputs):
    tensors = {name: array_to_tensor_proto(np.asarray(value)) for name, value in inputs.items()}
    return messages.PredictRequest(model_spec=messages.ModelSpec(signature_name=signature_name), inputs=tensors)


@pytest.mark.parametrize(
    ("method", "path", "error"),
    [
        ("GET", "/v1/foo", "Malformed request: GET /v1/foo"),
        ("POST", "/v1/foo", "Malformed request: POST /v1/foo"),
        ("GET", "/v1/models", "Missing model name in request."),
        ("GET", "/v1/models/debug/model_name", "Malformed request"),
        ("POST", "/v1/models", "Malformed request"),
        ("GET", "/v1/models/foo:predict", "Malformed request"),
        ("GET", "/v1/models/foo/version/50:predict", "Malformed request"),
        ("POST", "/v1/models/foo/version/50:regress", "Malformed request"),
        ("POST", "/v1/models/foo/versions/HELLO:regress", "Malformed request"),
        ("POST", f"/v1/models/foo/versions/{2**64}:regress", f"Failed to convert version: {2**64} to numeric."),
        ("POST", "/v1/models/foo/metadata", "Malformed request"),
        ("POST", "/v1/models/foo/label/some_label:regress", "Malformed request"),
        ("POST", "/v1/models/foo/versions/50/labels/some_label:regress", "Malformed request"),
        ("POST", f"/v1/models/{MODEL}:PREDICT", "Malformed request"),
        ("PUT", f"/v1/models/{MODEL}:predict", "Malformed request: PUT"),
        ("DELETE", f"/v1/models/{MODEL}", "Malformed request: DELETE"),
    ],
)
def test_calls_that_there_are_not_are_malformed(client, method, path, error):
    status, body = client.raw(method, path)
    assert status == 400
    assert body.startswith(b'{"error": "' + error.encode())


def test_answers_are_json_and_say_so(client):
    client._connection.request("POST", client.path + ":predict", b'{"instances": [[1.0, 2.0], [3.0, 4.0]]}')
    response = client._connection.getresponse()
    assert response.headers["Content-Type"] == "application/json"
    assert response.read() == b'{"predictions": [[2.5, 3.0], [3.5, 4.0]]}'


@pytest.mark.parametrize(
    ("where", "expected"),
    [("", [2.5, 3]), ("/versions/1", [1.5, 2]), ("/versions/0123", [2.5, 3]), ("/labels/stable", [1.5, 2])],
)
def test_a_request_may_name_version_or_label(client, where, expected):
    assert client.ask({"instances": [1.0, 2.0]}, where=where) == (200, {"predictions": expected})
    body = {"signature_name": "serving_default", "inputs": [1.0, 2.0]}
    assert client.ask(body, where=where) == (200, {"outputs": expected})


def test_names_are_found_in_any_case_of_the_path_and_url_encoded(client):
    path = "/V1/Models/half%5Fplus%5ftwo:predict?x=1"
    assert client.raw("POST", path, b'{"instances": [1]}')[0] == 200


@pytest.mark.parametrize(
    ("path", "error"),
    [("foo:predict", "Latest(foo)"), ("foo/versions/50:predict", "Specific(foo, 50)"),
     (f"{MODEL}/versions/99:predict", f"Specific({MODEL}, 99)")],
)  # fmt: skip
def test_unknown_models_and_versions_are_not_found(client, path, error):
    status, body = client.raw("POST", f"/v1/models/{path}", b'{"instances": [1]}')
    assert (status, json.loads(body)) == (404, {"error": f"Servable not found for request: {error}"})


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "The body must be a JSON object"),
        (b"instances = [1, 2]", "Expecting value at byte 0"),
        ({"instances": ["x"]}, "Expected a value of type float"),
        ({"signature_name": 100}, '"signature_name" must be a string. Received: 100'),
        ({"signature_name": "x", "instances": [1]}, 'Serving signature name: "x" not found in signature def'),
        ({"signature_name": "scalar", "instances": [1]}, "Rows need outputs of one batch"),
        ({"signature_name": "half", "instances": [1]}, "JSON cannot carry an output of type bfloat16"),
        ({"signature_name": "rows", "instances": [1]}, ""),
        ({"signature_name": "pair", "instances": [{"a": 1, "b": "x"}]}, "Invalid reduction dimension"),
    ],
)
def test_wrong_requests_are_400(client, body, error):
    status, answer = client.ask(body)
    assert status == 400
    assert error in answer["error"]


def test_an_unknown_label_is_400(client):
    status, answer = client.ask({"instances": [1]}, where="/labels/nobody")
    assert (status, answer) == (400, {"error": "Unrecognized servable version label: nobody"})


def test_several_inputs_and_outputs(client):
    rows = [{"a": [1, 2], "b": "é"}, {"a": [3, 4], "b": {"b64": "/w=="}}]
    status, answer = client.raw(
        "POST", client.path + ":predict", json.dumps({"signature_name": "pair", "instances": rows}).encode()
    )
    answer = json.loads(answer.decode("utf-8", "surrogateescape"))
    assert status == 200
    assert answer["predictions"] == [
        {"sum": 3.0, "text": "é", "text_bytes": {"b64": "w6k="}, "length": 2},
        {"sum": 7.0, "text": "\udcff", "text_bytes": {"b64": "/w=="}, "length": 1},
    ]


def test_every_type_comes_back(client):
    values = {"int8": -5, "uint8": 200, "int16": -300, "int32": 7, "int64": -(2**53), "uint32": 2**32 - 1,
              "uint64": 2**64 - 1, "float64": 0.1, "bool": True}  # fmt: skip
    assert client.ask({"signature_name": "kinds", "instances": [values]}) == (200, {"predictions": [values]})


def test_an_empty_batch_is_answered(client):
    assert client.ask({"inputs": []}) == (200, {"outputs": []})
    body = {"signature_name": "pair", "inputs": {"a": [], "b": []}}
    assert client.ask(body)[0] == 400  # [0], and the signature wants [0, 2]


def test_classify_and_regress(client):
    examples = {"examples": [{"x": 80.0}, {"x": 20.0}]}
    assert client.ask({**examples, "signature_name": "regress"}, "regress") == (200, {"results": [42.0, 12.0]})
    results = [[["a", 42.0], ["a", -42.0]], [["a", 12.0], ["a", -12.0]]]
    assert client.ask({**examples, "signature_name": "classify"}, "classify") == (200, {"results": results})
    results = [[["", 41.0]], [["", 11.0]]]
    body = {**examples, "signature_name": "scores_only"}
    assert client.ask(body, "classify", "/labels/stable") == (200, {"results": results})
    body = {"context": {"x": 20.0}, "examples": [{}, {"x": 80.0}], "signature_name": "regress"}
    assert client.ask(body, "regress") == (200, {"results": [12.0, 42.0]})


@pytest.mark.parametrize(
    ("what", "signature_name", "error"),
    [
        ("classify", "x", "No signature was found with the name: x"),
        ("regress", "x", "No signature was found with the name: x"),
        ("classify", "pair", "Classify needs a signature with the input inputs and the output classes or scores. pair"),
        ("classify", "rows", "rows has the inputs rows and the outputs"),
        ("classify", "regress", "regress has the inputs inputs and the outputs outputs"),
        ("regress", "classify", "Regress needs a signature with the input inputs and the output outputs. classify"),
        ("regress", "scores_only", "scores_only has the inputs inputs and the outputs scores"),
        ("regress", "rows", 'Give "signature_name": "regress".'),
    ],
)
def test_signatures_of_another_kind_are_refused(client, what, signature_name, error):
    status, answer = client.ask({"examples": [{"x": 1.0}], "signature_name": signature_name}, what)
    assert status == 400
    assert error in answer["error"]


def test_an_example_that_lacks_what_the_model_wants_is_400(client):
    status, answer = client.ask({"examples": [{"y": 1.0}], "signature_name": "regress"}, "regress")
    assert status == 400
    assert answer["error"].startswith(
        "Name: <unknown>, Feature: x (data type: float) is required but could not be found."
    )


def test_status_and_metadata(client):
    entry = {"version": "123", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    for where in ("/versions/123", "/versions/0123"):
        assert client.look(where) == (200, {"model_version_status": [entry]})
    both = client.look()[1]["model_version_status"]
    assert both == [entry, {**entry, "version": "1"}]
    assert client.look("/labels/stable")[1]["model_version_status"] == [{**entry, "version": "1"}]
    assert client.look("/versions/7") == (404, {"error": f"Could not find version 7 of model {MODEL}"})

    status, metadata = client.look("/metadata")
    assert status == 200
    assert metadata["model_spec"] == {"name": MODEL, "signature_name": "", "version": "123"}
    pair = metadata["metadata"]["signature_def"]["signature_def"]["pair"]
    assert pair["method_name"] == "tensorflow/serving/predict"
    assert pair["inputs"]["a"] == {
        "dtype": "DT_FLOAT",
        "name": "pair_a:0",
        "tensor_shape": {"dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}], "unknown_rank": False},
    }


@pytest.mark.parametrize("join", [None, functools.partial(RequestJoiner, max_rows=1)])
def test_requests_that_nobody_waits_for_are_not_computed(base_path, join, monkeypatch):
    may_go_on, computed = threading.Event(), []

    def run(self, signature_name, inputs):
        computed.append(inputs["x"].tolist())
        may_go_on.wait(30)
        return {"y": inputs["x"]}

    monkeypatch.setattr(ServedModel, "run", run)
    options = ServerOptions(port=0, num_threads=1, timeout_seconds=0.3, join=join)
    with background_server([ModelConfig(MODEL, str(base_path))], options) as address:
        wait_until(address.port, 123)

        def ask(number: int) -> int:
            with HttpClient(address.port) as client:
                return client.ask({"instances": [number]})[0]

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            try:
                late = list(pool.map(ask, range(1, 5)))  # one is in the thread, the others wait
                body = b'{"instances": [7]}'
                with socket.create_connection(("127.0.0.1", address.port)) as connection:
                    head = f"POST /v1/models/{MODEL}:predict HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
                    connection.sendall(head.encode() + body)
                    time.sleep(0.05)
                time.sleep(0.05)
            finally:
                may_go_on.set()
            assert late == [504] * 4
            assert ask(8) == 200
        assert len(computed) == 2
        assert computed[-1] == [8]


def test_health_and_unknown_paths(client):
    assert client.raw("GET", "/healthz/live") == (200, b"ok\n")
    assert client.raw("GET", "/healthz/ready") == (200, b"ready\n")
    assert client.raw("GET", "/nothing") == (404, b'{"error": "Not found: /nothing"}')
    assert json.loads(client.raw("GET", "/models")[1]) == {"models": [MODEL], "versions": {MODEL: [123, 1]}}
    assert client.raw("HEAD", "/healthz/live") == (200, b"")
    status, body = client.raw("POST", "/healthz/live", b"x")
    assert (status, json.loads(body)) == (405, {"error": "/healthz/live answers GET only. Received: POST"})


def test_a_small_request_is_answered_at_once(client):
    client.ask({"instances": [1]})
    times = []
    for _ in range(60):
        start = time.perf_counter()
        client.ask({"instances": [1]})
        times.append(time.perf_counter() - start)
    assert sorted(times)[20] < 0.03, "40 ms are what TCP waits for when it is not told to send at once"


def test_requests_are_joined_and_every_client_gets_its_own_rows(base_path, monkeypatch):
    run = ServedModel.run
    monkeypatch.setattr(ServedModel, "run", lambda *arguments: time.sleep(0.01) or run(*arguments))
    options = ServerOptions(port=0, join=functools.partial(RequestJoiner, max_rows=16))
    with background_server([ModelConfig(MODEL, str(base_path))], options) as address:
        wait_until(address.port, 123)

        def ask(number: int):
            length = 1 + number % 3
            with HttpClient(address.port) as client:
                status, answer = client.ask({"signature_name": "rows", "instances": [[number] * length] * 2})
            assert status == 200
            return number, length, answer["predictions"]

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(ask, range(96)))
        for number, length, rows in answers:
            assert [row["sum"] for row in rows] == [number * length] * 2
        sizes = [rows[0]["batch"] for _, _, rows in answers]
        assert max(sizes) > 2, "no requests were joined"
        assert max(sizes) <= 16


def test_versions_change_under_load_without_a_lost_or_wrong_answer(base_path, tmp_path):
    shutil.copytree(base_path / "1", tmp_path / "1")
    options = ServerOptions(port=0, poll_seconds=0.05)
    with background_server([ModelConfig(MODEL, str(tmp_path))], options) as address:
        wait_until(address.port, 1)
        end = time.monotonic() + 20

        def load(number: int) -> set:
            seen = set()
            with HttpClient(address.port) as client:
                while time.monotonic() < end and 4.0 not in seen:
                    status, answer = client.ask({"instances": [2.0 * number]})
                    assert status == 200, answer
                    seen.add(answer["predictions"][0] - number)
            return seen

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            loads = [pool.submit(load, number) for number in range(4)]
            (tmp_path / "3").mkdir()  # half-written
            time.sleep(0.3)
            for version in (2, 4):
                shutil.copytree(base_path / ("00000123" if version == 2 else "1"), tmp_path / f".{version}")
                (tmp_path / f".{version}").rename(tmp_path / str(version))
            shutil.rmtree(tmp_path / "3")
            # The latest version is recognised by the number that it adds.
            save_model(tmp_path / ".5", plus=4.0)
            (tmp_path / ".5").rename(tmp_path / "5")
            seen = set().union(*(future.result() for future in loads))
        assert {1.0, 4.0} <= seen <= {1.0, 2.0, 4.0}
        with HttpClient(address.port) as client:
            status, answer = client.look()
        states = {part["version"]: part["state"] for part in answer["model_version_status"]}
        assert states["5"] == "AVAILABLE"
        assert states["1"] in ("END", "UNLOADING")


def test_a_port_that_is_taken_is_one_clear_error(base_path, server):
    with (
        pytest.raises(InputError, match=r"cannot listen on 127.0.0.1:\d+.* choose another --port"),
        background_server([ModelConfig(MODEL, str(base_path))], ServerOptions(port=server.port)),
    ):
        pass


def test_the_models_change_with_the_config_file(base_path, tmp_path):
    file = tmp_path / "models.config"

    def config(*names):
        entry = 'config {{ name: "{}" base_path: "{}" model_platform: "tensorflow" }}'
        return f"model_config_list {{ {' '.join(entry.format(name, base_path) for name in names)} }}"

    def status(port, name) -> int:
        with HttpClient(port, name) as client:
            return client.ask({"instances": [1]})[0]

    def wait_for(port, name, expected: int) -> None:
        for _ in range(400):
            if status(port, name) == expected:
                return
            time.sleep(0.05)
        raise AssertionError(f"{name} does not answer with {expected}")

    file.write_text(config("a"))
    options = ServerOptions(port=0, model_config_file=str(file), config_poll_seconds=0.1)
    with background_server(read_model_configs(str(file)), options) as address:
        wait_for(address.port, "a", 200)
        file.write_text("no config")
        time.sleep(0.3)
        assert status(address.port, "a") == 200, "a wrong file changes nothing"
        file.write_text(config("b"))
        wait_for(address.port, "b", 200)
        wait_for(address.port, "a", 404)
        file.write_text(config("a", "a"))
        time.sleep(0.3)
        assert status(address.port, "b") == 200, "a model may be listed once"


def write_warm_up(folder, records) -> None:
    import tensorflow as tf

    (folder / "assets.extra").mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(folder / WARM_UP_FILE)) as writer:
        for record in records:
            writer.write(record)


def test_a_version_answers_its_warm_up_file_before_it_is_served(base_path, tmp_path):
    folder = tmp_path / "1"
    shutil.copytree(base_path / "1", folder)
    example = messages.Example()
    example.features.feature["x"].float_list.value.append(80)
    given = messages.Input(example_list=messages.ExampleList(examples=[example]))
    good = messages.PredictionLog()
    good.predict_log.request.CopyFrom(predict_request(x=np.float32([1])))
    regress = messages.PredictionLog()
    regress.regress_log.request.model_spec.signature_name = "regress"
    regress.regress_log.request.input.CopyFrom(given)
    write_warm_up(folder, [good.SerializeToString(), regress.SerializeToString()])
    model = load_and_warm_up(str(folder))
    assert replay(model) == 2
    model.close()
    bad = messages.PredictionLog()
    bad.predict_log.request.CopyFrom(predict_request(z=np.float32([1])))
    for records, error in [
        ([bad.SerializeToString()], "input size does not match signature"),
        ([b"\xff"], "it is not a PredictionLog"),
        ([good.SerializeToString()] * 1001, r"exceeds the maximum \(1000\)"),
        ([b""], "Unsupported log_type"),
    ]:
        write_warm_up(folder, records)
        with pytest.raises(StatusError, match=error):
            load_and_warm_up(str(folder))


def test_damaged_saved_models_are_errors_that_say_what_is_wrong(base_path, tmp_path):
    good = base_path / "1"
    graph = (good / "saved_model.pb").read_bytes()

    def error(name, graph=graph, without_variables=False) -> StatusError:
        folder = tmp_path / name
        folder.mkdir()
        if graph is not None:
            (folder / "saved_model.pb").write_bytes(graph)
        if not without_variables:
            (folder / "variables").mkdir()
            for file in (good / "variables").iterdir():
                (folder / "variables" / file.name).write_bytes(file.read_bytes()[:10])
        with pytest.raises(StatusError) as caught:
            ServedModel(str(folder))
        return caught.value

    assert error("nothing", None).code == Code.NOT_FOUND
    assert error("cut", graph[: len(graph) // 2]).code != Code.OK
    assert error("noise", os.urandom(1000)).code != Code.OK
    assert error("empty", b"").code != Code.OK
    assert error("no_variables", without_variables=True).code != Code.OK
    assert error("cut_variables").code != Code.OK
