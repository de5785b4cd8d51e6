"""What a checkpoint holds, from `variables.index`: with sizes and checksums, which TensorFlow keeps to itself.

The file is a sorted table as LevelDB writes it (`tensorflow/core/lib/io/table.h`), from the names of tensors to
`BundleEntryProto`s.
"""

import dataclasses
import os
from collections.abc import Iterator

from keras_bert.errors import InputError

_FOOTER_BYTES, _MAGIC = 48, 0xDB4775248B80FB57
_BLOCK_TRAILER_BYTES = 5  # one for the kind of compression, four for the checksum


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """One tensor in the data files of a checkpoint.

    Attributes:
        name: its key in the checkpoint.
        dtype: TensorFlow's number of its type.
        shape: its dimensions.
        shard: the number of the data file.
        offset, size: where in the file, in bytes.
        checksum: of these bytes.
    """

    name: str
    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int


def read_index(path: str | os.PathLike) -> tuple[int, list[StoredTensor]]:
    """Returns the number of data files and all tensors, sorted by name.

    Raises:
        InputError: the file is damaged, or compressed, which TensorFlow's writer never does.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import tensor_bundle_pb2

    with open(path, "rb") as file:
        data = file.read()
    tensors, shards = [], 0
    try:
        for key, value in _table_entries(data):
            if not key:
                shards = tensor_bundle_pb2.BundleHeaderProto.FromString(value).num_shards
                continue
            entry = tensor_bundle_pb2.BundleEntryProto.FromString(value)
            shape = tuple(dim.size for dim in entry.shape.dim)
            tensors.append(
                StoredTensor(key.decode(), entry.dtype, shape, entry.shard_id, entry.offset, entry.size, entry.crc32c)
            )
    except (IndexError, ValueError, DecodeError) as error:
        raise InputError(
            f"{os.fspath(path)} is damaged: it is no index of variables. Export the model again."
        ) from error
    return shards, tensors


def _table_entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(data) < _FOOTER_BYTES or int.from_bytes(data[-8:], "little") != _MAGIC:
        raise ValueError("no footer")
    footer = data[-_FOOTER_BYTES:]
    _, place = _varint(footer, 0)  # where the table's own index begins comes after two numbers about another index
    _, place = _varint(footer, place)
    for _, handle in _block_entries(data, footer[place:]):
        yield from _block_entries(data, handle)


def _block_entries(data: bytes, handle: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the entries of the block at `handle`; each key shares its first bytes with the one before it."""
    offset, place = _varint(handle, 0)
    size, _ = _varint(handle, place)
    block = data[offset : offset + size]
    if len(data) < offset + size + _BLOCK_TRAILER_BYTES or data[offset + size] != 0:
        raise ValueError("a block is cut off or compressed")
    end = size - 4 - 4 * int.from_bytes(block[-4:], "little")
    key, place = b"", 0
    while place < end:
        shared, place = _varint(block, place)
        unshared, place = _varint(block, place)
        length, place = _varint(block, place)
        key = key[:shared] + block[place : place + unshared]
        place += unshared
        yield key, block[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Returns the number at `place`, seven bits a byte, and the place behind it."""
    number = shift = 0
    while True:
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, place
