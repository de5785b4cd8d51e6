"""Writes TFRecord files from batches of numbers, with any compression, atomically."""

import contextlib
import dataclasses
import gzip
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO

import numpy as np

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_choice
from keras_bert.records.encoding import encode_tfrecords
from keras_bert.records.features import Feature

COMPRESSIONS = ("none", "gzip", "zstd")
# Ids are nearly random: higher levels take several times as long and save one or two per cent.
_GZIP_LEVEL = 3
_ZSTD_LEVEL = 3


@dataclasses.dataclass(frozen=True)
class WrittenFile:
    """A record file on disk. `sha256` is the hash of its bytes."""

    name: str
    num_records: int
    num_bytes: int
    sha256: str


def write_records(
    path: str | os.PathLike,
    batches: Iterable[tuple[Mapping[str, np.ndarray], float]],
    record: Sequence[Feature],
    compression: str = "none",
) -> WrittenFile:
    """Writes one TFRecord file, which appears under its name when it is complete.

    Args:
        batches: feature name -> array (B, length), and the share of the file that the batch is.
        record: the features to write; other features of the batches are left out.

    Raises:
        InputError: the file cannot be written, the disk is full, or the package zstandard is missing.
    """
    pieces = ((encode_tfrecords(batch, record), len(batch[record[0].name])) for batch, _ in batches)
    return write_encoded(path, pieces, compression)


def write_encoded(
    path: str | os.PathLike,
    pieces: Iterable[tuple[bytes, int]],
    compression: str = "none",
    open_output: Callable[[str], AbstractContextManager[IO[bytes]]] = atomic_file,
) -> WrittenFile:
    """Writes encoded records: pieces of the file, each with the number of its records.

    `open_output` opens the file for writing: `atomic_file`, or its equivalent for another file system.
    """
    num_records = 0
    with open_output(path) as file:
        hashing = _HashingFile(file)
        with _compressed(hashing, compression) as target:
            for data, number in pieces:
                target.write(data)
                num_records += number
    return WrittenFile(os.path.basename(path), num_records, hashing.num_bytes, hashing.hash.hexdigest())


class _HashingFile:
    """A file that counts and hashes the bytes written to it."""

    def __init__(self, file: IO[bytes]):
        self._file = file
        self.num_bytes = 0
        self.hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.num_bytes += len(data)
        self.hash.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


@contextlib.contextmanager
def _compressed(file: _HashingFile, compression: str) -> Iterator[IO[bytes]]:
    if compression == "none":
        yield file
    elif compression == "gzip":
        # Without name and time in the header, so that the same records give the same bytes.
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0) as packed:
            yield packed
    else:
        with _zstandard().ZstdCompressor(level=_ZSTD_LEVEL).stream_writer(file, closefd=False) as packed:
            yield packed


def check_compression(compression: str) -> None:
    """Raises `InputError` for a compression that is unknown or whose package is missing."""
    check_choice("compression", compression, COMPRESSIONS)
    if compression == "zstd":
        _zstandard()


def _zstandard():
    try:
        import zstandard
    except ImportError:
        raise InputError("--compression=zstd needs the package zstandard: pip install zstandard") from None
    return zstandard
