"""TensorFlow checkpoints: `<prefix>.index` and `<prefix>.data-00000-of-00001`.

They are read by TensorFlow. They are written here, because TensorFlow's own op wants all tensors of a file in memory
at once. A file of data is the tensors' bytes one after the other, in the order of their names; the index is a table
in LevelDB's format from name to place and checksum.

Reference: tensorflow `core/util/tensor_bundle/tensor_bundle.h`, `core/lib/io/format.h`; LevelDB `doc/table_format.md`.
"""

import os
import struct
from collections.abc import Iterable, Mapping

import numpy as np

from keras_bert.atomic_output import atomic_file
from keras_bert.checkpoints.checkpoint import StoredTensor, check_stored_file
from keras_bert.errors import InputError

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"  # only in checkpoints of TensorFlow 2


def read_tensorflow_checkpoint(prefix: str) -> dict[str, StoredTensor]:
    """Returns name -> tensor; the bytes are read later, one tensor at a time.

    Raises:
        InputError: a file is missing, a git-lfs pointer, cut off or damaged.
    """
    import tensorflow as tf

    check_stored_file(f"{prefix}.index")
    try:
        reader = tf.train.load_checkpoint(prefix)
    except (tf.errors.OpError, ValueError) as error:
        raise InputError(f"{prefix}.index is damaged or is no TensorFlow checkpoint ({_first_line(error)}).") from None
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    _check_data_files(prefix)

    def stored(name: str) -> StoredTensor:
        def read() -> np.ndarray:
            try:
                return reader.get_tensor(name)
            except (tf.errors.OpError, ValueError, IndexError) as error:
                raise InputError(
                    f"{prefix}: {name} cannot be read, so a data file is cut off or damaged ({_first_line(error)}). "
                    "Copy it again."
                ) from None

        return StoredTensor(tuple(shapes[name]), dtypes[name].name, read)

    return {name: stored(name) for name in sorted(shapes)}


def write_tensorflow_checkpoint(prefix: str, tensors: Mapping[str, StoredTensor]) -> None:
    """Writes a checkpoint that `tf.train.load_checkpoint` reads, tensor by tensor."""
    import google_crc32c
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
                crc32c=_masked(google_crc32c.value(bytes(data))),
            )
            entries.append((name.encode(), entry.SerializeToString()))
            offset += array.nbytes
    with atomic_file(f"{prefix}.index") as file:
        file.write(_table(entries))


def _dtype_number(types_pb2, dtype: str, name: str) -> int:
    code = {"float64": "DT_DOUBLE", "float32": "DT_FLOAT", "float16": "DT_HALF"}.get(dtype, f"DT_{dtype.upper()}")
    if code not in types_pb2.DataType.keys():  # noqa: SIM118 - an enum of protobuf is no dictionary
        raise InputError(f"TensorFlow checkpoints hold no {dtype}, which is the type of {name}.")
    return types_pb2.DataType.Value(code)


def _check_data_files(prefix: str) -> None:
    folder, name = os.path.split(prefix)
    files = [file for file in os.listdir(folder or ".") if file.startswith(f"{name}.data-")]
    if not files:
        raise InputError(
            f"{prefix}.index is there and {prefix}.data-00000-of-00001 is not. Copy all files of a checkpoint."
        )
    for file in files:
        check_stored_file(os.path.join(folder, file))


def _table(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns a LevelDB table of sorted entries, in one block of data."""
    import google_crc32c

    table = bytearray()

    def add_block(block: bytes) -> bytes:
        place = _varint(len(table)) + _varint(len(block))
        trailer = b"\0"  # not compressed
        table.extend(block + trailer + struct.pack("<I", _masked(google_crc32c.value(block + trailer))))
        return place

    entries = list(entries)
    data_place = add_block(_block(entries))
    meta_place = add_block(_block([]))
    index_place = add_block(_block([(entries[-1][0], data_place)]))
    footer = (meta_place + index_place).ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    return bytes(table) + footer


def _block(entries: list[tuple[bytes, bytes]]) -> bytes:
    """Returns entries of (0 shared bytes, length of key, length of value, key, value), then where each starts."""
    block, starts = bytearray(), []
    for key, value in entries:
        starts.append(len(block))
        block += _varint(0) + _varint(len(key)) + _varint(len(value)) + key + value
    starts = starts or [0]
    return bytes(block) + struct.pack(f"<{len(starts)}I", *starts) + struct.pack("<I", len(starts))


def _varint(number: int) -> bytes:
    """300 -> b"\\xac\\x02": seven bits a byte, the lowest first."""
    result = bytearray()
    while number >= 0x80:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*result, number])


def _masked(checksum: int) -> int:
    """CRCs of data that holds CRCs are weak, so both formats store them rotated and shifted."""
    return (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
