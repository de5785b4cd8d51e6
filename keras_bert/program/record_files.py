"""Reads TFRecord files as bytes, one record at a time, plain or compressed; frames records for writing.

A TFRecord file is a sequence of frames: the record's length (8 bytes, little-endian), a checksum of these 8 bytes (4),
the record, a checksum of the record (4). The checksums are masked CRC-32C. The whole file may be gzip or zstd.

Unlike TensorFlow's reader, this one reads zstd and names the damaged record.
"""

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
# zstd makes a run of zeros 30,000 times smaller: this bounds what one step of unpacking can give.
_PACKED_READ_BYTES = 1 << 14
# How long a record of a packed file may be: what the file unpacks to is not known beforehand.
_LONGEST_PACKED_RECORD = 1 << 28
# Of records, unpacked.
_BYTES_BETWEEN_REPORTS = 1 << 19
_HINT = "Fetch or make the file again."


def detect_compression(path: str | os.PathLike) -> str:
    """Returns "GZIP", "ZSTD" or "" by the first bytes of a file, whatever its name.

    Raises:
        InputError: the file cannot be read.
    """
    with _open(os.fspath(path)) as file:
        return _compression(_read_start(file, os.fspath(path)))


def iterate_records(
    path: str | os.PathLike,
    *,
    start: tuple[int, int] = (0, 0),
    on_progress: Callable[[int], None] = lambda num_bytes: None,
) -> Iterator[bytes]:
    """Yields the records of a TFRecord file in order, with both checksums of each compared.

    Memory stays at one record and a buffer of a quarter of a MB. An empty file has no records.

    Args:
        path: plain, gzip or zstd (the package zstandard); local, or whatever `tf.io.gfile` opens.
        start: how many records to pass over, and where in the unpacked file they end; see `record_offsets`. In a packed
            file, all before that is unpacked and thrown away.
        on_progress: called now and then with the number of bytes read from the disk since the last call. The sum of
            all calls is the size of the file.

    Raises:
        InputError: the file cannot be read, is no TFRecord file, is damaged or cut off: with the number of the first
            record that cannot be read (the first of a file is record 1). All records before it have been yielded.

    Example:
        >>> sum(1 for record in iterate_records("records/pretraining-00000-of-00010.tfrecord"))
        16086
    """
    path = os.fspath(path)
    with _open(path) as raw_file:
        reader = _RecordReader(raw_file, path, on_progress, *start)
        while (record := reader.read()) is not None:
            yield record


