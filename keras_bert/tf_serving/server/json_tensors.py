"""The JSON of predict requests and answers, as TensorFlow Serving's json_tensor.cc has it.

{"instances": [1.0, 2.0]}    ->  {"x": array([1., 2.])}            one value (or object) for each row
{"inputs": {"x": [1.0]}}     ->  {"x": array([1.])}                one value for each input
{"y": array([2.5, 3.])}      ->  {"predictions": [2.5, 3.0]}       or {"outputs": ...}
"""

import base64
import binascii
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from keras_bert.tf_serving.server.json_text import debug_text, format_error, quoted, type_name
from keras_bert.tf_serving.server.status import Code, StatusError, invalid_argument

BASE64_KEY = "b64"
BYTES_SUFFIX = "_bytes"
MAX_RANK = 32  # what NumPy and TensorFlow both take

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
_TYPE_NAMES = {"float16": "half"}  # where TensorFlow's name is another than NumPy's
_NUMPY_TYPES = {"float": np.float32, "double": np.float64, "bool": np.bool_, "string": object}


def arrays_from_request(request: Mapping, dtypes: Mapping[str, str]) -> tuple[dict[str, np.ndarray], bool]:
    """Returns the inputs of a predict request, and whether its rows were given one by one ("instances").

    Args:
        request: the body, parsed.
        dtypes: input -> TensorFlow's name of its type, such as "float" or "string".

    Returns:
        Strings are object arrays of bytes.

    Raises:
        StatusError: INVALID_ARGUMENT for a wrong form, UNIMPLEMENTED for a type that JSON cannot carry.
    """
    if "instances" in request and "inputs" in request:
        raise format_error(
            request, "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist "
        )
    if "instances" in request:
        instances = request["instances"]
        if not isinstance(instances, list):
            raise format_error(request, "Expecting 'instances' to be an list/array")
        if not instances:
            raise format_error(request, "No values in 'instances' array")
        return _from_rows(instances, dtypes), True
    if "inputs" in request:
        return _from_columns(request["inputs"], dtypes), False
    raise invalid_argument("Missing 'inputs' or 'instances' key")


class _Column:
    """The values of one input, flat, row after row; all rows have one shape."""

    def __init__(self, dtype: str):
        self.dtype = dtype
        self.shape = None
        self.values = []

    def add(self, item) -> None:
        shape = dense_shape(item)
        values = []
        _flatten(item, shape, 0, self.dtype, values)
        if self.shape is None:
            self.shape, self.size = shape, len(values)
        elif len(values) != self.size:
            raise invalid_argument("Expecting tensor size: ", self.size, " but got: ", len(values))
        elif shape != self.shape:
            raise invalid_argument("Expecting shape ", _shape_text(self.shape), " but got: ", _shape_text(shape))
        self.values += values


def _from_rows(instances: list, dtypes: Mapping[str, str]) -> dict[str, np.ndarray]:
    if not isinstance(instances[0], dict) and len(dtypes) > 1:
        raise invalid_argument(
            "instances is a plain list, but expecting list of objects as multiple "
            "input tensors required as per tensorinfo_map"
        )
    rows_are_objects = _is_object(instances[0])
    columns = {name: _Column(dtype) for name, dtype in dtypes.items()}
    for number, row in enumerate(instances):
        if rows_are_objects:
            _add_object(row, number, columns)
        elif _is_object(row):
            raise invalid_argument("Expecting value/list but got object at item ", number, " of input list")
        else:
            try:
                next(iter(columns.values())).add(row)
            except StatusError as error:
                raise _element_error(number, "", error) from None
    return {
        name: _array(name, column.values, [len(instances), *column.shape], column.dtype)
        for name, column in columns.items()
    }


