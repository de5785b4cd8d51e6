"""Converts the JSON of predict requests and answers, with TensorFlow Serving's rules for values.

{"instances": [1.0, 2.0]}    ->  {"x": array([1., 2.])}            one value (or object) per row
{"inputs": {"x": [1.0]}}     ->  {"x": array([1.])}                one value per input
{"y": array([2.5, 3.])}      ->  {"predictions": [2.5, 3.0]}       or {"outputs": ...}
"""

import base64
import binascii
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from keras_bert.tf_serving.server.json_text import kind_of, quoted, shown
from keras_bert.tf_serving.server.status import Code, StatusError, invalid_argument
from keras_bert.tf_serving.wire.strings import string_array

BASE64_KEY = "b64"
BYTES_SUFFIX = "_bytes"
MAX_RANK = 32  # NumPy's limit; TensorFlow's is higher

_NUMBERS = (int, float)
_INTEGER_RANGES = {
    "int8": (-(2**31), 2**31),  # wider than the type, as in TensorFlow Serving: 300 becomes 44
    "uint8": (-(2**31), 2**31),
    "int16": (-(2**31), 2**31),
    "int32": (-(2**31), 2**31),
    "int64": (-(2**63), 2**63),
    "uint32": (0, 2**32),
    "uint64": (0, 2**64),
}
_NUMPY_TYPES = {"float": np.float32, "double": np.float64, "bool": np.bool_, "string": object}


def arrays_from_request(request: Mapping, dtypes: Mapping[str, str]) -> tuple[dict[str, np.ndarray], bool]:
    """Returns the inputs of a predict request, and whether it has the rows one by one ("instances").

    Args:
        request: the parsed body.
        dtypes: input -> TensorFlow's name of its dtype, such as "float" or "string".

    Returns:
        the arrays, with strings as object arrays of bytes; and the flag.

    Raises:
        StatusError: INVALID_ARGUMENT: the request is malformed; UNIMPLEMENTED: JSON cannot represent the dtype.
    """
    if ("instances" in request) == ("inputs" in request):
        raise invalid_argument('Give either "instances" or "inputs". Received: ', ", ".join(request) or "neither")
    if "inputs" in request:
        return _from_columns(request["inputs"], dtypes), False
    instances = request["instances"]
    if not isinstance(instances, list) or not instances:
        raise invalid_argument('"instances" must be a list with one value per row. Received: ', shown(instances))
    return _from_rows(instances, dtypes), True


def _from_rows(instances: list, dtypes: Mapping[str, str]) -> dict[str, np.ndarray]:
    rows_are_objects = _is_object(instances[0])
    if not rows_are_objects and len(dtypes) > 1:
        raise _needs_names("instances", dtypes)
    columns = {name: [] for name in dtypes}
    for number, row in enumerate(instances):
        if _is_object(row) != rows_are_objects:
            raise invalid_argument(
                f"instances[{number}] must be ", "an object" if rows_are_objects else "a value or a list",
                " like the first row. Received: ", shown(row),
            )  # fmt: skip
        if not rows_are_objects:
            row = dict.fromkeys(columns, row)
        elif row.keys() != columns.keys():
            raise invalid_argument(
                f"instances[{number}] must have the keys ", ", ".join(sorted(columns)), ". Received: ", shown(row)
            )
        for name, column in columns.items():
            column.append(row[name])
    return {name: _rows(name, columns[name], dtype, rows_are_objects) for name, dtype in dtypes.items()}


def _rows(name: str, rows: list, dtype: str, is_named: bool) -> np.ndarray:
    """Returns an input whose rows all have the shape of the first."""
    shape, values = dense_shape(rows[0]), []
    for number, row in enumerate(rows):
        try:
            if dense_shape(row) != shape:
                raise invalid_argument(
                    "All rows must have the shape of the first, ", shape, ". Received: ", dense_shape(row)
                )
            _flatten(row, shape, 0, dtype, values)
        except StatusError as error:
            key = f".{name}" if is_named else ""
            raise invalid_argument(f"instances[{number}]{key}: ", error.message) from None
    return _array(name, values, [len(rows), *shape], dtype)


