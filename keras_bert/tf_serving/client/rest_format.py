"""Requests and answers of TF Serving's REST API: JSON in columns, `{"inputs": {...}}` -> `{"outputs": {...}}`.

JSON has no types: in answers whole numbers become int64, other numbers float64. TF Serving writes enough digits of a
float32 to read it back: `.astype(numpy.float32)` restores the model's number exactly.
"""

import base64
import binascii
import dataclasses
import functools
import json
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.client.errors import http_error, serving_error
from keras_bert.tf_serving.client.model_info import ModelMetadata, ModelVersion, Signature, Tensor
from keras_bert.tf_serving.client.request_batches import bytes_to_string, map_strings

_SHOWN_CHARACTERS = 200


@dataclasses.dataclass(frozen=True)
class HttpRequest:
    """A request: GET without a body, POST with one."""

    path: str
    body: bytes | None = None


def _reads_json(read: Callable[["RestFormat", Any], Any]) -> Callable[["RestFormat", bytes], Any]:
    """Makes a method that takes an answer of one that takes its JSON. Any other answer raises a `ServingError`."""

    @functools.wraps(read)
    def read_answer(self, answer):
        try:
            # TF Serving writes strings as they are, so that an answer need not be UTF-8.
            return read(self, json.loads(answer.decode("utf-8", "surrogateescape")))
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            text = answer.decode("utf-8", "replace")[:_SHOWN_CHARACTERS]
            message = f"the answer is not one of TF Serving's API: {text!r}"
            raise serving_error(self.server, "UNKNOWN", message) from error

    return read_answer


class RestFormat:
    """Writes the requests for one model and reads the answers.

    `url` is the server's, for error messages; `prefix` is its path, before "/v1".
    """

    def __init__(self, url: str, prefix: str, model: str, version: int | None, label: str | None):
        self._path = f"{prefix}/v1/models/{urllib.parse.quote(model, safe='')}"
        if version is not None:
            self._path += f"/versions/{version}"
        if label is not None:
            self._path += f"/labels/{urllib.parse.quote(label, safe='')}"
        self.server = f"{url}{self._path.removeprefix(prefix)}"

    def predict(self, signature_name: str, inputs: Mapping[str, np.ndarray]) -> HttpRequest:
        columns = {name: _json_value(array) for name, array in inputs.items()}
        return self._post("predict", {"signature_name": signature_name, "inputs": columns})

    @_reads_json
    def read_predict(self, answer: Any) -> dict[str | None, np.ndarray]:
        """Returns the outputs by name. The only output of a signature has no name in JSON; it is None here."""
        outputs = answer["outputs"]
        # A string of bytes is a JSON object too.
        named = isinstance(outputs, dict) and outputs.keys() != {"b64"}
        return {name: _array(value) for name, value in (outputs.items() if named else [(None, outputs)])}

    def classify(self, signature_name: str, inputs: Mapping[str, np.ndarray]) -> HttpRequest:
        return self._post("classify", {"signature_name": signature_name, "examples": _examples(inputs)})

    @_reads_json
    def read_classify(self, answer: Any) -> dict[str, np.ndarray]:
        # The documentation says "result", TF Serving writes "results".
        rows = [[(label, float(score)) for label, score in row] for row in answer["results"]]
        scores = np.array([[score for _, score in row] for row in rows], np.float64)
        classes = np.array([[_python_string(label) for label, _ in row] for row in rows], object)
        return {"classes": classes.reshape(scores.shape), "scores": scores}

    def regress(self, signature_name: str, inputs: Mapping[str, np.ndarray]) -> HttpRequest:
        return self._post("regress", {"signature_name": signature_name, "examples": _examples(inputs)})

    @_reads_json
    def read_regress(self, answer: Any) -> np.ndarray:
        return np.array([float(score) for score in answer["results"]])

    def status(self) -> HttpRequest:
        return HttpRequest(self._path)

    @_reads_json
    def read_status(self, answer: Any) -> list[ModelVersion]:
        return [
            ModelVersion(
                int(version["version"]),
                version["state"],
                version.get("status", {}).get("error_code", "OK"),
                version.get("status", {}).get("error_message", ""),
            )
            for version in answer["model_version_status"]
        ]

    def metadata(self) -> HttpRequest:
        return HttpRequest(f"{self._path}/metadata")

    @_reads_json
    def read_metadata(self, answer: Any) -> ModelMetadata:
        signatures = {
            name: Signature(
                {key: _tensor(info) for key, info in signature.get("inputs", {}).items()},
                {key: _tensor(info) for key, info in signature.get("outputs", {}).items()},
                signature.get("method_name", ""),
            )
            for name, signature in answer["metadata"]["signature_def"]["signature_def"].items()
        }
        return ModelMetadata(answer["model_spec"]["name"], int(answer["model_spec"]["version"]), signatures)

    def checked(self, status: int, answer: bytes) -> bytes:
        """Returns an answer with the status 200. Raises a `ServingError` for any other status."""
        if status == 200:
            return answer
        text = answer.decode("utf-8", "replace")
        try:
            text = str(json.loads(text)["error"])
        except (ValueError, TypeError, KeyError, RecursionError):
            text = text[:_SHOWN_CHARACTERS] or "(no text)"
        raise http_error(self.server, status, text)

    def _post(self, verb: str, body: dict) -> HttpRequest:
        # There are no surrogates left: `_json_value` encodes invalid UTF-8 as base64.
        return HttpRequest(f"{self._path}:{verb}", json.dumps(body, ensure_ascii=False).encode("utf-8"))


def _json_value(array: np.ndarray):
    """Returns an array as nested lists; strings that are not UTF-8 as {"b64": ...}."""
    if array.dtype == object:
        return map_strings(_json_string, array).tolist()
    if array.dtype.kind not in "biuf":
        raise InputError(f"JSON has no values for arrays of type {array.dtype}; use GrpcClient.")
    return array.tolist()


def _json_string(data: bytes):
    text = bytes_to_string(data)
    return text if isinstance(text, str) else {"b64": base64.b64encode(text).decode("ascii")}


def _array(value) -> np.ndarray:
    first = value
    while isinstance(first, list) and first:
        first = first[0]
    if isinstance(first, (str, dict)):
        return map_strings(_python_string, np.array(value, object))
    array = np.array(value)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"not numbers: {value!r}")
    return array


def _python_string(value) -> str | bytes:
    """Returns a string of an answer as `str`, or as `bytes` if it is not UTF-8 or was sent as base64.

    >>> _python_string({"b64": "/w=="})
    b'\\xff'
    """
    if isinstance(value, dict):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (KeyError, TypeError, binascii.Error) as error:
            raise ValueError(f"not a string: {value!r}") from error
    if not isinstance(value, str):
        raise ValueError(f"not a string: {value!r}")
    try:
        return bytes_to_string(value.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:  # half a pair, written as \ud800
        return value


def _examples(inputs: Mapping[str, np.ndarray]) -> list[dict]:
    """Returns columns as rows: {"text": [a, b]} -> [{"text": a}, {"text": b}]."""
    columns = {name: _json_value(array) for name, array in inputs.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _tensor(info: dict) -> Tensor:
    shape = info.get("tensor_shape", {})
    sizes = None if shape.get("unknown_rank") else tuple(int(dim["size"]) for dim in shape.get("dim", []))
    sizes = sizes and tuple(None if size < 0 else size for size in sizes)
    return Tensor(info["dtype"].removeprefix("DT_").lower(), sizes)