def _add_object(row, number: int, columns: dict[str, _Column]) -> None:
    if not _is_object(row):
        raise invalid_argument("Expecting object but got list at item ", number, " of input list")
    for name, item in row.items():
        try:
            if name not in columns:
                raise invalid_argument("JSON object: does not have named input: ", name)
            columns[name].add(item)
        except StatusError as error:
            raise _element_error(number, f" key: {name}", error) from None
    if len(row) != len(columns):
        raise invalid_argument(
            "Failed to process element: ", number, " of 'instances' list. JSON object: ", debug_text(row),
            " keys must be equal to: ", ",".join(sorted(columns)),
        )  # fmt: skip


def _element_error(number: int, key: str, error: StatusError) -> StatusError:
    return invalid_argument("Failed to process element: ", number, key, " of 'instances' list. Error: ", error)


def _from_columns(inputs, dtypes: Mapping[str, str]) -> dict[str, np.ndarray]:
    if not _is_object(inputs):
        if len(dtypes) > 1:
            raise invalid_argument(
                "inputs is a plain value/list, but expecting an object as multiple "
                "input tensors required as per tensorinfo_map"
            )
        inputs = {name: inputs for name in dtypes}
    arrays = {}
    for name, dtype in dtypes.items():
        if name not in inputs:
            raise invalid_argument("Missing named input: ", name, " in 'inputs' object.")
        shape, values = dense_shape(inputs[name]), []
        _flatten(inputs[name], shape, 0, dtype, values)
        arrays[name] = _array(name, values, shape, dtype)
    return arrays


def _is_object(value) -> bool:
    return isinstance(value, dict) and not is_base64(value)


def is_base64(value) -> bool:
    """Returns whether a value is {"b64": "..."}."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get(BASE64_KEY), str)


def bytes_of(text: str) -> bytes:
    """Returns the bytes of a string as they came in the request."""
    return text.encode("utf-8", "surrogateescape")


def base64_bytes(value: Mapping) -> bytes:
    """Returns the bytes of {"b64": "..."}, in the usual or the web's alphabet, padded or not."""
    if not is_base64(value):
        raise format_error(value, "not formatted correctly for base64 data")
    text = value[BASE64_KEY].translate({ord("-"): "+", ord("_"): "/"}).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise invalid_argument("Unable to base64 decode") from None


