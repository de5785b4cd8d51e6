"""TensorFlow checkpoints: `<prefix>.index` and `<prefix>.data-00000-of-00001`.

TensorFlow writes them. Its reader is not used: it reads the index again, and ends the process for some indexes of
strangers (a shape whose size overflows, a slice that is listed twice). It also takes a path with brackets as a pattern.
`read_index` says where the bytes of each tensor are.

Reference: tensorflow `core/util/tensor_bundle/tensor_bundle.h`.
"""

import contextlib
import math
import os
import struct
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_bert.checkpoints.checkpoint import StoredTensor, check_stored_file, check_stored_once, numpy_dtype
from keras_bert.checkpoints.safetensors_file import read_array
from keras_bert.program.errors import InputError
from keras_bert.program.stored_numbers import masked_crc32c, read_varint
from keras_bert.program.variables_index import IndexEntry, read_index

_LARGEST_DATA_FILE = 64 << 20  # bytes, of a written one with more than one tensor
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"  # only in checkpoints of TensorFlow 2

# TensorFlow's name of a type -> NumPy's.
_NUMBERS = {
    **{"DT_DOUBLE": "float64", "DT_FLOAT": "float32", "DT_HALF": "float16", "DT_BFLOAT16": "bfloat16"},
    **{f"DT_{name.upper()}": name for name in ("float8_e4m3fn", "float8_e5m2")},
    **{f"DT_{kind}{bits}": f"{kind}{bits}".lower() for kind in ("INT", "UINT") for bits in (8, 16, 32, 64)},
    "DT_BOOL": "bool",
}


def read_tensorflow_checkpoint(prefix: str) -> dict[str, StoredTensor]:
    """Returns name -> tensor, read on demand. The object graph, the only string tensor, is read as `bytes`.

    Raises `InputError` if a file is missing, a git-lfs pointer, cut off or damaged.
    """
    check_stored_file(f"{prefix}.index")
    num_shards, entries = read_index(f"{prefix}.index")
    stored_bytes = _check_data_files(prefix)
    tensors = {entry.name: _stored(prefix, num_shards, entry) for entry in entries}
    numbers = {name: tensor for name, tensor in tensors.items() if tensor.dtype in _NUMBERS.values()}
    check_stored_once(prefix, numbers, stored_bytes)
    return tensors


def _stored(prefix: str, num_shards: int, entry: IndexEntry) -> StoredTensor:
    """Returns a tensor, after checking that its shape fits its size and that its file is long enough."""
    from tensorflow.core.framework import types_pb2

    path = f"{prefix}.data-{entry.shard:05d}-of-{num_shards:05d}"
    code = types_pb2.DataType.Name(entry.dtype) if entry.dtype in types_pb2.DataType.values() else str(entry.dtype)
    dtype = _NUMBERS.get(code, code.removeprefix("DT_").lower())
    is_graph = entry.name == OBJECT_GRAPH and code == "DT_STRING" and not entry.shape

    def damaged(reason: str) -> InputError:
        return InputError(
            f"{prefix}: {entry.name} cannot be read, so a data file is cut off or damaged ({reason}). Copy it again."
        )

    is_whole = code in _NUMBERS and not entry.is_sliced
    if is_whole and entry.size != math.prod(entry.shape) * numpy_dtype(dtype).itemsize:
        raise damaged(f"{entry.size:,} bytes for the shape {list(entry.shape)}")
    if not os.path.isfile(path) or entry.offset + entry.size > os.path.getsize(path):
        raise damaged(f"{os.path.basename(path)} has fewer bytes than its index says")

    def read() -> np.ndarray | bytes:
        if not is_whole and not is_graph:
            raise InputError(
                f"{prefix}: {entry.name} is stored in slices or is not numeric ({dtype}), which is not supported."
            )
        if is_graph:
            return _string(
                np.fromfile(path, np.uint8, entry.size, offset=entry.offset).tobytes(), entry.checksum, damaged
            )
        array = read_array(path, entry.offset, entry.shape, dtype)
        if masked_crc32c(array.reshape(-1).view(np.uint8).data) != entry.checksum:
            raise damaged("its checksum is wrong")
        return array

    return StoredTensor(entry.shape, dtype, read)


