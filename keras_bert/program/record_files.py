"""Reads TFRecord files as bytes, one record at a time, plain or compressed; frames records for writing.

A TFRecord file is a sequence of frames: the length of the record (8 bytes, little-endian), a checksum of these 8 bytes
(4), the record, and a checksum of the record (4). The checksums are masked CRC-32Cs. The file may be compressed as a
whole with gzip or zstd.

Unlike TensorFlow's reader, this one reads zstd and says which record is damaged.
"""

import functools
import io
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from keras_bert.program.errors import InputError
from keras_bert.program.stored_numbers import masked_crc32c

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_READ_BYTES = 1 << 18
# Limits the output of one decompression step: zstd compresses a run of zeros to a 30,000th of its size.
_COMPRESSED_READ_BYTES = 1 << 14
# Bytes. A compressed file does not tell its uncompressed size, so this limits the length that a record may claim.
_LONGEST_COMPRESSED_RECORD = 1 << 28
# Uncompressed bytes between two calls of `on_progress`.
_BYTES_BETWEEN_REPORTS = 1 << 19
_HINT = "Fetch or make the file again."


def detect_compression(path: str | os.PathLike) -> str:
    """Returns "GZIP", "ZSTD" or "", from the first bytes of the file.

    Raises:
        InputError: the file cannot be read.
    """
    with _open(os.fspath(path)) as file:
        return _compression(file, os.fspath(path))


def iterate_records(
    path: str | os.PathLike,
    *,
    start: tuple[int, int] = (0, 0),
    on_progress: Callable[[int], None] = lambda num_bytes: None,
) -> Iterator[bytes]:
    """Yields the records of a TFRecord file in order, after checking both checksums of each.

    It needs memory for one record and a buffer of a quarter of a MB. An empty file has no records.

    Args:
        path: plain, gzip or zstd file (zstd needs the package zstandard); local, or any path that `tf.io.gfile` opens.
        start: (number of records to skip, offset in bytes where they end in the uncompressed file); see
            `record_offsets`. A compressed file is decompressed up to there.
        on_progress: called from time to time with the number of bytes read from the disk since the last call. The sum
            over all calls is the size of the file.

    Raises:
        InputError: the file cannot be read, is not a TFRecord file, is damaged or cut off. The message has the number
            of the first unreadable record, counted from 1. All records before it have been yielded.

    Example:
        num_records = sum(1 for record in iterate_records("records/pretraining-00000-of-00010.tfrecord"))
    """
    path = os.fspath(path)
    with _open(path) as raw_file:
        reader = _RecordReader(raw_file, path, on_progress, *start)
        while (record := reader.read()) is not None:
            yield record


def record_offsets(
    path: str | os.PathLike, every: int, on_progress: Callable[[int], None] = lambda num_bytes: None
) -> tuple[int, list[int]]:
    """Counts the records of a file. In a plain local file it reads only their lengths.

    Args:
        path, on_progress: as in `iterate_records`.
        every: number of records between two offsets.

    Returns:
        the number of records, and the offsets in bytes of the records 0, `every`, 2 * `every`, ... in the uncompressed
        file.

    Raises:
        InputError: as `iterate_records`, but the records themselves are not checked.
    """
    path = os.fspath(path)
    offsets = []
    with _open(path) as raw_file:
        reader = _RecordReader(raw_file, path, on_progress)
        number, position = reader.number, reader.position
        while reader.skip():
            if number % every == 0:
                offsets.append(position)
            number, position = reader.number, reader.position
    return number, offsets


def framed_record(record: bytes) -> bytes:
    """Returns the bytes of one record in a plain TFRecord file: the record with its length and both checksums."""
    length = struct.pack("<Q", len(record))
    checksums = _FOOTER.pack(masked_crc32c(length)), _FOOTER.pack(masked_crc32c(record))
    return length + checksums[0] + record + checksums[1]