def record_offsets(
    path: str | os.PathLike, every: int, on_progress: Callable[[int], None] = lambda num_bytes: None
) -> tuple[int, list[int]]:
    """Counts the records of a file, without reading more of a plain local one than their lengths.

    Args:
        on_progress: as in `iterate_records`.

    Returns:
        the number of records, and where in the unpacked file the records 0, `every`, 2 * `every`, ... begin.

    Raises:
        InputError: as `iterate_records`; of what is in the records nothing is checked.
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
    except Exception as error:  # TensorFlow's own, a class for each kind of remote failure
        raise InputError(f"Cannot read {path}: {getattr(error, 'message', error)}") from None


def _read_start(file: BinaryIO, path: str) -> bytes:
    try:
        return file.read(len(_ZSTD_MAGIC))
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}") from None


def _compression(start: bytes) -> str:
    if start.startswith(_GZIP_MAGIC):
        return "GZIP"
    return "ZSTD" if start == _ZSTD_MAGIC else ""


class _RecordReader:
    """Reads or skips the records of an open file one after the other.

    Args:
        on_progress: as in `iterate_records`.
        number, position: how many records to pass over, and where in the unpacked file they end.

    Attributes:
        number: how many records lie before the place that was reached.
        position: that place, in the unpacked file.
    """

    def __init__(
        self, raw_file: BinaryIO, path: str, on_progress: Callable[[int], None], number: int = 0, position: int = 0
    ):
        self._raw_file, self._path = raw_file, path
        self._compression = _compression(_read_start(raw_file, path))
        self._is_plain_and_local = isinstance(raw_file, io.RawIOBase) and not self._compression
        self._on_progress, self._num_reported = on_progress, 0
        self.number, self.position = number, position
        self._next_report = position + _BYTES_BETWEEN_REPORTS
        raw_file.seek(0 if self._compression else position)
        self._file = raw_file
        if self._compression or self._is_plain_and_local:
            raw = _Unpacked(raw_file, self._compression, path) if self._compression else raw_file
            self._file = io.BufferedReader(raw, _READ_BYTES)
        if self._compression:
            self._throw_away(position)

    def read(self) -> bytes | None:
        """Returns the next record, both of its checksums compared, or None at the end of the file."""
        length = self._next_length()
        if length is None:
            return None
        body = self._read(length + _FOOTER.size)
        if len(body) < length + _FOOTER.size:
            raise self._cut_off()
        record = body[:length]
        if masked_crc32c(record) != _FOOTER.unpack_from(body, length)[0]:
            raise InputError(f"{self._where()} is damaged: its checksum is wrong. {_HINT}")
        self._advance(length)
        return record

    def skip(self) -> bool:
        """Passes over the next record; returns False at the end of the file."""
        length = self._next_length()
        if length is None:
            return False
        num_bytes = length + _FOOTER.size
        if self._is_plain_and_local:
            self._file.seek(num_bytes - 1, os.SEEK_CUR)
            num_bytes = 1
        if not self._throw_away(num_bytes):
            raise self._cut_off()
        self._advance(length)
        return True

    def _next_length(self) -> int | None:
        header = self._read(_HEADER.size)
        if not header:
            self._report()
            return None
        if len(header) < _HEADER.size:
            raise self._cut_off()
        length, checksum = _HEADER.unpack(header)
        if masked_crc32c(header[:8]) != checksum:
            if not self.number:
                raise InputError(
                    f"{self._path} is not a TFRecord file: it does not begin with a length and its checksum."
                )
            raise InputError(f"{self._where()} is damaged: the checksum of its length is wrong. {_HINT}")
        if length > _READ_BYTES:
            self._check_room(length)
        return length

    def _check_room(self, length: int) -> None:
        """Raises `InputError` for a record too long to be there. Checksums can be forged: this comes before memory."""
        says = f"it says that it has {length:,} bytes"
        if self._compression:
            if length > _LONGEST_PACKED_RECORD:
                raise InputError(
                    f"{self._where()} is damaged: {says}; in packed files {_LONGEST_PACKED_RECORD:,} are the most. "
                    f"{_HINT}"
                )
            return
        size = os.fstat(self._raw_file.fileno()).st_size if self._is_plain_and_local else self._raw_file.size()
        room = max(0, size - self.position - _HEADER.size - _FOOTER.size)
        if length > room:
            raise InputError(f"{self._where()} is cut off or damaged: {says}, but only {room:,} follow. {_HINT}")

    def _advance(self, length: int) -> None:
        self.number += 1
        self.position += _HEADER.size + length + _FOOTER.size
        if self.position >= self._next_report:
            self._next_report = self.position + _BYTES_BETWEEN_REPORTS
            self._report()

    def _report(self) -> None:
        place = self._raw_file.tell()
        self._on_progress(place - self._num_reported)
        self._num_reported = place

    def _throw_away(self, num_bytes: int) -> bool:
        """Reads past so many bytes; returns whether the file has them."""
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
                f"{self._where()} cannot be unpacked: the file is truncated, after {self.number:,} whole record(s). "
                f"{_HINT}"
            ) from None
        except zlib.error as error:
            raise InputError(f"{self._where()} cannot be unpacked: {error}. {_HINT}") from None
        except OSError as error:
            raise InputError(f"Cannot read {self._path}: {error.strerror or error}") from None

    def _cut_off(self) -> InputError:
        return InputError(f"{self._where()} is cut off: whatever wrote the file was stopped. Make it again.")

    def _where(self) -> str:
        """Names a record, in words of a person: the first of a file is record 1."""
        return f"{self._path}: record {self.number + 1}" + (
            "" if self._compression else f" (at byte {self.position:,})"
        )


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of a gzip or zstd file, which may be several packed ones behind each other.

    What stands before a break is handed over before the break is told; the readers of gzip and zstandard keep it back,
    or do not tell a file that is cut off from a whole one.

    Raises:
        EOFError: the file is cut off.
        zlib.error: it is damaged.
    """

    def __init__(self, raw_file: BinaryIO, compression: str, path: str):
        self._raw_file, self._is_gzip = raw_file, compression == "GZIP"
        self._new_part, self._error = _gzip_parts() if self._is_gzip else _zstd_parts(path)
        self._part = None
        self._packed = b""
        self._unpacked = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not self._unpacked.nbytes:
            self._packed = self._packed or self._raw_file.read(_PACKED_READ_BYTES)
            if not self._packed:
                if self._part is not None:
                    raise EOFError
                return 0
            self._unpack_more()
        size = min(len(buffer), self._unpacked.nbytes)
        buffer[:size] = self._unpacked[:size]
        self._unpacked = self._unpacked[size:]
        return size

    def _unpack_more(self) -> None:
        if self._part is None:
            if self._is_gzip:
                self._packed = self._packed.lstrip(b"\0")  # a gzip file may be filled up with zeros
                if not self._packed:
                    return
            self._part = self._new_part()
        try:
            self._unpacked = memoryview(self._part.decompress(self._packed))
        except self._error as error:
            raise zlib.error(str(error)) from None
        self._packed = b""
        if self._part.eof:
            self._packed = self._part.unused_data
            self._part = None


def _gzip_parts() -> tuple[Callable, type[Exception]]:
    """Returns what makes an unpacker of one part of a file, and the error that it raises."""
    return lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS), zlib.error


def _zstd_parts(path: str) -> tuple[Callable, type[Exception]]:
    try:
        import zstandard
    except ImportError:
        raise InputError(f"{path} is compressed with zstd, which takes a package: pip install zstandard") from None
    return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError
