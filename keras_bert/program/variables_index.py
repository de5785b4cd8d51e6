"""What a TensorFlow checkpoint holds, from its `.index`: with sizes and checksums, which TensorFlow keeps to itself.

The file is a sorted table as LevelDB writes it (`tensorflow/core/lib/io/table.h`), from the names of tensors to
`BundleEntryProto`s.
"""

import dataclasses
import os
from collections.abc import Iterator

from keras_bert.program.errors import InputError
from keras_bert.program.stored_numbers import read_varint

_LARGEST_INDEX = 64 << 20  # bytes; that of a BERT LARGE with Adam's slots has 0.1 MB
_LONGEST_KEY = 4096  # bytes; each key is stored as what it has more than the one before, so a few could make gigabytes
_MOST_SHARDS = 100_000
_FOOTER_BYTES, _MAGIC = 48, 0xDB4775248B80FB57
_BLOCK_TRAILER_BYTES = 5  # one for the kind of compression, four for the checksum


@dataclasses.dataclass(frozen=True)
class IndexEntry:
    """One tensor in the data files of a checkpoint.

    Attributes:
        name: its key in the checkpoint.
        dtype: TensorFlow's number of its type.
        shape: its dimensions.
        shard: the number of the data file.
        offset, size: where in the file, in bytes.
        checksum: of these bytes.
        is_sliced: whether its numbers are stored in parts, under other names.
    """

    name: str
    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    is_sliced: bool = False


def read_index(path: str | os.PathLike) -> tuple[int, list[IndexEntry]]:
    """Returns the number of data files and all tensors, sorted by name.

    Raises:
        InputError: the file is damaged, or compressed or of big-endian numbers, which TensorFlow's writer never does.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import tensor_bundle_pb2

    with open(path, "rb") as file:
        data = file.read(_LARGEST_INDEX + 1)
    tensors, shards = [], 0
    try:
        for key, value in _table_entries(data):
            if not key:
                header = tensor_bundle_pb2.BundleHeaderProto.FromString(value)
                shards = header.num_shards
                if not 0 < shards <= _MOST_SHARDS or header.endianness != header.LITTLE:
                    raise ValueError(f"{shards} data files, or big-endian numbers")
                continue
            entry = tensor_bundle_pb2.BundleEntryProto.FromString(value)
            shape = tuple(dim.size for dim in entry.shape.dim)
            place = (entry.shard_id, entry.offset, entry.size)
            if min(*shape, *place) < 0 or entry.shape.unknown_rank:
                raise ValueError("a size or place below 0")
            tensors.append(IndexEntry(key.decode(), entry.dtype, shape, *place, entry.crc32c, bool(entry.slices)))
    except (IndexError, ValueError, DecodeError) as error:
        raise InputError(
            f"{os.fspath(path)} is damaged or is no TensorFlow checkpoint ({error}). Copy it again."
        ) from None
    return shards, tensors


def _table_entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(data) > _LARGEST_INDEX:
        raise ValueError(f"it has more than {_LARGEST_INDEX:,} bytes")
    if len(data) < _FOOTER_BYTES or int.from_bytes(data[-8:], "little") != _MAGIC:
        raise ValueError("no footer")
    footer = data[-_FOOTER_BYTES:]
    _, place = read_varint(footer, 0)  # where the table's own index begins comes after two numbers about another index
    _, place = read_varint(footer, place)
    last = None
    for _, handle in _block_entries(data, footer[place:]):
        for key, value in _block_entries(data, handle):
            if last is not None and key <= last:  # or one block could be listed any number of times
                raise ValueError("its names are not sorted")
            yield key, value
            last = key


def _block_entries(data: bytes, handle: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the entries of the block at `handle`; each key shares its first bytes with the one before it."""
    offset, place = read_varint(handle, 0)
    size, _ = read_varint(handle, place)
    block = data[offset : offset + size]
    if len(data) < offset + size + _BLOCK_TRAILER_BYTES or data[offset + size] != 0:
        raise ValueError("a block is cut off or compressed")
    end = size - 4 - 4 * int.from_bytes(block[-4:], "little")
    key, place = b"", 0
    while place < end:
        shared, place = read_varint(block, place)
        unshared, place = read_varint(block, place)
        length, place = read_varint(block, place)
        key = key[:shared] + block[place : place + unshared]
        place += unshared
        if len(key) > _LONGEST_KEY:
            raise ValueError("a name is too long")
        yield key, block[place : place + length]
        place += length
