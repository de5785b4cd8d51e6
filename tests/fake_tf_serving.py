"""A small fake of TF Serving for tests of clients: REST and gRPC, one toy model, and faults on demand.

The model "toy" has the versions 2 and 3, and 3 has the label "stable". It classifies texts of more than four bytes as
"long": with n bytes, "long" has the probability n / (n + 4).
"""

import base64
import collections
import concurrent.futures
import contextlib
import http.server
import json
import pathlib
import socket
import ssl
import struct
import threading
import time
import urllib.parse

import grpc
import numpy as np

from keras_bert.tf_serving.wire import messages
from keras_bert.tf_serving.wire.methods import METHODS, http_status
from keras_bert.tf_serving.wire.tensors import array_to_tensor_proto, tensor_proto_to_array

VERSIONS = {2: "END", 3: "AVAILABLE"}
SIGNATURES = {
    "serving_default": ["text"],
    "length": ["text"],
    "pieces": ["text"],
    "add": ["a", "b"],
    "echo": ["value_bytes"],
    "classify": ["text"],
    "regress": ["text"],
}


class Refused(Exception):
    """(name of a gRPC status, text)"""


def probabilities(texts) -> np.ndarray:
    sizes = np.array([len(text) for text in texts], np.float32)
    long = sizes / (sizes + np.float32(4))
    return np.stack([1 - long, long], axis=-1).astype(np.float32)


def toy_model(signature: str, inputs: dict) -> dict:
    """The outputs of a signature; strings are bytes."""
    if signature == "add":
        return {"sum": inputs["a"] + inputs["b"], "places": np.arange(len(inputs["a"]), dtype=np.int64)}
    if signature == "echo":
        return {"value_bytes": inputs["value_bytes"], "text": inputs["value_bytes"]}
    if inputs["text"].dtype != object:
        raise Refused("INVALID_ARGUMENT", "Expects arg[0] to be string but float is provided")
    texts = inputs["text"].tolist()
    if signature == "length":
        return {"length": np.array([len(text) for text in texts], np.int32)}
    if signature == "pieces":  # ragged: filled up with "" and -1
        rows = [text.split(b" ") for text in texts]
        width = max(map(len, rows), default=0)
        words = np.full((len(rows), width), b"", object)
        starts = np.full((len(rows), width), -1, np.int32)
        ids = np.zeros((len(rows), width), np.int32)
        for number, row in enumerate(rows):
            words[number, : len(row)] = row
            starts[number, : len(row)] = np.cumsum([0] + [len(word) + 1 for word in row[:-1]])
            ids[number, : len(row)] = 7
        return {"words": words, "starts": starts, "word_ids": ids}
    rows = probabilities(texts)
    labels = np.array([b"short", b"long"], object)
    return {
        "label": labels[rows.argmax(-1)],
        "probability": rows.max(-1),
        "labels": np.broadcast_to(labels, rows.shape),
        "probabilities": rows,
    }


def check_inputs(signature: str, names) -> None:
    if set(names) != set(SIGNATURES[signature]):
        raise Refused("INVALID_ARGUMENT", f"The signature {signature} takes {SIGNATURES[signature]}.")


class FakeTfServing:
    """Runs until `close`. `requests` lists the requests; `misbehave(...)` replaces the next REST answers.

    `misbehave` takes an HTTP status; "close" (without an answer), "reset", "cut" (half an answer), "drip" (byte by
    byte), bytes (the body of a 200), or seconds (a float) to wait before the usual answer.

    Args:
        certificate: files in PEM (certificate, key); with it both transports use TLS.
        model: computes the outputs of a signature, as `toy_model` does.
        signatures: those of `SIGNATURES` that the metadata lists.
    """

    def __init__(self, certificate: tuple[str, str] | None = None, model=toy_model, signatures=tuple(SIGNATURES)):
        self.model, self.signatures = model, signatures
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
        self._grpc = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        self._grpc.add_generic_rpc_handlers([_Methods(self)])
        self.address = f"127.0.0.1:{self._grpc_port(certificate)}"
        self._grpc.start()

    def _grpc_port(self, certificate) -> int:
        if not certificate:
            return self._grpc.add_insecure_port("127.0.0.1:0")
        pem, key = (pathlib.Path(name).read_bytes() for name in certificate)
        return self._grpc.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, pem)]))

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
        self._grpc.stop(None).wait()


