"""`.safetensors` files: eight bytes of length, a JSON header, and the bytes of the tensors.

This module reads and writes tensor by tensor. The `safetensors` package needs all tensors in memory to write a file,
and maps the whole file into memory to read it, which counts towards memory limits.

Reference: huggingface/safetensors, "Format".
"""

import json
import math
import os
import struct
from collections.abc import Mapping
from typing import IO

import numpy as np

from keras_bert.checkpoints.checkpoint import StoredTensor, check_stored_file, numpy_dtype
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import LARGEST_FILE
from keras_bert.program.json_files import parse_json_object

_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
_NAMES = {name: code for code, name in _DTYPES.items()}
_LONGEST_HEADER = LARGEST_FILE  # the format allows 100 MB; that of a BERT LARGE has 0.05 MB
_ALIGNMENT = 8
_MOST_AXES = 32


def read_safetensors(path: str | os.PathLike) -> dict[str, StoredTensor]:
    """Returns name -> tensor, in the order of the file. Tensors are read on demand.

    Raises `InputError` if the file is missing, a git-lfs pointer, cut off or not a safetensors file.
    """
    path = os.fspath(path)
    check_stored_file(path)
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 2 <= length <= _LONGEST_HEADER or 8 + length > size:
            raise InputError(f"{path} is not a safetensors file, or only its first {size} bytes. Copy it again.")
        header = parse_json_object(file.read(length), f"{path}: the header")
    header.pop("__metadata__", None)
    try:
        found = {name: _stored(path, 8 + length, entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not a safetensors file: its header is damaged ({error}).") from None
    end = 0
    for start, next_end in sorted(entry["data_offsets"] for entry in header.values()):
        if start != end:
            raise InputError(f"{path} is damaged: in its header, tensors overlap or leave a gap. Copy it again.")
        end = next_end
    if size != 8 + length + end:
        raise InputError(
            f"{path} is damaged: it has {size:,} bytes, but its header describes {8 + length + end:,}. Copy it again."
        )
    return found


def write_safetensors(file: IO[bytes], tensors: Mapping[str, StoredTensor], metadata: Mapping[str, str]) -> None:
    """Writes tensors to an open binary file, one by one. As the format requires, the widest dtypes come first."""
    names = sorted(tensors, key=lambda name: (-numpy_dtype(tensors[name].dtype).itemsize, name))
    header, offset = {"__metadata__": dict(metadata)}, 0
    for name in names:
        tensor = tensors[name]
        if tensor.dtype not in _NAMES:
            raise InputError(f"safetensors files cannot hold the dtype {tensor.dtype} of {name}.")
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + tensor.num_bytes],
        }
        offset += tensor.num_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    file.write(struct.pack("<Q", len(text)) + text)
    for name in names:
        write_array(file, tensors[name].read())


def write_array(file: IO[bytes], array: np.ndarray) -> None:
    """Writes an array in C order and little-endian. It is copied only if it is in another layout."""
    array = np.ascontiguousarray(array)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    file.write(array.reshape(-1).view(np.uint8).data)


def _stored(path: str, data_start: int, entry: Mapping) -> StoredTensor:
    shape, (start, end), dtype = tuple(entry["shape"]), entry["data_offsets"], _DTYPES[entry["dtype"]]
    if any(type(number) is not int or number < 0 for number in (start, end, *shape)):
        raise ValueError("shapes and offsets must be whole numbers from 0")
    if len(shape) > _MOST_AXES:  # multiplying very many numbers would take minutes
        raise ValueError(f"a tensor has {len(shape)} axes")
    tensor = StoredTensor(shape, dtype, lambda: read_array(path, data_start + start, shape, dtype))
    if end - start != tensor.num_bytes:
        raise ValueError(f"{end - start} bytes for the shape {list(shape)}")
    return tensor


def read_array(path: str, offset: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Reads a little-endian array at `offset` bytes of a file."""
    count = math.prod(shape)
    array = np.fromfile(path, numpy_dtype(dtype), count, offset=offset)
    if array.size != count:
        raise InputError(f"{path} is cut off. Copy it again.")
    return array.reshape(shape)
