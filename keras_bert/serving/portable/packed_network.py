"""`packed.onnx`: the network for packed rows, whose large weights are those of `model.onnx`.

ONNX Runtime fuses the attention of rows with one sequence only, so a folder has two networks. Tensors of `packed.onnx`
refer to the bytes of the other file, as the standard allows, so other programs can open it too.
"""

import os

from keras_bert.program.errors import InputError
from keras_bert.program.stored_numbers import write_varint
from keras_bert.serving.portable.onnx_check import GRAPH, MODEL, OTHER_FILE, all_fields

PACKED_FILE = "packed.onnx"
_SMALLEST_MOVED = 1 << 10  # bytes
# A network of a hundred layers without its weights is far below this.
_MOST_BYTES = 1 << 26
_TENSOR_NAME = 8


def move_weights(packed, network, file_name: str) -> None:
    """Replaces the large weights of a network by references.

    Args:
        packed: the `onnx.ModelProto` that is changed.
        network: the one of the file, which is written with `SerializeToString(deterministic=True)`.
        file_name: the name of its file.
    """
    content, found, end = network.SerializeToString(deterministic=True), {}, 0
    for tensor in network.graph.initializer:
        start = content.index(tensor.raw_data, end)
        end = start + len(tensor.raw_data)
        found[tensor.name] = start, tensor.raw_data
    for tensor in packed.graph.initializer:
        start, data = found.get(tensor.name, (0, None))
        if tensor.raw_data != data or len(data) < _SMALLEST_MOVED:
            continue
        tensor.ClearField("raw_data")
        tensor.data_location = tensor.EXTERNAL
        for key, value in {"location": file_name, "offset": start, "length": len(data)}.items():
            tensor.external_data.add(key=key, value=str(value))


def packed_network(network_path: str, content: bytes) -> bytes | None:
    """Returns the network for packed rows with its weights, as the content of one ONNX file; None if there is none.

    References are followed by the names of weights, into the given file only.

    Args:
        network_path: the path of `model.onnx`.
        content: its content.

    Raises:
        InputError: `packed.onnx` is damaged or too large, or its weights are not in the other file.
    """
    path = os.path.join(os.path.dirname(network_path), PACKED_FILE)
    if not os.path.isfile(path):
        return None
    if os.path.getsize(path) > _MOST_BYTES:
        raise InputError(f"{path} has more than {_MOST_BYTES:,} bytes. Export the model again.")
    with open(path, "rb") as file:
        packed = memoryview(file.read(_MOST_BYTES))
    try:
        return _joined(packed, memoryview(content))
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is damaged or does not belong to {os.path.basename(network_path)}: {error!s:.100}. Export the "
            "model again."
        ) from None


def _joined(packed: memoryview, content: memoryview) -> bytes:
    weights = {}
    for number, value in _graph_fields(content):
        if GRAPH.get(number) == "weights":
            weights[bytes(dict(all_fields(value))[_TENSOR_NAME])] = value
    graph = []
    for number, value in _graph_fields(packed):
        if GRAPH.get(number) == "weights":
            tensor = dict(all_fields(value))
            value = weights[bytes(tensor[_TENSOR_NAME])] if any(field in tensor for field in OTHER_FILE) else value
        graph += _field(number, value)
    fields = [
        part for number, value in all_fields(packed) if MODEL.get(number) != "graph" for part in _field(number, value)
    ]
    (number,) = (number for number, name in MODEL.items() if name == "graph")
    return b"".join([*fields, *_field(number, b"".join(graph))])


def _graph_fields(content: memoryview) -> list:
    return [
        field for number, value in all_fields(content) if MODEL.get(number) == "graph" for field in all_fields(value)
    ]


def _field(number: int, value: int | bytes | memoryview) -> list[bytes | memoryview]:
    """Returns the bytes of a field with a number or with bytes, in parts."""
    if isinstance(value, int):
        return [write_varint(number << 3) + write_varint(value)]
    return [write_varint(number << 3 | 2) + write_varint(len(value)), value]