# ---------------------------------------------------------------------------------------------------------------- REST


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
        return http_status(code), json.dumps({"error": text}, indent=4).encode()


def _rest(server, method: str, path: str, body: bytes) -> str:
    place, _, verb = path.rpartition(":") if method == "POST" else (path, "", "")
    parts = [urllib.parse.unquote(part) for part in place.split("/")]
    if parts[:3] != ["", "v1", "models"] or len(parts) < 4:
        raise Refused("INVALID_ARGUMENT", f"Malformed request: {method} {path}")
    version = _find(parts[3], *(parts[4:6] if len(parts) >= 6 else []))
    if method == "GET" and parts[-1] == "metadata":
        return json.dumps(_metadata_json(server, version))
    if method == "GET":
        return json.dumps({"model_version_status": [_status_json(number) for number in VERSIONS]})
    request = json.loads(body)
    signature = request.get("signature_name", "serving_default")
    if signature not in SIGNATURES:
        raise Refused("INVALID_ARGUMENT", f'Serving signature name: "{signature}" not found in signature def')
    if verb == "predict":
        check_inputs(signature, request["inputs"])
        outputs = server.model(signature, {name: _array(value) for name, value in request["inputs"].items()})
        values = {name: _json(name, array.tolist()) for name, array in outputs.items()}
        return json.dumps({"outputs": values if len(values) > 1 else next(iter(values.values()))}, ensure_ascii=False)
    rows = probabilities([_array([example["text"]])[0] for example in request["examples"]]).tolist()
    if verb == "classify":
        return json.dumps({"results": [[["short", _shorter(a)], ["long", _shorter(b)]] for a, b in rows]})
    return json.dumps({"results": [_shorter(long) for _, long in rows]})


def _find(model: str, kind: str = "", value: str = "") -> int:
    version = {"versions": lambda: int(value), "labels": lambda: {"stable": 3}.get(value)}.get(kind, lambda: 3)()
    if model != "toy" or VERSIONS.get(version) != "AVAILABLE":
        name = f"Specific({model}, {version})" if kind else f"Latest({model})"
        raise Refused("NOT_FOUND", f"Servable not found for request: {name}")
    return version


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
        # TF Serving writes strings unchanged, also if they are not UTF-8.
        return (
            {"b64": base64.b64encode(value).decode()}
            if name.endswith("_bytes")
            else value.decode("utf-8", "surrogateescape")
        )
    return _shorter(value) if isinstance(value, float) else value


def _status_json(version: int) -> dict:
    status = {"error_code": "OK", "error_message": ""}
    return {"version": str(version), "state": VERSIONS[version], "status": status}


def _metadata_json(server: FakeTfServing, version: int) -> dict:
    signatures = {}
    for name, signature in _signature_map(server).signature_def.items():
        signatures[name] = {
            "inputs": {key: _info_json(info) for key, info in signature.inputs.items()},
            "outputs": {key: _info_json(info) for key, info in signature.outputs.items()},
            "method_name": signature.method_name,
            "defaults": {},
        }
    return {
        "model_spec": {"name": "toy", "signature_name": "", "version": str(version)},
        "metadata": {"signature_def": {"signature_def": signatures}},
    }


def _info_json(info) -> dict:
    dtypes = {1: "DT_FLOAT", 3: "DT_INT32", 7: "DT_STRING", 9: "DT_INT64"}
    dims = [{"size": str(dim.size), "name": ""} for dim in info.tensor_shape.dim]
    return {"dtype": dtypes[info.dtype], "tensor_shape": {"dim": dims, "unknown_rank": False}, "name": info.name}


