"""OpenAI's POST /v1/embeddings on the development server: requests and answers of OpenAI's clients."""

import base64
import json
import pathlib
import socket

import numpy as np
import pytest
from served_models import TEXTS as STRINGS
from served_models import HttpClient, Model, Signature
from tiny_models import TEXTS

from keras_bert import serving
from keras_bert.tf_serving.client.model_info import Tensor
from keras_bert.tf_serving.server.request_limits import ServerOptions
from keras_bert.tf_serving.server.run_server import background_server

# "abc" -> [3, 4, 12]: the number of bytes, then 4 and 12.
VECTORS = {"abc": [3, 4, 12], "": [0, 4, 12], "é": [2, 4, 12]}
TEXT, EMBEDDING = {"text": STRINGS}, {"embedding": Tensor("float", (None, 3))}


def embed(text):
    return {"embedding": np.array([[len(one.encode()), 4, 12] for one in text], np.float32)}


def tokenize(text):
    return {"lengths": np.array([len(one.encode()) + 2 for one in text], np.int32)}


def model_of(function, inputs=TEXT, outputs=EMBEDDING, **others) -> Model:
    return Model({"serving_default": Signature(function, inputs, outputs), **others})


MODELS = {
    "letters": model_of(embed, tokenize=Signature(tokenize, TEXT, {"lengths": Tensor("int32", (None,))})),
    "uncounted": model_of(embed),
    "zeros": model_of(lambda text: {"embedding": np.zeros([len(text), 3])}),
    "pairs": model_of(None, {**TEXT, "text_b": STRINGS}),
    "labels": model_of(None, outputs={"label": STRINGS}),
    "no_default": Model({"embed": Signature(embed, TEXT, EMBEDDING)}),
    "wrong_shape": model_of(lambda text: {"embedding": np.ones([1, 3])}),
}
LETTERS = {"letters": MODELS["letters"]}
ASKED = {"model": "letters", "input": "a"}


@pytest.fixture(scope="module")
def port():
    with background_server(MODELS, ServerOptions(port=0, max_body_bytes=1 << 20)) as address:
        yield address.port


@pytest.fixture
def ask(port):
    """Returns a function: members of the request -> (status, parsed body)."""
    return lambda **members: post(port, members)


def post(port: int, members: dict | bytes) -> tuple[int, dict]:
    body = members if isinstance(members, bytes) else json.dumps(members).encode()
    with HttpClient(port) as client:
        status, answer = client.raw("POST", "/v1/embeddings", body, {"Authorization": "Bearer x"})
    return status, json.loads(answer)


def decoded(text: str) -> list[float]:
    return np.frombuffer(base64.b64decode(text), "<f4").tolist()


def test_a_text_gets_a_vector_and_the_number_of_its_tokens(ask):
    assert ask(model="letters", input="abc") == (
        200,
        {
            "object": "list",
            "data": [{"object": "embedding", "index": 0, "embedding": [3.0, 4.0, 12.0]}],
            "model": "letters",
            "usage": {"prompt_tokens": 5, "total_tokens": 5},
        },
    )


def test_members_that_are_null_are_as_if_they_were_left_out(ask):
    nothing = dict.fromkeys(("encoding_format", "dimensions", "user"))
    assert ask(**ASKED, **nothing) == ask(**ASKED)


@pytest.mark.parametrize(("encoding", "vector"), [("float", list), ("base64", decoded)])
def test_texts_get_vectors_in_their_order_in_both_encodings(ask, encoding, vector):
    status, answer = ask(model="letters", input=list(VECTORS), encoding_format=encoding, user="somebody")
    assert status == 200
    assert [row["index"] for row in answer["data"]] == [0, 1, 2]
    assert [vector(row["embedding"]) for row in answer["data"]] == list(VECTORS.values())
    assert answer["usage"] == {"prompt_tokens": 5 + 2 + 4, "total_tokens": 5 + 2 + 4}
    _, answer = ask(model="letters", input=["abc"] * 2048, encoding_format=encoding)
    assert [vector(row["embedding"]) for row in answer["data"]] == [VECTORS["abc"]] * 2048


@pytest.mark.parametrize(("encoding", "vector"), [("float", list), ("base64", decoded)])
def test_fewer_dimensions_are_the_first_numbers_at_length_one(ask, encoding, vector):
    for dimensions, expected in ((2, [0.6, 0.8]), (3, np.array([3, 4, 12]) / 13)):
        _, answer = ask(model="letters", input="abc", dimensions=dimensions, encoding_format=encoding)
        np.testing.assert_allclose(vector(answer["data"][0]["embedding"]), expected, rtol=1e-6)
    _, answer = ask(model="zeros", input="abc", dimensions=2, encoding_format=encoding)
    assert vector(answer["data"][0]["embedding"]) == [0.0, 0.0]


def test_without_the_signature_tokenize_no_tokens_are_counted(ask):
    status, answer = ask(model="uncounted", input="abc")
    assert (status, answer["usage"]) == (200, {"prompt_tokens": 0, "total_tokens": 0})