def _from_columns(inputs, dtypes: Mapping[str, str]) -> dict[str, np.ndarray]:
    if not _is_object(inputs):
        if len(dtypes) > 1:
            raise _needs_names("inputs", dtypes)
        inputs = {name: inputs for name in dtypes}
    arrays = {}
    for name, dtype in dtypes.items():
        if name not in inputs:
            raise invalid_argument('"inputs" must have the key ', name, ". Received: ", ", ".join(inputs) or "no key")
        shape, values = dense_shape(inputs[name]), []
        try:
            _flatten(inputs[name], shape, 0, dtype, values)
        except StatusError as error:
            raise StatusError(error.code, f"inputs.{name}: {error.message}") from None
        arrays[name] = _array(name, values, shape, dtype)
    return arrays


def _needs_names(key: str, dtypes: Mapping[str, str]) -> StatusError:
    example = ", ".join(f'"{name}": ...' for name in dtypes)
    return invalid_argument(f'The signature has several inputs, so "{key}" must name them: {{{example}}}')


def _is_object(value) -> bool:
    return isinstance(value, dict) and not is_base64(value)


def is_base64(value) -> bool:
    """Returns whether a value is {"b64": "..."}."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get(BASE64_KEY), str)


def bytes_of(text: str) -> bytes:
    """Returns the bytes of a string, exactly as in the request."""
    return text.encode("utf-8", "surrogateescape")


def base64_bytes(value: Mapping) -> bytes:
    """Returns the bytes of {"b64": "..."}, read as by `absl::Base64Unescape`.

    It has the standard alphabet, ignores ASCII white space, and takes no padding or all of it, as "=" or ".".
    """
    if not is_base64(value):
        raise invalid_argument('A string of bytes must be {"b64": "..."}. Received: ', shown(value))
    text = b"".join(bytes_of(value[BASE64_KEY]).split())
    digits = text.rstrip(b"=.")
    padding = -len(digits) % 4
    try:
        if len(text) - len(digits) in (0, padding):
            return base64.b64decode(digits + b"=" * padding, validate=True)
    except binascii.Error:
        pass
    raise invalid_argument("The value of b64 is not base64. Received: ", shown(value[BASE64_KEY]))


def dense_shape(value) -> list[int]:
    """Returns the shape of a nested list, taken from its first elements: [[1, 2], [3, 4]] -> [2, 2]."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return shape


def _flatten(value, shape: Sequence[int], level: int, dtype: str, values: list) -> None:
    """Appends the elements of a nested list to `values`, after checking its shape and the types of its elements."""
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid_argument(f"Expected a list of {shape[level]} on axis {level}. Received: ", shown(value))
        values.append(_element(value, dtype))
        return
    if level >= len(shape):
        raise invalid_argument(f"Expected a single value on axis {level}. Received: ", shown(value))
    if len(value) != shape[level]:
        raise invalid_argument(f"Expected a list of {shape[level]} on axis {level}. Received a list of {len(value)}")
    if level + 1 == len(shape) and _all_fit(value, dtype):
        values.extend(map(bytes_of, value) if dtype == "string" else value)
        return
    for item in value:
        _flatten(item, shape, level + 1, dtype, values)


def _all_fit(items: list, dtype: str) -> bool:
    """Returns whether all elements obviously have the dtype, without a loop over them."""
    kinds = set(map(type, items))
    if dtype in _INTEGER_RANGES and kinds == {int}:
        low, high = _INTEGER_RANGES[dtype]
        return low <= min(items) and max(items) < high
    return kinds <= {"float": {int, float}, "double": {int, float}, "string": {str}, "bool": {bool}}.get(dtype, set())


def _element(value, dtype: str):
    kind = type(value)
    if dtype in _INTEGER_RANGES:
        low, high = _INTEGER_RANGES[dtype]
        fits = kind is int and low <= value < high
    elif dtype in ("float", "double"):
        fits = kind in _NUMBERS
    elif dtype == "bool":
        fits = kind is bool
    elif dtype == "string":
        if kind is dict:
            return base64_bytes(value)
        fits = kind is str
        value = bytes_of(value) if fits else value
    elif kind is dict:
        fits = False
    else:
        raise StatusError(Code.UNIMPLEMENTED, f"JSON cannot carry values of type {dtype}: use gRPC")
    if not fits:
        raise invalid_argument(f"Expected a value of type {dtype}. Received the {kind_of(value)} ", shown(value))
    return value


