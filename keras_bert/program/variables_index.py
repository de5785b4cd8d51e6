"""Reads the `.index` file of a TensorFlow checkpoint: sizes and checksums, for which TensorFlow has no public function.

The file maps the names of tensors to `BundleEntryProto`s. It is a sorted table in the format of LevelDB
(`tensorflow/core/lib/io/table.h`).
"""

import dataclasses
import math
import os
from collections.abc import Iterator

from keras_bert.program.errors import InputError
from keras_bert.program.stored_numbers import read_varint

_LARGEST_INDEX = 16 << 20  # bytes; the index of a BERT LARGE with Adam's slots has 0.1 MB
# A key is stored as its difference from the key before, and a tensor takes as few as four bytes, so a small malicious
# file could hold gigabytes of keys and tensors. The names of real checkpoints have up to 1.5 times the file's bytes.
_LONGEST_KEY, _LONGEST_ENTRY = 4096, 1 << 16
_MOST_NAME_BYTES = 8  # for each byte of the file
_MOST_TENSORS = 100_000
_MOST_SHARDS, _MOST_AXES, _MOST_NUMBERS = 10_000, 32, 2**63 - 1
_FOOTER_BYTES, _MAGIC = 48, 0xDB4775248B80FB57
_BLOCK_TRAILER_BYTES = 5  # one for the kind of compression, four for the checksum


@dataclasses.dataclass(frozen=True, slots=True)
class IndexEntry:
    """One tensor in the data files of a checkpoint."""

    name: str  # its key in the checkpoint
    dtype: int  # TensorFlow's number for it
    shape: tuple[int, ...]
    shard: int  # the number of its data file
    offset: int  # its position in that file, in bytes
    size: int  # its length, in bytes
    checksum: int  # the masked CRC-32C of these bytes
    is_sliced: bool = False  # whether its numbers are stored in parts, under other names


def read_index(path: str | os.PathLike) -> tuple[int, list[IndexEntry]]:
    """Returns the number of data files, and all tensors sorted by name.

    Raises:
        InputError: the file is damaged, compressed or big-endian, which TensorFlow never writes; or it would take much
            more memory than its bytes.
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
            location = (entry.shard_id, entry.offset, entry.size)
            is_too_large = len(shape) > _MOST_AXES or math.prod(size or 1 for size in shape) > _MOST_NUMBERS
            if min(*shape, *location) < 0 or entry.shape.unknown_rank or is_too_large:
                raise ValueError("a shape, size or offset is impossible or unknown")
            tensors.append(IndexEntry(key.decode(), entry.dtype, shape, *location, entry.crc32c, bool(entry.slices)))
        if not shards:
            raise ValueError("it has no header")
    except (IndexError, ValueError, DecodeError) as error:
        raise InputError(
            f"{os.fspath(path)} is damaged or not a TensorFlow checkpoint ({error}). Copy it again."
        ) from None
    return shards, tensors


def _table_entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(data) > _LARGEST_INDEX:
        raise ValueError(f"it has more than {_LARGEST_INDEX:,} bytes")
    if len(data) < _FOOTER_BYTES or int.from_bytes(data[-8:], "little") != _MAGIC:
        raise ValueError("it has no footer")
    footer = data[-_FOOTER_BYTES:]
    # The footer begins with the offset and size of another index, which is not used.
    _, start = read_varint(footer, 0)
    _, start = read_varint(footer, start)
    last, end, num_entries, name_bytes = None, 0, 0, 0
    for _, handle in _block_entries(data, *_place(footer[start:])):
        offset, size = _place(handle)
        if offset < end:  # a malicious file could list one block many times
            raise ValueError("its blocks are not in order")
        end = offset + size
        for key, value in _block_entries(data, offset, size):
            if last is not None and key <= last:
                raise ValueError("its names are not sorted")
            num_entries, name_bytes = num_entries + 1, name_bytes + len(key)
            if num_entries > _MOST_TENSORS or name_bytes > _MOST_NAME_BYTES * len(data) or len(value) > _LONGEST_ENTRY:
                raise ValueError("it would grow when it is read: it has too many tensors, or too much for one of them")
            yield key, value
            last = key


def _place(handle: bytes) -> tuple[int, int]:
    """Returns the offset and the size of a block."""
    offset, position = read_varint(handle, 0)
    return offset, read_varint(handle, position)[0]


def _block_entries(data: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of a block. A key lacks the first bytes that it shares with the one before."""
    block = data[offset : offset + size]
    if len(data) < offset + size + _BLOCK_TRAILER_BYTES or data[offset + size] != 0:
        raise ValueError("a block is cut off or compressed")
    end = size - 4 - 4 * int.from_bytes(block[-4:], "little")
    key, position = b"", 0
    while position < end:
        num_shared, position = read_varint(block, position)
        num_new, position = read_varint(block, position)
        length, position = read_varint(block, position)
        key = key[:num_shared] + block[position : position + num_new]
        position += num_new
        if len(key) > _LONGEST_KEY:
            raise ValueError("a tensor has a name that is too long")
        yield key, block[position : position + length]
        position += length
