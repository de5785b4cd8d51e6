"""TensorFlow checkpoints: `<prefix>.index` and `<prefix>.data-00000-of-00001`.

TensorFlow's own reader aborts the process if an index states an impossible shape, and its writer needs all tensors in
memory at once. So this module reads and writes these files itself. A data file has the bytes of the tensors in the
order of their names. The index is a table in LevelDB's format: name -> offset and checksum.

Reference: tensorflow `core/util/tensor_bundle/tensor_bundle.h`, `core/lib/io/format.h`; LevelDB `doc/table_format.md`.
"""

import math
import os
import struct
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from keras_bert.checkpoints.checkpoint import StoredTensor, check_stored_file, check_stored_once, numpy_dtype
from keras_bert.checkpoints.safetensors_file import read_array
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.stored_numbers import masked_crc32c, read_varint, write_varint
from keras_bert.program.variables_index import IndexEntry, read_index

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"  # only in checkpoints of TensorFlow 2

# TensorFlow's name of a type -> NumPy's.
_NUMBERS = {
    **{"DT_DOUBLE": "float64", "DT_FLOAT": "float32", "DT_HALF": "float16", "DT_BFLOAT16": "bfloat16"},
    **{f"DT_{name.upper()}": name for name in ("float8_e4m3fn", "float8_e5m2")},
    **{f"DT_{kind}{bits}": f"{kind}{bits}".lower() for kind in ("INT", "UINT") for bits in (8, 16, 32, 64)},
    "DT_BOOL": "bool",
}


def read_tensorflow_checkpoint(prefix: str) -> dict[str, StoredTensor]:
    """Returns name -> tensor. Tensors are read on demand.

    The object graph, the only string tensor, is read as `bytes`.

    Raises:
        InputError: a file is missing, a git-lfs pointer, cut off or damaged.
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


def write_tensorflow_checkpoint(prefix: str, tensors: Mapping[str, StoredTensor]) -> None:
    """Writes a checkpoint that `tf.train.load_checkpoint` reads, tensor by tensor."""
    from tensorflow.core.framework import tensor_shape_pb2, types_pb2, versions_pb2
    from tensorflow.core.protobuf import tensor_bundle_pb2

    header = tensor_bundle_pb2.BundleHeaderProto(
        num_shards=1,
        endianness=tensor_bundle_pb2.BundleHeaderProto.LITTLE,
        version=versions_pb2.VersionDef(producer=1),
    )
    entries = [(b"", header.SerializeToString())]
    offset = 0
    with atomic_file(f"{prefix}.data-00000-of-00001") as file:
        for name in sorted(tensors, key=str.encode):
            tensor = tensors[name]
            array = np.ascontiguousarray(tensor.read())
            data = array.reshape(-1).view(np.uint8).data
            file.write(data)
            entry = tensor_bundle_pb2.BundleEntryProto(
                dtype=_dtype_number(types_pb2, tensor.dtype, name),
                shape=tensor_shape_pb2.TensorShapeProto(
                    dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=size) for size in tensor.shape]
                ),
                offset=offset,
                size=array.nbytes,
                crc32c=masked_crc32c(data),
            )
            entries.append((name.encode(), entry.SerializeToString()))
            offset += array.nbytes
    with atomic_file(f"{prefix}.index") as file:
        file.write(_table(entries))


def _dtype_number(types_pb2, dtype: str, name: str) -> int:
    code = {"float64": "DT_DOUBLE", "float32": "DT_FLOAT", "float16": "DT_HALF"}.get(dtype, f"DT_{dtype.upper()}")
    if code not in types_pb2.DataType.keys():  # noqa: SIM118 - an enum of protobuf is no dictionary
        raise InputError(f"TensorFlow checkpoints cannot hold the dtype {dtype} of {name}.")
    return types_pb2.DataType.Value(code)


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


def _table(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns a LevelDB table of sorted entries, in one block of data."""
    table = bytearray()

    def add_block(block: bytes) -> bytes:
        place = write_varint(len(table)) + write_varint(len(block))
        trailer = b"\0"  # not compressed
        table.extend(block + trailer + struct.pack("<I", masked_crc32c(block + trailer)))
        return place

    entries = list(entries)
    data_place = add_block(_block(entries))
    meta_place = add_block(_block([]))
    index_place = add_block(_block([(entries[-1][0], data_place)]))
    footer = (meta_place + index_place).ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    return bytes(table) + footer


def _block(entries: list[tuple[bytes, bytes]]) -> bytes:
    """Returns a LevelDB block: entries (0 shared bytes, length of key, length of value, key, value), their offsets."""
    block, starts = bytearray(), []
    for key, value in entries:
        starts.append(len(block))
        block += write_varint(0) + write_varint(len(key)) + write_varint(len(value)) + key + value
    starts = starts or [0]
    return bytes(block) + struct.pack(f"<{len(starts)}I", *starts) + struct.pack("<I", len(starts))
