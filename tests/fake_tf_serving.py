"""A small fake of TF Serving for tests of clients: REST and gRPC, one toy model, and faults on demand.

The model "toy" has the versions 2 and 3, and 3 has the label "stable". It classifies texts of more than four bytes as
"long": with n bytes, "long" has the probability n / (n + 4). Its gRPC is made from the official tensorflow-serving-api.
"""

import base64
import collections
import contextlib
import http.server
import json
import socket
import ssl
import struct
import threading
import time
import urllib.parse

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from official_serving_api import Model, OfficialGrpcServer, Refused
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef

# gRPC status -> TF Serving's HTTP status; all others become 500.
HTTP_STATUS = {
    "OK": 200,
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
ONE_TEXT = {"text": np.array([b"a b"], object)}
# Signature -> inputs of the right types and ranks.
INPUTS = {
    "serving_default": ONE_TEXT,
    "length": ONE_TEXT,
    "add": {"a": np.zeros([1, 2], np.float32), "b": np.zeros([1, 2], np.float32)},
    "echo": {"value_bytes": np.array([b"a"], object)},
    "classify": ONE_TEXT,
    "regress": ONE_TEXT,
}


def probabilities(texts) -> np.ndarray:
    sizes = np.array([len(text) for text in texts], np.float32)
    long = sizes / (sizes + np.float32(4))
    return np.stack([1 - long, long], axis=-1).astype(np.float32)


class ToyModel(Model):
    versions, labels = {2: "END", 3: "AVAILABLE"}, {"stable": 3}

    def __init__(self):
        self.signature_defs = {name: self._definition(name, inputs) for name, inputs in INPUTS.items()}

    def _definition(self, signature: str, inputs: dict) -> SignatureDef:
        definition = SignatureDef(method_name="tensorflow/serving/predict")
        for side, arrays in ((definition.inputs, inputs), (definition.outputs, outputs_of(signature, inputs))):
            for name, array in arrays.items():
                tensor = tf.TensorSpec([None] * array.ndim, tf.as_dtype(array.dtype))
                side[name].name, side[name].dtype = f"{name}:0", tensor.dtype.as_datatype_enum
                side[name].tensor_shape.CopyFrom(tensor.shape.as_proto())
        return definition

    def predict(self, signature, inputs):
        self.checked(signature, inputs)
        return outputs_of(signature, inputs)

    def classify(self, signature, examples):
        texts = [example.features.feature["text"].bytes_list.value[0] for example in examples]
        return [[("short", short), ("long", long)] for short, long in probabilities(texts).tolist()]

    def regress(self, signature, examples):
        return [scores[1][1] for scores in self.classify(signature, examples)]


def outputs_of(signature: str, inputs: dict) -> dict:
    """The outputs of a signature of the toy model; strings are bytes."""
    if signature == "add":
        return {"sum": inputs["a"] + inputs["b"], "places": np.arange(len(inputs["a"]), dtype=np.int64)}
    if signature == "echo":
        return {"value_bytes": inputs["value_bytes"], "text": inputs["value_bytes"]}
    if inputs["text"].dtype != object:
        raise Refused("INVALID_ARGUMENT", "Expects arg[0] to be string but float is provided")
    texts = inputs["text"].tolist()
    if signature == "length":
        return {"length": np.array([len(text) for text in texts], np.int32)}
    rows, labels = probabilities(texts), np.array([b"short", b"long"], object)
    best = {"label": labels[rows.argmax(-1)], "probability": rows.max(-1)}
    return best | {"labels": np.broadcast_to(labels, rows.shape), "probabilities": rows}


class FakeTfServing:
    """Runs until `close`. `requests` lists the requests; `misbehave(...)` replaces the next REST answers.

    `misbehave` takes an HTTP status; "close" (without an answer), "reset", "cut" (half an answer), "drip" (byte by
    byte), bytes (the body of a 200), or seconds (a float) to wait before the usual answer.

    Args:
        certificate: files in PEM (certificate, key); with it both transports use TLS.
    """

    def __init__(self, certificate: tuple[str, str] | None = None):
        self.model = ToyModel()
        self.requests: list = []
        self.misbehaviour: collections.deque = collections.deque()
        self.grpc_misbehaviour: collections.deque = collections.deque()
        self.connections = self.at_work = self.most_at_work = 0
        self._lock = threading.Lock()
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            # The handshake belongs to the thread of the connection.
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()
        self._grpc = OfficialGrpcServer(self.model, self._before_grpc, certificate)
        self.address = self._grpc.address

    def _before_grpc(self, name, request, context) -> None:
        self.requests.append((name, request, dict(context.invocation_metadata())))
        kind = self.grpc_misbehaviour.popleft() if self.grpc_misbehaviour else None
        if isinstance(kind, float):
            with self.working():
                time.sleep(kind)
        elif kind is not None:
            context.abort(grpc.StatusCode[kind], f"told to answer {kind}")

    @contextlib.contextmanager
    def working(self):
        """Counts the requests that are in progress at once."""
        with self._lock:
            self.at_work += 1
            self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            yield
        finally:
            with self._lock:
                self.at_work -= 1

    def misbehave(self, *kinds) -> None:
        self.misbehaviour.extend(kinds)

    def forget(self) -> None:
        """Clears the recorded requests and the planned faults, for the next test."""
        for kept in (self.requests, self.misbehaviour, self.grpc_misbehaviour):
            kept.clear()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        self._grpc.close()


def _handler(server: FakeTfServing):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self):
            super().setup()
            server.connections += 1

        def do_GET(self):
            self.do_POST()

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with server.working():
                self._answer(body)

        def _answer(self, body):
            server.requests.append((self.command, self.path, body, dict(self.headers)))
            kind = server.misbehaviour.popleft() if server.misbehaviour else None
            if isinstance(kind, float):
                time.sleep(kind)
                kind = None
            if kind in ("close", "reset"):
                if kind == "reset":
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True
                return
            if isinstance(kind, int):
                status, text = kind, json.dumps({"error": f"told to answer {kind}"}).encode()
            elif isinstance(kind, bytes):
                status, text = 200, kind
            else:
                status, text = _rest_answer(server, self.command, self.path, body)
            head = f"HTTP/1.1 {status} Told\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
            data = head.encode() + text
            try:
                if kind == "cut":
                    self.wfile.write(data[: len(data) - len(text) // 2])
                    self.close_connection = True
                elif kind == "drip":
                    for place in range(len(data)):
                        self.wfile.write(data[place : place + 1])
                        time.sleep(0.05)
                else:
                    self.wfile.write(data)
            except ConnectionError:
                self.close_connection = True

        def log_message(self, *_):
            pass

    return Handler


def _rest_answer(server, method: str, path: str, body: bytes) -> tuple[int, bytes]:
    try:
        return 200, _rest(server, method, path, body).encode("utf-8", "surrogateescape")
    except Refused as refusal:
        code, text = refusal.args
        return HTTP_STATUS.get(code, 500), json.dumps({"error": text}, indent=4).encode()


def _rest(server, method: str, path: str, body: bytes) -> str:
    place, _, verb = path.rpartition(":") if method == "POST" else (path, "", "")
    parts = [urllib.parse.unquote(part) for part in place.split("/")]
    if parts[:3] != ["", "v1", "models"] or len(parts) < 4:
        raise Refused("INVALID_ARGUMENT", f"Malformed request: {method} {path}")
    choice = dict(zip(parts[4:6:2], parts[5:6], strict=False))
    number = int(choice["versions"]) if "versions" in choice else None
    version = server.model.find(parts[3], number, choice.get("labels"))
    if method == "GET" and parts[-1] == "metadata":
        signatures = _as_json(server.model.metadata())
        spec = {"name": parts[3], "signature_name": "", "version": str(version)}
        return json.dumps({"model_spec": spec, "metadata": {"signature_def": signatures}})
    if method == "GET":
        return json.dumps(_as_json(server.model.status()))
    request = json.loads(body)
    signature = request.get("signature_name", "serving_default")
    if signature not in INPUTS:
        raise Refused("INVALID_ARGUMENT", f'Serving signature name: "{signature}" not found in signature def')
    if verb == "predict":
        outputs = server.model.predict(signature, {name: _array(value) for name, value in request["inputs"].items()})
        values = {name: _json(name, array.tolist()) for name, array in outputs.items()}
        return json.dumps({"outputs": values if len(values) > 1 else next(iter(values.values()))}, ensure_ascii=False)
    rows = probabilities([_array([example["text"]])[0] for example in request["examples"]]).tolist()
    if verb == "classify":
        return json.dumps({"results": [[["short", _shorter(a)], ["long", _shorter(b)]] for a, b in rows]})
    return json.dumps({"results": [_shorter(long) for _, long in rows]})


def _as_json(message) -> dict:
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _array(value) -> np.ndarray:
    array = np.array(value, object)
    numbers = array.size and isinstance(array.ravel()[0], (int, float))
    if numbers:
        return array.astype(np.float32)
    flat = [base64.b64decode(v["b64"]) if isinstance(v, dict) else v.encode() for v in array.ravel()]
    result = np.empty(array.shape, object)
    result.ravel()[:] = flat
    return result


def _shorter(number: float) -> float:
    return float(f"{np.float32(number):.9g}")


def _json(name: str, value):
    if isinstance(value, list):
        return [_json(name, item) for item in value]
    if isinstance(value, bytes):
        if name.endswith("_bytes"):
            return {"b64": base64.b64encode(value).decode()}
        return value.decode(
            "utf-8", "surrogateescape"
        )  # TF Serving writes strings unchanged, also if they are not UTF-8
    return _shorter(value) if isinstance(value, float) else value
