"""Converts the JSON of predict requests and answers.

{"instances": [1.0, 2.0]}    ->  {"x": array([1., 2.])}            one value (or object) per row
{"inputs": {"x": [1.0]}}     ->  {"x": array([1.])}                one value per input
{"y": array([2.5, 3.])}      ->  {"predictions": [2.5, 3.0]}       or {"outputs": ...}
"""

import base64
import binascii
import json
import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.json_files import parse_json_line
from keras_bert.tf_serving.client.model_info import Tensor
from keras_bert.tf_serving.client.request_batches import map_strings

BASE64_KEY = "b64"
BYTES_SUFFIX = "_bytes"  # the end of the names of outputs that are written as base64

# TensorFlow's name of a type -> NumPy's.
_NUMPY_TYPES = {"float": "float32", "double": "float64", "half": "float16", "string": "object", "bool": "bool"}
_NUMPY_TYPES |= {f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
# NumPy's kind of a type -> the types of JSON values that it takes.
_JSON_TYPES = {"O": {str, dict}, "f": {int, float}, "b": {bool}, "i": {int}, "u": {int}}


def parse_object(body: bytes) -> dict[str, Any]:
    """Returns the JSON object of a body. Raises `InputError` for others, and for too many or too deep values."""
    value = parse_json_line(body, "The body of the request")
    if not isinstance(value, dict):
        raise InputError(f"The body of the request must be a JSON object. Received: {shown(value)}")
    return value


def shown(value: Any) -> str:
    """Returns the beginning of a value for an error message."""
    return reprlib.repr(value)


def arrays_from_request(request: Mapping, tensors: Mapping[str, Tensor]) -> tuple[dict[str, np.ndarray], bool]:
    """Returns the inputs of a predict request, and whether it has the rows one by one ("instances").

    The arrays have the types of `tensors`, the inputs of the signature; strings are object arrays of `str` or `bytes`.
    Raises `InputError` if the request is malformed, or JSON cannot represent the type of an input.
    """
    if ("instances" in request) == ("inputs" in request):
        raise InputError(f'Give either "instances" or "inputs". Received: {", ".join(request) or "neither"}')
    if "inputs" in request:
        columns, has_rows = _by_name(request["inputs"], tensors, "inputs"), False
    else:
        rows, has_rows = request["instances"], True
        if not isinstance(rows, list) or not rows:
            raise InputError(f'"instances" must be a list with one value for each row. Received: {shown(rows)}')
        named = [_by_name(row, tensors, f"instances[{number}]") for number, row in enumerate(rows)]
        columns = {name: [row[name] for row in named] for name in tensors}
    return {name: _array(name, columns[name], tensor) for name, tensor in tensors.items()}, has_rows


def _by_name(value: Any, tensors: Mapping[str, Tensor], where: str) -> dict[str, Any]:
    """Returns an object with a value for each input. A single input need not be named."""
    if isinstance(value, dict) and value.keys() == tensors.keys():
        return value
    if len(tensors) == 1 and not (isinstance(value, dict) and value.keys() != {BASE64_KEY}):
        return dict.fromkeys(tensors, value)
    raise InputError(f"{where} must have the keys {', '.join(sorted(tensors))}. Received: {shown(value)}")


def _array(name: str, values: Any, tensor: Tensor) -> np.ndarray:
    if tensor.dtype not in _NUMPY_TYPES:
        raise InputError(
            f"JSON cannot carry the input {name}, of type {tensor.dtype}. Use gRPC and TensorFlow Serving."
        )
    dtype = np.dtype(_NUMPY_TYPES[tensor.dtype])
    try:
        array = np.array(values, object)
    except ValueError:
        raise _ragged(name) from None
    flat = array.ravel().tolist()
    if wrong := set(map(type, flat)) - _JSON_TYPES[dtype.kind]:
        if list in wrong:
            raise _ragged(name)
        value = next(value for value in flat if type(value) in wrong)
        raise InputError(f"The input {name} takes values of type {tensor.dtype}. Received: {shown(value)}")
    if tensor.shape is not None and (
        len(tensor.shape) != array.ndim
        or any(size not in (None, given) for size, given in zip(tensor.shape, array.shape, strict=True))
    ):
        expected = ["any" if size is None else size for size in tensor.shape]
        raise InputError(
            f"The input {name} must have the shape [{', '.join(map(str, expected))}]. Received: {list(array.shape)}"
        )
    if tensor.dtype == "string":
        return map_strings(lambda value: base64_bytes(value) if isinstance(value, dict) else value, array)
    if dtype.kind in "iu" and flat and not np.iinfo(dtype).min <= min(flat) <= max(flat) <= np.iinfo(dtype).max:
        raise InputError(f"The input {name} has a number that does not fit into {tensor.dtype}.")
    try:
        with np.errstate(over="ignore"):  # numbers out of range become infinity
            return array.astype(dtype)
    except OverflowError:
        raise InputError(f"The input {name} has a number that does not fit into {tensor.dtype}.") from None


def _ragged(name: str) -> InputError:
    return InputError(f"The rows of the input {name} have different lengths or depths. Fill the short ones up.")


def base64_bytes(value: Mapping) -> bytes:
    """Returns the bytes of {"b64": "..."}. Raises `InputError` if it is no such object."""
    try:
        if value.keys() == {BASE64_KEY}:
            return base64.b64decode(value[BASE64_KEY], validate=True)
    except (TypeError, ValueError, binascii.Error):
        pass
    raise InputError(f'A string of bytes must be {{"{BASE64_KEY}": base64}}. Received: {shown(value)}')


def response_body(outputs: Mapping[str, np.ndarray], as_rows: bool) -> bytes:
    """Returns the body of an answer. A single output is not named, as in TensorFlow Serving.

    Strings are written as text, with the bytes of those that are not UTF-8; strings of outputs whose name ends in
    `_bytes` as {"b64": "..."}. Raises `InputError` if the outputs are not rows of one batch, or of types without JSON.
    """
    counts = {array.shape[:1] for array in outputs.values()}
    if as_rows and (len(counts) != 1 or () in counts):
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in outputs.items())
        raise InputError(f'Rows need outputs of one batch. Use "inputs". The model returned: {shapes}')
    values = {name: _json_values(name, array) for name, array in sorted(outputs.items())}
    is_single = len(values) == 1
    if as_rows:
        rows = zip(*values.values(), strict=True)
        answer = {"predictions": [row[0] if is_single else dict(zip(values, row, strict=True)) for row in rows]}
    else:
        answer = {"outputs": next(iter(values.values())) if is_single else values}
    return json.dumps(answer, ensure_ascii=False).encode("utf-8", "surrogateescape")


def _json_values(name: str, array: np.ndarray) -> Any:
    if array.dtype.kind not in _JSON_TYPES:
        raise InputError(
            f"JSON cannot carry the output {name}, of type {array.dtype}. Use gRPC and TensorFlow Serving."
        )
    if array.dtype.kind != "O":
        return array.tolist()
    if name.endswith(BYTES_SUFFIX):
        return map_strings(lambda value: {BASE64_KEY: base64.b64encode(value).decode()}, array).tolist()
    return map_strings(lambda value: value.decode("utf-8", "surrogateescape"), array).tolist()