# ---------------------------------------------------------------------------------------------------------------- gRPC


class _Methods(grpc.GenericRpcHandler):
    def __init__(self, server: FakeTfServing):
        self._server = server

    def service(self, details):
        for name, (path, request, _) in METHODS.items():
            if path == details.method:
                return grpc.unary_unary_rpc_method_handler(
                    lambda message, context, name=name: self._count_and_call(name, message, context, details),
                    request_deserializer=getattr(messages, request).FromString,
                    response_serializer=lambda message: message.SerializeToString(),
                )
        return None

    def _count_and_call(self, *arguments):
        with self._server.working():
            return self._call(*arguments)

    def _call(self, name, message, context, details):
        self._server.requests.append((name, message, dict(details.invocation_metadata)))
        kind = self._server.grpc_misbehaviour.popleft() if self._server.grpc_misbehaviour else None
        if isinstance(kind, float):
            time.sleep(kind)
        elif kind is not None:
            context.abort(getattr(grpc.StatusCode, kind), f"told to answer {kind}")
        try:
            return _grpc_answer(self._server, name, message)
        except Refused as refusal:
            context.abort(getattr(grpc.StatusCode, refusal.args[0]), refusal.args[1])


def _grpc_answer(server: FakeTfServing, name: str, message):
    spec = message.model_spec
    chosen = spec.WhichOneof("version_choice")
    kind = {"version": ["versions", spec.version.value], "version_label": ["labels", spec.version_label]}
    version = _find(spec.name, *kind.get(chosen, []))
    signature = spec.signature_name or "serving_default"
    if name == "GetModelStatus":
        answer = messages.GetModelStatusResponse()
        for number, state in VERSIONS.items():
            item = answer.model_version_status.add(version=number)
            item.state = item.DESCRIPTOR.fields_by_name["state"].enum_type.values_by_name[state].number
            item.status.SetInParent()
        return answer
    if name == "GetModelMetadata":
        answer = messages.GetModelMetadataResponse(model_spec=spec)
        answer.model_spec.version.value = version
        answer.metadata["signature_def"].Pack(_signature_map(server))
        return answer
    if signature not in SIGNATURES:
        raise Refused("FAILED_PRECONDITION", f'Serving signature key "{signature}" not found.')
    if name == "Predict":
        check_inputs(signature, message.inputs)
        outputs = server.model(signature, {key: tensor_proto_to_array(proto) for key, proto in message.inputs.items()})
        answer = messages.PredictResponse(model_spec=spec)
        for key, array in outputs.items():
            answer.outputs[key].CopyFrom(array_to_tensor_proto(array))
        return answer
    examples = message.input.example_list.examples
    rows = probabilities([example.features.feature["text"].bytes_list.value[0] for example in examples])
    if name == "Classify":
        answer = messages.ClassificationResponse()
        for short, long in rows.tolist():
            classes = answer.result.classifications.add().classes
            classes.add(label="short", score=short)
            classes.add(label="long", score=long)
        return answer
    answer = messages.RegressionResponse()
    for _, long in rows.tolist():
        answer.result.regressions.add(value=long)
    return answer


def _signature_map(server: FakeTfServing):
    found = messages.SignatureDefMap()
    one_text = {"text": np.array([b"a b"], object)}
    examples = {"add": {"a": np.zeros([1, 2], np.float32), "b": np.zeros([1, 2], np.float32)}}
    examples["echo"] = {"value_bytes": np.array([b"a"], object)}
    for signature in server.signatures:
        inputs = examples.get(signature, one_text)
        for place, arrays in (("inputs", inputs), ("outputs", toy_model(signature, inputs))):
            for name, array in arrays.items():
                info = getattr(found.signature_def[signature], place)[name]
                info.name, info.dtype = f"{name}:0", array_to_tensor_proto(array).dtype
                for _ in array.shape:
                    info.tensor_shape.dim.add(size=-1)
        found.signature_def[signature].method_name = "tensorflow/serving/predict"
    return found
