"""Tiny SavedModels for the tests of the server, and a client of plain sockets and http.client."""

import http.client
import json
import os
import time

import tensorflow as tf

MODEL = "half_plus_two"


def _signature(*specs):
    return lambda function: tf.function(function, input_signature=list(specs))


def _spec(name, dtype=tf.float32, shape=None):
    return tf.TensorSpec(shape, dtype, name=name)


def save_model(folder, plus: float = 2.0) -> str:
    """Writes a SavedModel with the signatures that the tests need; y = x / 2 + plus."""
    module = tf.Module()
    module.plus = tf.Variable(plus)

    def parsed(examples):
        return tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([], tf.float32)})["x"] * 0.5 + module.plus

    @_signature(_spec("x"))
    def half_plus_two(x):
        return {"y": x * 0.5 + module.plus}

    @_signature(_spec("inputs", tf.string, [None]))
    def regress(inputs):
        return {"outputs": parsed(inputs)}

    @_signature(_spec("inputs", tf.string, [None]))
    def classify(inputs):
        scores = parsed(inputs)[:, None]
        return {"scores": tf.concat([scores, -scores], 1), "classes": tf.fill(tf.shape(scores) * [1, 2], "a")}

    @_signature(_spec("inputs", tf.string, [None]))
    def scores_only(inputs):
        return {"scores": parsed(inputs)[:, None]}

    signatures = {
        "serving_default": half_plus_two, "regress": regress, "classify": classify, "scores_only": scores_only,
        "pair": _pair, "kinds": _kinds, "rows": _rows, "scalar": _scalar, "half": _half, "slow": _slow,
    }  # fmt: skip
    tf.saved_model.save(module, os.fspath(folder), signatures=signatures)
    return os.fspath(folder)


# The signatures that have no variable.


@_signature(_spec("a", shape=[None, 2]), _spec("b", tf.string, [None]))
def _pair(a, b):
    return {"sum": tf.reduce_sum(a, 1), "text": b, "text_bytes": b, "length": tf.strings.length(b)}


_KINDS = [tf.int8, tf.uint8, tf.int16, tf.int32, tf.int64, tf.uint32, tf.uint64, tf.double, tf.bool]


@_signature(*(_spec(kind.name, kind, [None]) for kind in _KINDS))
def _kinds(*values):
    return {kind.name: value for kind, value in zip(_KINDS, values, strict=True)}


@_signature(_spec("rows", shape=[None, None]))
def _rows(rows):
    return {"sum": tf.reduce_sum(rows, 1), "batch": tf.fill([tf.shape(rows)[0]], tf.shape(rows)[0])}


@_signature(_spec("x", shape=[None]))
def _scalar(x):
    return {"sum": tf.reduce_sum(x), "y": x}


@_signature(_spec("x", shape=[None]))
def _half(x):
    return {"y": tf.cast(x, tf.bfloat16)}


@_signature(_spec("steps", tf.int32, [None]))
def _slow(steps):
    last = tf.while_loop(lambda i, _: i < steps[0], lambda i, v: (i + 1, tf.sin(v)), [0, tf.ones([64])])
    return {"y": steps + tf.cast(last[1][0], tf.int32)}


class HttpClient:
    """Sends requests to a server; returns (status, parsed body)."""

    def __init__(self, port: int, model: str = MODEL, timeout: float = 30):
        self.port, self.path = port, f"/v1/models/{model}"
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def raw(self, method: str, path: str, body=None, headers=None) -> tuple[int, bytes]:
        self._connection.request(method, path, body, headers or {})
        response = self._connection.getresponse()
        return response.status, response.read()

    def ask(self, body, what: str = "predict", where: str = "") -> tuple[int, dict]:
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, answer = self.raw("POST", f"{self.path}{where}:{what}", body)
        return status, json.loads(answer)

    def look(self, where: str = "") -> tuple[int, dict]:
        status, answer = self.raw("GET", self.path + where)
        return status, json.loads(answer)

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self._connection.close()


def wait_until_ready(port: int) -> None:
    """Returns when every model of a server is loaded."""
    for _ in range(1200):
        with HttpClient(port) as client:
            if client.raw("GET", "/healthz/ready")[0] == 200:
                return
        time.sleep(0.05)
    raise AssertionError("the models are not loaded")
