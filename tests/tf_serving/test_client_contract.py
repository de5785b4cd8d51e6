"""What every client does, over every transport: on a fake with a toy model, whose gRPC is made from the official
tensorflow-serving-api, and on the development server with an exported model.
"""

import pathlib
import re
import types

import numpy as np
import pytest
from fake_tf_serving import probabilities
from kinds_of_clients import make_client
from places import DOCS

from keras_bert import serving
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.answers import LabelAnswer
from keras_bert.tf_serving.client import (
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    RestClient,
    ServingError,
    Unavailable,
)
from keras_bert.tf_serving.client.model_info import Tensor
from keras_bert.tf_serving.server.request_limits import ServerOptions
from keras_bert.tf_serving.server.run_server import background_server
from run_scripts.readable_answers import readable_answers

TEXTS = ["a", "", "a long text", "the fox", "caf\u00e9", "NUL \0", "\u2028\U0001f600", b"\xff"]


def as_bytes(texts) -> list[bytes]:
    return [text if isinstance(text, bytes) else text.encode() for text in texts]


def test_every_client_gets_the_models_own_answers_with_text_for_strings(server, kind):
    with make_client(kind, server) as client:
        answer = client.predict(text=TEXTS)
    np.testing.assert_allclose(answer["probabilities"], probabilities(as_bytes(TEXTS)), rtol=1e-5, atol=1e-6)
    rows, best = np.arange(len(TEXTS)), answer["probabilities"].argmax(-1)
    assert answer["label"].tolist() == answer["labels"][rows, best].tolist()
    assert answer["probability"].tolist() == answer["probabilities"][rows, best].tolist()
    assert all(type(label) is str for label in answer["label"])
    shown = readable_answers(answer, {"text": TEXTS})
    assert all(text.strip().startswith(label) for text, label in zip(shown, answer["label"], strict=True))


@pytest.mark.parametrize("kind", ["rest", "async rest"])
def test_the_development_server_answers_the_clients_of_its_api(served, kind):
    model = serving.load(pathlib.Path(served[1]["single"]).parent)
    expected = model.signatures["serving_default"](text=TEXTS)
    with (
        background_server({"toy": model}, ServerOptions(port=0)) as address,
        make_client(kind, types.SimpleNamespace(url=f"http://127.0.0.1:{address.port}")) as client,
    ):
        assert client.wait_until_available(timeout=30) == 1
        answer, signatures, [status] = client.predict(text=TEXTS), client.metadata().signatures, client.status()
        with pytest.raises(ServingError, match="HTTP 501.* toy:predict only"):
            client.classify(text=TEXTS)
        with pytest.raises(InvalidRequest):
            client.predict("no_such_signature", text=["a"])
    np.testing.assert_allclose(answer["probabilities"], expected["probabilities"], rtol=1e-5, atol=1e-6)
    assert as_bytes(answer["label"]) == expected["label"].tolist()
    assert signatures["serving_default"].inputs == {"text": Tensor("string", (None,))}
    assert (status.version, status.state, status.error_code) == (1, "AVAILABLE", "OK")


def test_metadata_and_status_say_what_is_served(server, kind):
    with make_client(kind, server) as client:
        assert client.wait_until_available(timeout=30) == 3
        found = client.metadata()
        states = {version.version: (version.state, version.error_code) for version in client.status()}
    assert (found.name, found.version) == ("toy", 3)
    signature = found.signatures["serving_default"]
    assert signature.inputs == {"text": Tensor("string", (None,))}
    assert signature.method_name == "tensorflow/serving/predict"
    assert signature.outputs["probabilities"].dtype == "float"
    assert states[3] == ("AVAILABLE", "OK")


def test_classify_gives_the_same_as_predict(server, kind):
    with make_client(kind, server, batch_size=4) as client:
        predicted, classified = client.predict(text=TEXTS), client.classify(text=TEXTS)
    assert classified["classes"].tolist() == predicted["labels"].tolist()
    np.testing.assert_allclose(classified["scores"], predicted["probabilities"], rtol=1e-5, atol=1e-6)