@pytest.mark.parametrize(
    ("members", "param", "message"),
    [
        ({"input": "a"}, "model", '"model" must be the name of a model. Received: nothing'),
        ({"model": 5, "input": "a"}, "model", '"model" must be the name of a model. Received: 5'),
        ({"model": "letters"}, "input", '"input" must be a string or a list of strings. Received: nothing'),
        ({"model": "letters", "input": 5}, "input", '"input" must be a string or a list of strings. Received: 5'),
        ({"model": "letters", "input": []}, "input", '"input" must have 1 to 2048 texts. Received: 0'),
        ({"model": "letters", "input": ["a"] * 2049}, "input", '"input" must have 1 to 2048 texts. Received: 2049'),
        ({"model": "letters", "input": ["a", None]}, "input", '"input[1]" must be a string. Received: nothing'),
        ({"model": "letters", "input": ["a", ["b"]]}, "input", "\"input[1]\" must be a string. Received: ['b']"),
        ({"model": "letters", "input": [101, 102]}, "input", "Received token ids"),
        ({"model": "letters", "input": [[101], [102]]}, "input", "Received token ids"),
        ({"model": "letters", "input": "a", "encoding_format": "int8"}, "encoding_format", 'must be "float" or'),
        ({"model": "letters", "input": "a", "dimensions": 0}, "dimensions", "must be a whole number from 1"),
        ({"model": "letters", "input": "a", "dimensions": True}, "dimensions", "must be a whole number from 1"),
        ({"model": "letters", "input": "a", "dimensions": 2.0}, "dimensions", "must be a whole number from 1"),
        ({"model": "letters", "input": "a", "dimensions": 4}, "dimensions", "must be at most 3, the width of this"),
        ({"model": "letters", "input": "a", "dimension": 2}, None, "Unrecognized request argument supplied: dimension"),
        ({"model": "pairs", "input": "a"}, "model", "it takes text, text_b and gives embedding"),
        ({"model": "labels", "input": "a"}, "model", "it takes text and gives label"),
        ({"model": "no_default", "input": "a"}, "model", "it has no such signature"),
        ({"model": "wrong_shape", "input": ["a", "b"]}, "model", "its answer to 2 texts has the shape (1, 3)"),
        ({"model": "nobody\u00e9", "input": "a"}, "model", "model 'nobody\u00e9' does not exist."),
        ({"model": "letters", "input": "a" * (1 << 20)}, None, "larger than 1048576 bytes, the limit of this server."),
        (b"[]", None, "The body of the request must be a JSON object"),
        (b'{"model"', None, "The body of the request is not JSON"),
    ],
)
def test_wrong_requests_get_an_error_in_the_form_of_openai(port, members, param, message):
    status, answer = post(port, members)
    assert message in answer["error"].pop("message")
    code = "model_not_found" if "does not exist" in message else None
    assert answer == {"error": {"type": "invalid_request_error", "param": param, "code": code}}
    assert status == (404 if code else 413 if "larger than" in message else 400)


def test_other_methods_are_refused(port):
    with HttpClient(port) as client:
        status, body = client.raw("GET", "/v1/embeddings")
    assert (status, "answers POST only" in json.loads(body)["error"]["message"]) == (405, True)


def test_the_bounds_of_predict_hold():
    with background_server(LETTERS, ServerOptions(port=0, max_rows=3)) as address:
        status, answer = post(address.port, {"model": "letters", "input": ["abc"] * 3})
        assert (status, answer["usage"]["prompt_tokens"]) == (200, 15)
        status, answer = post(address.port, {"model": "letters", "input": ["abc"] * 4})
        assert status == 400
        assert "The request has 4 rows, but this server accepts at most 3 (--max_rows)." in answer["error"]["message"]


def test_a_body_that_does_not_arrive_and_requests_beyond_the_limit_are_refused_in_the_form_of_openai():
    with (
        background_server(LETTERS, ServerOptions(port=0, max_requests=1, body_seconds=1)) as address,
        socket.create_connection(("127.0.0.1", address.port), timeout=30) as waiting,
    ):
        waiting.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\n\r\n{")
        statuses = {}
        while 429 not in statuses and 408 not in statuses:
            status, answer = post(address.port, ASKED)
            statuses[status] = answer
        late = b"".join(iter(lambda: waiting.recv(1 << 16), b""))
    assert statuses[429]["error"]["type"] == "rate_limit_error"
    assert late.startswith(b"HTTP/1.1 408 ")
    assert b'{"error": {"message": "The body did not arrive within 1 seconds."' in late


def test_an_exported_sentence_encoder_gives_the_vectors_of_encode(served):
    encoder = served[0]["sentence"][0]
    model = serving.load(pathlib.Path(served[1]["sentence"]).parent)
    with background_server({"sentence": model}, ServerOptions(port=0)) as address:
        _, answer = post(address.port, {"model": "sentence", "input": TEXTS, "encoding_format": "base64"})
        _, one = post(address.port, {"model": "sentence", "input": "the fox"})
    vectors = [decoded(row["embedding"]) for row in answer["data"]]
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS), atol=1e-5)
    assert one["usage"] == {"prompt_tokens": 4, "total_tokens": 4}  # [CLS] the fox [SEP]
