"""Checks an ONNX file from a stranger before a runtime gets it: its operations, and the memory that they take.

ONNX Runtime computes when it loads a file: all that does not depend on the features. So a file of 200 bytes could fill
the memory, and one with a loop never end. This module reads the file itself, because it needs no other package.

Reference: onnx, `onnx/onnx.proto` for the numbers of the fields.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping

from keras_bert.program.errors import InputError
from keras_bert.program.stored_numbers import read_varint
from keras_bert.serving.graph.onnx_operations import OPERATIONS, OPSET, OPSET_OF_COLUMN_SCALES, Value, results

# Fields of the messages that our files have, by number.
MODEL = {1: "ir_version", 2: "producer", 3: "version", 5: "model_version", 6: "about", 7: "graph", 8: "opset"}
GRAPH = {1: "nodes", 2: "name", 5: "weights", 10: "about", 11: "inputs", 12: "outputs", 13: "values"}
_NODE = {1: "inputs", 2: "outputs", 3: "name", 4: "operation", 5: "attributes"}
_ATTRIBUTE = {1: "name", 3: "number", 8: "numbers", 20: "type"}
_TENSOR = {1: "shape", 2: "type", 8: "name", 9: "data", 14: "place"}
OTHER_FILE = (13, 14)  # fields of a tensor whose numbers are in another file
# Element type of a tensor -> bytes: float32, uint8, int8, int32, int64, bool, float16.
_BYTES = {1: 4, 2: 1, 3: 1, 6: 4, 7: 8, 9: 1, 10: 2}
_INT64 = 7
_NUMBER, _NUMBERS = 2, 7  # types of attributes
# The sizes of axes with which memory is estimated, by name.
_SIZES = {"batch": 2, "choices": 3, "length": 5, "predictions": 2, "sequences": 3, "texts": 6}
_MOST_AXES, _MOST_KNOWN = 5, 8
# All results together may have this many numbers for each one of the weights, beside some for tiny models. Those that
# runtimes compute when they load a file may have fewer: in our files, they are cast and transposed weights.
_MOST_GROWTH, _MOST_CONSTANT_GROWTH, _FEW_NUMBERS = 32, 3, 1 << 18


class _Refused(Exception):
    """The file has something that our files do not have."""


@dataclasses.dataclass(frozen=True)
class Declared:
    """What an ONNX file says of its network.

    Attributes:
        inputs: name -> its axes: numbers, or the names of variable sizes such as "batch".
        outputs: their names, in order.
    """

    inputs: Mapping[str, list[int | str]]
    outputs: tuple[str, ...]


def check_onnx(content: bytes, path: str) -> Declared:
    """Checks the bytes of an ONNX file, and returns its inputs and outputs.

    Raises:
        InputError: the file is damaged, has operations or parts that `write_onnx` does not write, takes weights from
            other files, or would take much more memory than its bytes.
    """
    try:
        return _check_model(memoryview(content))
    except _Refused as error:
        raise InputError(f"{path} {error}. Export the model again, and load only what you trust.") from None
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        raise InputError(f"{path} is damaged or of another kind: {error!s:.300}. Export the model again.") from None


def _check_model(content: memoryview) -> Declared:
    model = list(_fields(content, MODEL, "the file"))
    for name, value in model:
        if name == "opset" and _message(value) not in [
            {**domain, 2: opset} for domain in ({1: b""}, {}) for opset in (OPSET, OPSET_OF_COLUMN_SCALES)
        ]:
            raise _Refused(
                f"has operations of another kind than ONNX opset {OPSET} or {OPSET_OF_COLUMN_SCALES}, which is not "
                "supported"
            )
    graph = [field for name, value in model if name == "graph" for field in _fields(value, GRAPH, "the graph")]
    if not any(name == "outputs" for name, _ in graph):
        raise ValueError("it has no graph")
    values: dict[str, Value] = {}
    for name, part in graph:
        if name == "weights":
            values.update([_weight(part)])
    num_weights = sum(math.prod(value.shape) for value in values.values())
    inputs = dict(_declared(part) for name, part in graph if name == "inputs")
    for key, shape in inputs.items():
        values[key] = Value(tuple(_SIZES.get(size, 2) if isinstance(size, str) else size for size in shape))
    room, room_for_constants = (growth * num_weights + _FEW_NUMBERS for growth in (_MOST_GROWTH, _MOST_CONSTANT_GROWTH))
    for name, part in graph:
        if name == "nodes":
            found = _check_node(part, values)
            for value in found.values():
                count = math.prod(value.shape)
                room, room_for_constants = room - count, room_for_constants - count * value.is_constant
                if min(room, room_for_constants) < 0 or len(value.shape) > _MOST_AXES:
                    raise _Refused(f"would grow when it is loaded or run: a result has the shape {list(value.shape)}")
            values |= found
    _check_declared_shapes([part for name, part in graph if name in ("outputs", "values")], values)
    return Declared(inputs, tuple(_declared(part)[0] for name, part in graph if name == "outputs"))


def _check_node(content: memoryview, values: dict[str, Value]) -> dict[str, Value]:
    """Returns the name and the known shape and size of each result of a node."""
    node: dict[str, list] = {name: [] for name in _NODE.values()}
    for name, value in _fields(content, _NODE, "a node"):
        node[name].append(value)
    (operation,) = map(_text, node["operation"])
    if operation not in OPERATIONS:
        raise _Refused(f"has the operation {operation!r:.50}, which exports of keras_bert do not have")
    attributes = dict(_attribute(part, operation) for part in node["attributes"])
    inputs = [values[_text(name)] for name in node["inputs"]]
    is_constant = operation == "Shape" or all(value.is_constant for value in inputs)
    try:
        found = results(operation, attributes, inputs)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"the operation {operation} has impossible inputs ({error!s:.200})") from None
    return {
        _text(name): Value(shape, numbers if numbers is None or len(numbers) <= _MOST_KNOWN else None, is_constant)
        for name, (shape, numbers) in zip(node["outputs"], found, strict=True)
    }


def _attribute(content: memoryview, operation: str) -> tuple[str, int | list[int]]:
    found: dict[str, list] = {name: [] for name in _ATTRIBUTE.values()}
    for field, value in _fields(content, _ATTRIBUTE, f"an attribute of {operation}"):
        found[field].append(value)
    (name,), (kind,) = found["name"], found["type"]
    if kind == _NUMBER:
        (number,) = found["number"]
        return _text(name), _signed(number)
    if kind != _NUMBERS or found["number"]:
        raise ValueError(f"an attribute of {operation} is of the kind {kind}")
    return _text(name), [number for value in found["numbers"] for number in _integers(value)]


def _weight(content: memoryview) -> tuple[str, Value]:
    if any(field in OTHER_FILE and value != 0 for field, value in all_fields(content)):
        raise _Refused("takes weights from other files, which is not supported")
    tensor: dict[str, list] = {name: [] for name in _TENSOR.values()}
    for field, value in _fields(content, _TENSOR, "a weight"):
        tensor[field].append(value)
    (kind,), (name,), (data,) = tensor["type"], map(_text, tensor["name"]), tensor["data"]
    shape = [size for value in tensor["shape"] for size in _integers(value)]
    if kind not in _BYTES or min(shape, default=0) < 0 or math.prod(shape) * _BYTES[kind] != len(data):
        raise ValueError(f"the weight {name:.100} has {len(data):,} bytes for the shape {shape[:10]}")
    is_known = kind == _INT64 and len(data) <= 8 * _MOST_KNOWN and len(shape) <= 1
    return name, Value(tuple(shape), tuple(data.cast("q")) if is_known else None, is_constant=True)


def _check_declared_shapes(parts: list[memoryview], values: dict[str, Value]) -> None:
    """Checks the shapes that a file declares for results: runtimes trust them."""
    for part in parts:
        name, shape = _declared(part)
        actual = values[name].shape if name in values else None
        if actual is None or len(actual) != len(shape):
            raise ValueError(f"the declared shape of {name:.100} is wrong")
        if any(isinstance(one, int) and one != other for one, other in zip(shape, actual, strict=True)):
            raise ValueError(f"the declared shape of {name:.100} is {shape}, but it is computed as {list(actual)}")


def _declared(content: memoryview) -> tuple[str, list[int | str]]:
    """Returns the name of a value, and the sizes of its axes: a number, or the name of a variable size."""
    info = _message(content)
    tensor = _message(_message(info[2])[1])
    axes = [_message(axis) for _, axis in all_fields(tensor.get(2, memoryview(b"")))]
    shape = [axis[1] if 1 in axis else _text(axis.get(2, b"")) for axis in axes]
    if any(isinstance(size, int) and size >> 31 for size in shape):
        raise ValueError(f"an axis of {_text(info[1]):.100} has an impossible size")
    return _text(info[1]), shape


def _message(content: memoryview) -> dict[int, int | memoryview]:
    """Returns number -> value of the fields of a message that has each field once: readers join fields that repeat."""
    fields = list(all_fields(content))
    if len(dict(fields)) < len(fields):
        raise ValueError("a field is there twice")
    return dict(fields)


def _fields(content: memoryview, known: dict[int, str], where: str) -> Iterator[tuple[str, int | memoryview]]:
    """Yields name and value of the fields of a message, and refuses fields that our files do not have."""
    for number, value in all_fields(content):
        if number not in known:
            raise _Refused(f"has the field {number} in {where}, which exports of keras_bert do not have")
        yield known[number], value


def all_fields(content: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yields number and value of the fields of a message: a number, or the bytes of everything else."""
    position = 0
    while position < len(content):
        key, position = read_varint(content, position)
        kind = key & 7
        if kind == 0:
            value, position = read_varint(content, position)
        elif kind in (1, 2, 5):
            size, position = read_varint(content, position) if kind == 2 else ({1: 8, 5: 4}[kind], position)
            value, position = content[position : position + size], position + size
            if position > len(content):
                raise ValueError("it is cut off")
        else:
            raise ValueError(f"a field of the kind {kind}")
        yield key >> 3, value


def _integers(value: int | memoryview) -> list[int]:
    """Returns the numbers of a repeated field, which are stored one by one or packed."""
    if isinstance(value, int):
        return [_signed(value)]
    found, position = [], 0
    while position < len(value):
        number, position = read_varint(value, position)
        found.append(_signed(number))
    return found


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _text(value: memoryview) -> str:
    return bytes(value).decode("utf-8")