def test_wrong_requests_are_refused_and_the_server_runs_on(server, kind):
    with make_client(kind, server) as client:
        for signature, inputs in (
            ("no_such_signature", {"text": ["a"]}),
            ("serving_default", {"txt": ["a"]}),
            ("serving_default", {"text": np.array([1.5], np.float32)}),
        ):
            with pytest.raises(InvalidRequest):
                client.predict(signature, **inputs)
        assert client.predict(text=["a"])["label"].shape == (1,)


def test_answers_are_the_objects_of_predict_in_python(server, kind):
    with make_client(kind, server, batch_size=4) as client:
        answers = client.answers(text=TEXTS)
        with pytest.raises(InputError, match="The signature length does not give the answers .* Its outputs: length"):
            client.answers("length", text=TEXTS)
    for answer, row in zip(answers, probabilities(as_bytes(TEXTS)).tolist(), strict=True):
        short, long = np.float32(row).tolist()
        assert answer == LabelAnswer("short" if short >= long else "long", max(row), {"short": short, "long": long})
    with make_client(kind, server) as client:
        assert client.answers(text="a long text") == answers[2:3]


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
        answer = client.predict("length", text=TEXTS[:3])
        assert {name: array.tolist() for name, array in answer.items()} == {"length": [1, 0, 11]}
        count = len(server.requests)
        client.predict("length", text=["a"])
        assert len(server.requests) == count + 1  # the name is requested once


def test_regress_takes_rows_of_features(server, kind):
    expected = probabilities(as_bytes(TEXTS))[:, 1]
    with make_client(kind, server, batch_size=4) as client:
        scores = client.regress(text=TEXTS)
    assert scores.astype(np.float32).tobytes() == np.ascontiguousarray(expected).tobytes()


def test_examples_on_the_wire_have_a_list_of_the_right_type_for_each_feature(server):
    import tensorflow as tf

    with make_client("grpc", server) as client:
        client.classify(text=["a", b"\xff\0"], number=np.array([[1, 2], [3, 4]]), weight=[0.5, 1.5])
    [(_, message, _)] = server.requests
    _, row = message.input.example_list.examples
    expected = {
        "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"\xff\0"])),
        "number": tf.train.Feature(int64_list=tf.train.Int64List(value=[3, 4])),
        "weight": tf.train.Feature(float_list=tf.train.FloatList(value=[1.5])),
    }
    assert row == tf.train.Example(features=tf.train.Features(feature=expected))


def test_many_rows_go_as_several_requests_and_keep_their_order(server, kind):
    texts = ["x" * (number % 23) for number in range(1000)]
    server.misbehave(0.1)  # the first is overtaken
    with make_client(kind, server, batch_size=30, max_in_flight=5) as client:
        answer = client.predict(text=texts)
    assert len(server.requests) == 34
    assert answer["probabilities"].astype(np.float32).tobytes() == probabilities(texts).tobytes()


def test_several_requests_are_under_way_at_once_and_no_more_than_allowed(server, kind):
    for in_flight, least, most in ((1, 1, 1), (4, 2, 4)):
        server.forget()
        server.most_at_work = 0
        server.misbehave(*[0.05] * 8)
        server.grpc_misbehaviour.extend([0.05] * 8)
        with make_client(kind, server, batch_size=1, max_in_flight=in_flight) as client:
            client.predict(text=["a"] * 8)
        assert least <= server.most_at_work <= most


def test_no_rows_are_asked_too(server, kind):
    with make_client(kind, server) as client:
        answer = client.predict(text=[])
    assert [len(answer[name]) for name in ("label", "probability", "labels", "probabilities")] == [0, 0, 0, 0]


def test_versions_and_labels_choose(server, kind):
    for chosen in ({"version": 3}, {"label": "stable"}):
        with make_client(kind, server, **chosen) as client:
            assert client.predict(text=["a"])["label"].tolist() == ["short"]