def _string(data: bytes, checksum: int, damaged: Callable[[str], InputError]) -> bytes:
    """Returns the string of a scalar string tensor, stored as its length, a checksum of the length, and its bytes."""
    try:
        length, place = read_varint(data, 0)
    except (IndexError, ValueError):
        raise damaged("it does not start with its length") from None
    text = data[place + 4 :]
    # The checksum covers the length as 32 bits, followed by the stored bytes after the length.
    if length != len(text) or length >= 2**32 or masked_crc32c(struct.pack("<I", length) + data[place:]) != checksum:
        raise damaged("its checksum is wrong")
    return text


def _check_data_files(prefix: str) -> int:
    """Checks that the data files are there, and returns their size in bytes."""
    folder, name = os.path.split(prefix)
    files = [file for file in os.listdir(folder or ".") if file.startswith(f"{name}.data-")]
    if not files:
        raise InputError(
            f"{prefix}.index exists, but {prefix}.data-00000-of-00001 is missing. Copy all files of a checkpoint."
        )
    for file in files:
        check_stored_file(os.path.join(folder, file))
    return sum(os.path.getsize(os.path.join(folder, file)) for file in files)


def write_tensorflow_checkpoint(prefix: str, tensors: Mapping[str, StoredTensor]) -> None:
    """Writes a checkpoint that `tf.train.load_checkpoint` reads. A data file has up to 64 MiB, or one tensor.

    One data file is in memory at a time. A session without GPUs writes: TensorFlow's eager execution would take the
    memory of the GPU.

    Raises:
        InputError: TensorFlow has no such dtype.
        OSError, tf.errors.OpError: the folder cannot be written, or the disk is full.
    """
    import tensorflow as tf

    files, graph = _data_files(tensors), tf.Graph()
    config = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
    with (
        tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(prefix))) as folder,
        contextlib.closing(tf.compat.v1.Session(graph=graph, config=config)) as session,
    ):
        parts = [os.path.join(folder, str(number)) for number in range(len(files))]
        for part, names in zip(parts, files, strict=True):
            with graph.as_default():
                inputs = [_placeholder(tensors[name], name) for name in names]
                write = tf.raw_ops.SaveV2(
                    prefix=part, tensor_names=names, shape_and_slices=[""] * len(names), tensors=inputs
                )
            # Outside of the graph, because tensors of models are read eagerly.
            session.run(write, {place: tensors[name].read() for place, name in zip(inputs, names, strict=True)})
        with graph.as_default():
            merge = tf.raw_ops.MergeV2Checkpoints(
                checkpoint_prefixes=parts, destination_prefix=os.path.abspath(prefix), delete_old_dirs=False
            )
        session.run(merge)


def _data_files(tensors: Mapping[str, StoredTensor]) -> list[list[str]]:
    """Returns the names of the tensors in each data file. No file is empty: `check_stored_file` refuses such files."""
    files: list[list[str]] = [[]]
    num_bytes = 0
    for name in sorted(tensors, key=str.encode):
        more = tensors[name].num_bytes
        if more and num_bytes and num_bytes + more > _LARGEST_DATA_FILE:
            files.append([])
            num_bytes = 0
        files[-1].append(name)
        num_bytes += more
    return files


def _placeholder(tensor: StoredTensor, name: str) -> Any:
    import tensorflow as tf

    try:
        return tf.compat.v1.placeholder(tf.as_dtype(tensor.dtype), tensor.shape)
    except TypeError:
        raise InputError(f"TensorFlow checkpoints cannot hold the dtype {tensor.dtype} of {name}.") from None
