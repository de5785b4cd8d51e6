"""Models for the tests of the development server, made of functions on arrays, and a client of http.client."""

import http.client
import json
import time

import numpy as np

from keras_bert.tf_serving.client.model_info import Tensor

MODEL = "half_plus_two"
NUMBERS, TEXTS = Tensor("float", (None,)), Tensor("string", (None,))


class Signature:
    """A function of arrays by name, with the attributes of the signatures of loaded exports."""

    def __init__(self, function, inputs: dict[str, Tensor], outputs: dict[str, Tensor]):
        self._function, self.input_tensors, self.output_tensors = function, inputs, outputs

    def __call__(self, **inputs):
        assert inputs.keys() == self.input_tensors.keys()
        return self._function(**inputs)


class Model:
    """What the server uses of a loaded export."""

    def __init__(self, signatures: dict[str, Signature], labels=(), path: str = "no such folder"):
        self.signatures, self.labels, self.path = signatures, labels, path


def _pair(a, b):
    texts = np.array([text if isinstance(text, bytes) else text.encode() for text in b.tolist()], object)
    lengths = np.array([len(text) for text in texts.tolist()], np.int32)
    return {"sum": a.sum(1), "text": texts, "text_bytes": texts, "length": lengths}


def _slow(seconds):
    time.sleep(float(seconds[0]))
    return {"y": seconds}


KINDS = ["int8", "uint8", "int16", "int32", "int64", "uint32", "uint64", "double", "bool"]
_ONE_OF_EACH_KIND = {kind: Tensor(kind, (None,)) for kind in KINDS}


def half_plus_two() -> Model:
    """Returns a model whose default signature computes y = x / 2 + 2 for x of any shape."""
    anything = Tensor("float", None)
    pairs = {"a": Tensor("float", (None, 2)), "b": TEXTS}
    of_pairs = {"sum": NUMBERS, "text": TEXTS, "text_bytes": TEXTS, "length": Tensor("int32", (None,))}
    return Model(
        {
            "serving_default": Signature(lambda x: {"y": x / 2 + 2}, {"x": anything}, {"y": anything}),
            "pair": Signature(_pair, pairs, of_pairs),
            "kinds": Signature(lambda **values: values, _ONE_OF_EACH_KIND, _ONE_OF_EACH_KIND),
            "scalar": Signature(lambda x: {"sum": x.sum(), "y": x}, {"x": NUMBERS}, {"sum": NUMBERS, "y": NUMBERS}),
            "complex": Signature(lambda x: {"y": x + 1j}, {"x": NUMBERS}, {"y": NUMBERS}),
            "slow": Signature(_slow, {"seconds": NUMBERS}, {"y": NUMBERS}),
            "broken": Signature(lambda x: 1 / 0, {"x": NUMBERS}, {"y": NUMBERS}),
        },
        labels=("no", "yes"),
    )


class HttpClient:
    """Sends requests to a server; returns (status, parsed body)."""

    def __init__(self, port: int, model: str = MODEL, timeout: float = 30):
        self.port, self.path = port, f"/v1/models/{model}"
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def raw(self, method: str, path: str, body=None, headers=None) -> tuple[int, bytes]:
        self._connection.request(method, path, body, headers or {})
        response = self._connection.getresponse()
        return response.status, response.read()

    def ask(self, body) -> tuple[int, dict]:
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, answer = self.raw("POST", f"{self.path}:predict", body)
        return status, json.loads(answer)

    def look(self, path: str) -> tuple[int, dict]:
        status, answer = self.raw("GET", path)
        return status, json.loads(answer)

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self._connection.close()