def dense_shape(value) -> list[int]:
    """Returns the shape that the first elements have: [[1, 2], [3, 4]] -> [2, 2]."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return shape


def _flatten(value, shape: Sequence[int], level: int, dtype: str, values: list) -> None:
    """Appends the elements of a nested list to `values`. Raises unless it has the shape and its elements the type."""
    if not isinstance(value, list):
        if level != len(shape):
            raise format_error(
                value, f"found at incorrect level: {level + 1} in the JSON DOM. Expected at level: {len(shape)}"
            )
        values.append(_element(value, dtype))
        return
    if level >= len(shape):
        raise invalid_argument("Encountered list at unexpected level: ", level, " expected < ", len(shape))
    if len(value) != shape[level]:
        raise invalid_argument(
            "Encountered list at unexpected size: ", len(value), " at level: ", level, " expected size: ", shape[level]
        )
    if level + 1 == len(shape) and _all_fit(value, dtype):
        values.extend(map(bytes_of, value) if dtype == "string" else value)
        return
    for item in value:
        _flatten(item, shape, level + 1, dtype, values)


def _all_fit(items: list, dtype: str) -> bool:
    """Returns whether all elements are plainly of the type, without looking at each in turn."""
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
        raise StatusError(Code.UNIMPLEMENTED, f"Conversion of JSON Value: {debug_text(value)} to type: {dtype}")
    if not fits:
        raise invalid_argument(
            "JSON Value: ", debug_text(value), " Type: ", type_name(value), " is not of expected type: ", dtype
        )
    return value


def _array(name: str, values: list, shape: Sequence[int], dtype: str) -> np.ndarray:
    if len(shape) > MAX_RANK:
        raise invalid_argument("tensor parsing error: ", name)
    if dtype == "string":
        array = np.empty(len(values), object)
        array[:] = values
        return array.reshape(shape)
    with np.errstate(over="ignore"):  # beyond the range of float is infinity
        if dtype in ("int8", "uint8", "int16"):
            return np.array(values, np.int32).astype(dtype).reshape(shape)
        wide = np.array(values, np.float64) if dtype == "float" else values
        return np.array(wide, _NUMPY_TYPES.get(dtype, dtype)).reshape(shape)


def _shape_text(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def response_body(outputs: Mapping[str, np.ndarray], as_rows: bool) -> bytes:
    """Returns the body of an answer, its bytes as TensorFlow Serving prints them.

    Strings are given as they are; those of an output whose name ends in `_bytes` as {"b64": "..."}.

    Raises:
        StatusError: INVALID_ARGUMENT where the outputs are not rows of one batch, or JSON has no such numbers.
    """
    if not outputs:
        raise invalid_argument("Cannot convert empty tensor map to JSON")
    outputs = dict(sorted(outputs.items()))
    text = _rows_text(outputs) if as_rows else _columns_text(outputs)
    return text.encode("utf-8", "surrogateescape")


def _rows_text(outputs: Mapping[str, np.ndarray]) -> str:
    batch_size = None
    for name, array in outputs.items():
        if not array.ndim:
            raise invalid_argument("Tensor name: ", name, " has no shape information ")
        if batch_size not in (None, len(array)):
            raise invalid_argument(
                "Tensor name: ", name, " has inconsistent batch size: ", len(array), " expecting: ", batch_size
            )
        batch_size = len(array)
    rows = [[_one_line(array.shape[1:], elements) for _ in range(batch_size)] for array, elements in _elements(outputs)]
    if len(rows) == 1:
        # RapidJSON's writer closes the list in another style than it wrote its elements in.
        items = ", ".join(rows[0])
        return f'{{\n    "predictions": [{items}\n    ]\n}}' if items else '{\n    "predictions": []\n}'
    objects = [
        "\n        {\n            "
        + ",\n            ".join(f"{quoted(name)}: {text}" for name, text in zip(outputs, row, strict=True))
        + "\n        }"
        for row in zip(*rows, strict=True)
    ]
    return f'{{\n    "predictions": [{",".join(objects)}\n    ]\n}}' if objects else '{\n    "predictions": []\n}'


def _columns_text(outputs: Mapping[str, np.ndarray]) -> str:
    level = 2 if len(outputs) > 1 else 1
    columns = [_many_lines(array.shape, elements, "\n" + "    " * level) for array, elements in _elements(outputs)]
    if len(outputs) == 1:
        return f'{{\n    "outputs": {columns[0]}\n}}'
    members = ",\n        ".join(f"{quoted(name)}: {text}" for name, text in zip(outputs, columns, strict=True))
    return f'{{\n    "outputs": {{\n        {members}\n    }}\n}}'


def _elements(outputs: Mapping[str, np.ndarray]) -> Iterator[tuple[np.ndarray, Iterator[str]]]:
    for name, array in outputs.items():
        yield array, iter(_element_texts(array, name.endswith(BYTES_SUFFIX)))


def _one_line(shape: Sequence[int], elements: Iterator[str]) -> str:
    if not shape:
        return next(elements)
    return "[" + ", ".join(_one_line(shape[1:], elements) for _ in range(shape[0])) + "]"


def _many_lines(shape: Sequence[int], elements: Iterator[str], indent: str) -> str:
    if not shape:
        return next(elements)
    inner = indent + "    "
    items = ",".join(inner + _many_lines(shape[1:], elements, inner) for _ in range(shape[0]))
    return f"[{items}{indent if items else ''}]"


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
    raise invalid_argument(
        "Failed to write JSON value for tensor type: ", _TYPE_NAMES.get(array.dtype.name, array.dtype.name)
    )


def decimals(numbers: np.ndarray) -> list[str]:
    """Returns numbers as TensorFlow Serving prints them: [0.1, 1, 9e6, 1/3] -> 0.1, 1.0, 9e+06, 0.333333343.

    Six digits where these are the number, else as many as tell it from its neighbours.

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