@pytest.mark.parametrize("chosen", [{"version": 2}, {"version": 9}, {"label": "canary"}, {"model": "other"}], ids=str)
def test_what_is_not_there_is_not_found_and_not_tried_again(server, kind, chosen):
    with make_client(kind, server, **chosen) as client:
        for ask in (lambda: client.predict(text=["a"]), client.metadata):
            with pytest.raises(NotFound, match="Check the name of the model") as caught:
                ask()
            assert (caught.value.code, caught.value.attempts) == ("NOT_FOUND", 1)
    assert len(server.requests) == 2


def test_names_of_models_may_hold_any_sign(server):
    with RestClient(server.url + "/below/", "a/b c\u00e9", label="x y") as client, pytest.raises(InvalidRequest):
        client.predict(text=["a"])
    assert server.requests[-1][1] == "/below/v1/models/a%2Fb%20c%C3%A9/labels/x%20y:predict"


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (400, "INVALID_ARGUMENT", InvalidRequest),
        (None, "FAILED_PRECONDITION", InvalidRequest),
        (None, "OUT_OF_RANGE", InvalidRequest),
        (401, "UNAUTHENTICATED", ServingError),
        (403, "PERMISSION_DENIED", ServingError),
        (404, "NOT_FOUND", NotFound),
        (409, "ALREADY_EXISTS", ServingError),
        (413, "UNKNOWN", ServingError),
        (418, "UNKNOWN", ServingError),
        (429, "RESOURCE_EXHAUSTED", Unavailable),
        (499, "CANCELLED", ServingError),
        (500, "INTERNAL", ServingError),
        (501, "UNIMPLEMENTED", ServingError),
        (503, "UNAVAILABLE", Unavailable),
        (504, "DEADLINE_EXCEEDED", DeadlineExceeded),
    ],
)
def test_every_status_has_its_error(server, status, code, error):
    asked = {"grpc": code} if status is None else {"rest": status, "grpc": code}
    server.misbehave(*filter(None, [status]))
    server.grpc_misbehaviour.append(code)
    for kind, told in asked.items():
        with make_client(kind, server, retries=0) as client, pytest.raises(ServingError) as caught:
            client.predict(text=["a"])
        assert (type(caught.value), caught.value.code) == (error, code)
        assert caught.value.http_status == (status if kind == "rest" else None)
        assert caught.value.server_text == f"told to answer {told}"


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("predict", b"<html>"),
        ("predict", b"[1]"),
        ("predict", b'{"outputs": {"a": [[1], [1, 2]]}}'),
        ("predict", b'{"outputs": [null]}'),
        ("predict", b'{"outputs": [{}]}'),
        ("status", b"{}"),
        ("status", b'{"model_version_status": [1]}'),
        ("metadata", b"[]"),
        *((verb, b'{"results": ["a", {}]}') for verb in ("classify", "regress")),
        *((verb, b'{"results": [[["a", 0.5], [1, 0.5]]]}') for verb in ("classify", "regress")),
        *((verb, b'{"results": [1' + b"0" * 400 + b"]}") for verb in ("classify", "regress")),
    ],
)
def test_answers_that_are_none_of_tf_serving_are_named(server, method, body):
    server.misbehave(body)
    inputs = {} if method in ("status", "metadata") else {"text": ["a"]}
    with (
        make_client("rest", server) as client,
        pytest.raises(ServingError, match="not one of TF Serving's API") as caught,
    ):
        getattr(client, method)(**inputs)
    assert caught.value.code == "UNKNOWN"


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


def test_the_scripts_of_the_page_run_as_they_stand(server, capsys):
    page = (DOCS / "serving_clients.md").read_text("utf-8")
    for script in re.findall(r"```python\n(.*?)```", page, re.S):
        script = script.replace("http://127.0.0.1:8501", server.url).replace("127.0.0.1:8500", server.address)
        exec(compile(script.replace('"sentiment"', '"toy"'), "serving_clients.md", "exec"), namespace := {})
        if "client" in namespace:
            namespace["client"].close()
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "long 0.800000012"
    assert "serving_default ['text'] -> ['label', 'labels', 'probabilities', 'probability']" in shown
    assert "[(2, 'END'), (3, 'AVAILABLE')]" in shown
    assert "100 100" in shown
    assert shown[-1].startswith("NOT_FOUND - http://127.0.0.1:")