def _array(name: str, values: list, shape: Sequence[int], dtype: str) -> np.ndarray:
    if len(shape) > MAX_RANK:
        raise invalid_argument(f"The input {name} must have at most {MAX_RANK} axes. Received: {len(shape)}")
    if dtype == "string":
        return string_array(values).reshape(shape)
    with np.errstate(over="ignore"):  # numbers out of range become infinity
        if dtype in ("int8", "uint8", "int16"):
            return np.array(values, np.int32).astype(dtype).reshape(shape)
        wide = np.array(values, np.float64) if dtype == "float" else values
        return np.array(wide, _NUMPY_TYPES.get(dtype, dtype)).reshape(shape)


def response_body(outputs: Mapping[str, np.ndarray], as_rows: bool) -> bytes:
    """Returns the body of an answer.

    A single output is not named, as in TensorFlow Serving. Strings are written as text; those of outputs whose name
    ends in `_bytes` as {"b64": "..."}.

    Raises:
        StatusError: INVALID_ARGUMENT: the outputs are not rows of one batch, or JSON cannot represent their dtype.
    """
    if not outputs:
        raise invalid_argument("The model returned no output")
    if as_rows:
        _check_rows(outputs)
    texts = {}
    for name, array in sorted(outputs.items()):
        elements = iter(_element_texts(array, name.endswith(BYTES_SUFFIX)))
        if as_rows:
            texts[name] = [_nested(array.shape[1:], elements) for _ in range(len(array))]
        else:
            texts[name] = _nested(array.shape, elements)
    if as_rows:
        rows = ", ".join(_object(dict(zip(texts, row, strict=True))) for row in zip(*texts.values(), strict=True))
        return f'{{"predictions": [{rows}]}}'.encode("utf-8", "surrogateescape")
    return f'{{"outputs": {_object(texts)}}}'.encode("utf-8", "surrogateescape")


def _check_rows(outputs: Mapping[str, np.ndarray]) -> None:
    shapes = {name: array.shape for name, array in outputs.items()}
    if len({shape[:1] for shape in shapes.values()}) > 1 or () in shapes.values():
        text = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise invalid_argument('Rows need outputs of one batch. Use "inputs". The model returned: ', text)


def _object(texts: Mapping[str, str]) -> str:
    """Returns an object with members given as JSON text. A single member is written without its name."""
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "{" + ", ".join(f"{quoted(name)}: {text}" for name, text in texts.items()) + "}"


def _nested(shape: Sequence[int], elements: Iterator[str]) -> str:
    if not shape:
        return next(elements)
    return "[" + ", ".join(_nested(shape[1:], elements) for _ in range(shape[0])) + "]"


def _element_texts(array: np.ndarray, as_base64: bool) -> list[str]:
    values = array.ravel().tolist()
    if array.dtype == object:
        if as_base64:
            return [f'{{"{BASE64_KEY}": "{base64.b64encode(value).decode()}"}}' for value in values]
        return [quoted(value.decode("utf-8", "surrogateescape")) for value in values]
    if array.dtype in (np.float32, np.float64):
        return decimals(array.ravel())
    if array.dtype == bool:
        return ["true" if value else "false" for value in values]
    if array.dtype.name in _INTEGER_RANGES:
        return list(map(str, values))
    raise invalid_argument(f"JSON cannot carry an output of type {array.dtype.name}: use gRPC")


def decimals(numbers: np.ndarray) -> list[str]:
    """Returns numbers as TensorFlow Serving prints them: [0.1, 1, 9e6, 1/3] -> 0.1, 1.0, 9e+06, 0.333333343.

    It uses six digits if these represent the number exactly, otherwise as many as identify it.

    Args:
        numbers: float32 or float64 `[N]`.
    """
    values = numbers.tolist()
    texts = ("%.6g\n" * len(values) % tuple(values)).split()
    with np.errstate(over="ignore"):
        exact = np.array(texts, np.float64).astype(numbers.dtype) == numbers
    digits = 9 if numbers.dtype == np.float32 else 17
    for index in np.flatnonzero(~exact):
        value = values[index]
        if math.isfinite(value):
            texts[index] = f"{value:.{digits}g}"
    for index, text in enumerate(texts):
        if "." not in text and "e" not in text:
            texts[index] = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text + ".0")
    return texts