def _open(path: str) -> BinaryIO:
    try:
        if "://" not in path:
            return open(path, "rb", buffering=0)
        import tensorflow as tf

        file = tf.io.gfile.GFile(path, "rb")
        file.size()  # GFile opens a file only when it is used
        return file
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}") from None
    except Exception as error:  # TensorFlow has its own exception for each kind of remote failure
        raise InputError(f"Cannot read {path}: {getattr(error, 'message', error)}") from None


def _compression(file: BinaryIO, path: str) -> str:
    try:
        start = file.read(len(_ZSTD_MAGIC))
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}") from None
    return "GZIP" if start.startswith(_GZIP_MAGIC) else "ZSTD" if start == _ZSTD_MAGIC else ""


class _RecordReader:
    """Reads or skips the records of an open file in order.

    `number` is that of the records read or skipped so far, and `position` the offset where they end in the uncompressed
    file. The arguments of these names say where to begin.
    """

    def __init__(
        self, raw_file: BinaryIO, path: str, on_progress: Callable[[int], None], number: int = 0, position: int = 0
    ):
        self._raw_file, self._path = raw_file, path
        self._compression = _compression(raw_file, path)
        self._is_plain_and_local = isinstance(raw_file, io.RawIOBase) and not self._compression
        self._on_progress, self._num_reported = on_progress, 0
        self.number, self.position = number, position
        self._next_report = position + _BYTES_BETWEEN_REPORTS
        raw_file.seek(0 if self._compression else position)
        self._file = raw_file
        if self._compression or self._is_plain_and_local:
            raw = _Decompressed(raw_file, self._compression, path) if self._compression else raw_file
            self._file = io.BufferedReader(raw, _READ_BYTES)
        if self._compression:
            self._discard(position)

    def read(self) -> bytes | None:
        """Returns the next record after checking both its checksums, or None at the end of the file."""
        length = self._next_length()
        if length is None:
            return None
        body = self._read(length + _FOOTER.size)
        if len(body) < length + _FOOTER.size:
            raise self._cut_off_error()
        record = body[:length]
        if masked_crc32c(record) != _FOOTER.unpack_from(body, length)[0]:
            raise InputError(f"{self._where()} is damaged: its checksum is wrong. {_HINT}")
        self._advance(length)
        return record

    def skip(self) -> bool:
        """Skips the next record. Returns False at the end of the file."""
        length = self._next_length()
        if length is None:
            return False
        num_bytes = length + _FOOTER.size
        if self._is_plain_and_local:
            self._file.seek(num_bytes - 1, os.SEEK_CUR)
            num_bytes = 1
        if not self._discard(num_bytes):
            raise self._cut_off_error()
        self._advance(length)
        return True

    def _next_length(self) -> int | None:
        header = self._read(_HEADER.size)
        if not header:
            self._report()
            return None
        if len(header) < _HEADER.size:
            raise self._cut_off_error()
        length, checksum = _HEADER.unpack(header)
        if masked_crc32c(header[:8]) != checksum:
            if not self.number:
                raise InputError(
                    f"{self._path} is not a TFRecord file: it does not begin with a length and its checksum. Give "
                    "another file."
                )
            raise InputError(f"{self._where()} is damaged: the checksum of its length is wrong. {_HINT}")
        if length > _READ_BYTES:
            self._check_length(length)
        return length

    def _check_length(self, length: int) -> None:
        """Raises `InputError` if a record claims to be longer than it can be, before memory for it is allocated."""
        claim = f"it claims to have {length:,} bytes"
        if self._compression:
            if length > _LONGEST_COMPRESSED_RECORD:
                raise InputError(
                    f"{self._where()} is damaged: {claim}, but a compressed file may have records of up to "
                    f"{_LONGEST_COMPRESSED_RECORD:,} bytes. {_HINT}"
                )
            return
        size = os.fstat(self._raw_file.fileno()).st_size if self._is_plain_and_local else self._raw_file.size()
        remaining = max(0, size - self.position - _HEADER.size - _FOOTER.size)
        if length > remaining:
            raise InputError(f"{self._where()} is cut off or damaged: {claim}, but only {remaining:,} follow. {_HINT}")

    def _advance(self, length: int) -> None:
        self.number += 1
        self.position += _HEADER.size + length + _FOOTER.size
        if self.position >= self._next_report:
            self._next_report = self.position + _BYTES_BETWEEN_REPORTS
            self._report()

    def _report(self) -> None:
        position = self._raw_file.tell()
        self._on_progress(position - self._num_reported)
        self._num_reported = position

    def _discard(self, num_bytes: int) -> bool:
        """Reads and drops this number of bytes. Returns whether the file has so many."""
        while num_bytes:
            num_read = len(self._read(min(num_bytes, _READ_BYTES)))
            if not num_read:
                return False
            num_bytes -= num_read
        return True

    def _read(self, num_bytes: int) -> bytes:
        try:
            return self._file.read(num_bytes)
        except EOFError:
            raise InputError(
                f"{self._where()} cannot be decompressed: the file is cut off after {self.number:,} whole record(s). "
                f"{_HINT}"
            ) from None
        except zlib.error as error:
            raise InputError(f"{self._where()} cannot be decompressed: {error}. {_HINT}") from None
        except OSError as error:
            raise InputError(f"Cannot read {self._path}: {error.strerror or error}") from None

    def _cut_off_error(self) -> InputError:
        return InputError(f"{self._where()} is cut off: the program that wrote the file was stopped. Make it again.")

    def _where(self) -> str:
        """Returns the path and the number of the current record, counted from 1."""
        place = "" if self._compression else f" (at byte {self.position:,})"
        return f"{self._path}: record {self.number + 1}{place}"


