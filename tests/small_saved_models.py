"""Tiny SavedModels for the tests of the server, and a client of plain sockets and http.client."""

import http.client
import json
import os

MODEL = "half_plus_two"


def save_model(folder, plus: float = 2.0) -> str:
    """Writes a SavedModel whose signatures are what the tests need; y = x / 2 + plus."""
    import tensorflow as tf

    module = tf.Module()
    module.plus = tf.Variable(plus)

    def signature(*specs):
        return lambda function: tf.function(function, input_signature=list(specs))

    def spec(name, dtype=tf.float32, shape=None):
        return tf.TensorSpec(shape, dtype, name=name)

    def parsed(examples):
        return tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([], tf.float32)})["x"] * 0.5 + module.plus

    types = [tf.int8, tf.uint8, tf.int16, tf.int32, tf.int64, tf.uint32, tf.uint64, tf.double, tf.bool]

    @signature(spec("x"))
    def half_plus_two(x):
        return {"y": x * 0.5 + module.plus}

    @signature(spec("inputs", tf.string, [None]))
    def regress(inputs):
        return {"outputs": parsed(inputs)}

    @signature(spec("inputs", tf.string, [None]))
    def classify(inputs):
        scores = parsed(inputs)[:, None]
        return {"scores": tf.concat([scores, -scores], 1), "classes": tf.fill(tf.shape(scores) * [1, 2], "a")}

    @signature(spec("inputs", tf.string, [None]))
    def scores_only(inputs):
        return {"scores": parsed(inputs)[:, None]}

    @signature(spec("a", shape=[None, 2]), spec("b", tf.string, [None]))
    def pair(a, b):
        return {"sum": tf.reduce_sum(a, 1), "text": b, "text_bytes": b, "length": tf.strings.length(b)}

    @signature(*(spec(kind.name, kind, [None]) for kind in types))
    def kinds(*values):
        return {kind.name: value for kind, value in zip(types, values, strict=True)}

    @signature(spec("rows", shape=[None, None]))
    def rows(rows):
        return {"sum": tf.reduce_sum(rows, 1), "batch": tf.fill([tf.shape(rows)[0]], tf.shape(rows)[0])}

    @signature(spec("x", shape=[None]))
    def scalar(x):
        return {"sum": tf.reduce_sum(x), "y": x}

    @signature(spec("x", shape=[None]))
    def half(x):
        return {"y": tf.cast(x, tf.bfloat16)}

    @signature(spec("steps", tf.int32, [None]))
    def slow(steps):
        last = tf.while_loop(lambda i, _: i < steps[0], lambda i, v: (i + 1, tf.sin(v)), [0, tf.ones([64])])
        return {"y": steps + tf.cast(last[1][0], tf.int32)}

    signatures = {
        "serving_default": half_plus_two, "regress": regress, "classify": classify, "scores_only": scores_only,
        "pair": pair, "kinds": kinds, "rows": rows, "scalar": scalar, "half": half, "slow": slow,
    }  # fmt: skip
    tf.saved_model.save(module, os.fspath(folder), signatures=signatures)
    return os.fspath(folder)


class HttpClient:
    """Asks a server; the answer is (status, parsed body)."""

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