class _Decompressed(io.RawIOBase):
    """The decompressed bytes of a gzip or zstd file, which may consist of several compressed parts.

    It returns all bytes before a damaged one, and only then raises. The readers of gzip and zstandard keep these bytes
    back, or take a file that is cut off for a complete one.

    Raises:
        EOFError: the file is cut off.
        zlib.error: the file is damaged.
    """

    def __init__(self, raw_file: BinaryIO, compression: str, path: str):
        self._raw_file, self._is_gzip = raw_file, compression == "GZIP"
        self._new_decompressor: Callable = functools.partial(zlib.decompressobj, wbits=16 + zlib.MAX_WBITS)
        self._error: type[Exception] = zlib.error
        if not self._is_gzip:
            try:
                import zstandard
            except ImportError:
                advice = "which needs a package: pip install zstandard"
                raise InputError(f"{path} is compressed with zstd, {advice}") from None
            self._new_decompressor = zstandard.ZstdDecompressor().decompressobj
            self._error = zstandard.ZstdError
        self._decompressor = None
        self._compressed = b""
        self._decompressed = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not self._decompressed.nbytes:
            self._compressed = self._compressed or self._raw_file.read(_COMPRESSED_READ_BYTES)
            if not self._compressed:
                if self._decompressor is not None:
                    raise EOFError
                return 0
            self._decompress_more()
        size = min(len(buffer), self._decompressed.nbytes)
        buffer[:size] = self._decompressed[:size]
        self._decompressed = self._decompressed[size:]
        return size

    def _decompress_more(self) -> None:
        if self._decompressor is None:
            if self._is_gzip:
                self._compressed = self._compressed.lstrip(b"\0")  # gzip allows zeros between and after the parts
                if not self._compressed:
                    return
            self._decompressor = self._new_decompressor()
        try:
            self._decompressed = memoryview(self._decompressor.decompress(self._compressed))
        except self._error as error:
            raise zlib.error(str(error)) from None
        self._compressed = b""
        if self._decompressor.eof:
            self._compressed = self._decompressor.unused_data
            self._decompressor = None
