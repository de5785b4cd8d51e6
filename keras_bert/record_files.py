"""TFRecord files as bytes: which files there are, how they are compressed, and their records one at a time.

A TFRecord file is a row of frames: the record's length (8 bytes, little-endian), a checksum of these 8 bytes (4), the
record, a checksum of the record (4). The checksums are CRC-32C, masked. A file may be gzip or zstd as a whole.

Reading here also takes zstd, which TensorFlow's reader does not, and says which record is damaged.
"""

import gzip
import io
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

import google_crc32c

from keras_bert.errors import InputError

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_READ_BYTES = 1 << 18
# zstd makes a run of zeros 30,000 times smaller: this bounds what one step of unpacking can give.
_ZSTD_READ_BYTES = 1 << 14
# Of records, unpacked.
_BYTES_BETWEEN_REPORTS = 1 << 19
_HINT = "Fetch or make the file again."


def list_records(patterns: str | Sequence[str]) -> list[str]:
    """Returns the record files that `patterns` stand for, sorted, each once.

    A name without wildcards stands for itself, a folder for all `*.tfrecord*` and `*.tf_record*` in it. Manifests and
    other `.json` files that match are left out. Remote names (`gs://...`) work as they do everywhere in TensorFlow.

    Raises:
        InputError: nothing matches one of them.
    """
    import tensorflow as tf

    patterns = patterns.split(",") if isinstance(patterns, str) else list(patterns)
    patterns = [os.fspath(pattern).strip() for pattern in patterns]
    if not any(patterns):
        raise InputError("No record file was given. Name TFRecord files, a folder of them, or a pattern like 'data/*'.")
    found = set()
    for pattern in filter(None, patterns):
        is_folder = tf.io.gfile.isdir(pattern)
        if is_folder:
            names = tf.io.gfile.glob([os.path.join(pattern, form) for form in ("*.tfrecord*", "*.tf_record*")])
        else:
            # A name that exists is taken as it is: it may hold a bracket.
            names = [pattern] if tf.io.gfile.exists(pattern) else tf.io.gfile.glob(pattern)
        names = [name for name in names if not name.endswith(".json") and not tf.io.gfile.isdir(name)]
        if not names:
            raise InputError(
                f"The folder {pattern} has no file named *.tfrecord*" if is_folder else f"No file matches {pattern}"
            )
        found.update(names)
    return sorted(found)


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
        start: how many records to pass over, and where in the unpacked file they end; see `record_places`. In a packed
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
        compression = _compression(_read_start(raw_file, path))
        num_passed, position = start
        raw_file.seek(0 if compression else position)
        reported = 0
        file = _unpack(raw_file, compression, path)  # kept by name: a buffer that is dropped closes the file below it
        if compression:
            _throw_away(file, position, path, compression)
        unreported = 0
        for record in _frames(file, path, compression, num_passed, position):
            yield record
            unreported += len(record)
            if unreported >= _BYTES_BETWEEN_REPORTS:
                on_progress(raw_file.tell() - reported)
                reported, unreported = raw_file.tell(), 0
        on_progress(raw_file.tell() - reported)


def record_places(path: str | os.PathLike, every: int) -> tuple[int, list[int]]:
    """Counts the records of a file, without reading more of a plain local one than their lengths.

    Returns:
        the number of records, and where in the unpacked file the records 0, `every`, 2 * `every`, ... begin.

    Raises:
        InputError: as `iterate_records`; of what is in the records nothing is checked.
    """
    path = os.fspath(path)
    places, number, position = [], 0, 0
    with _open(path) as raw_file:
        compression = _compression(_read_start(raw_file, path))
        raw_file.seek(0)
        file = _unpack(raw_file, compression, path)
        can_jump = isinstance(raw_file, io.RawIOBase) and not compression
        while header := _read(file, _HEADER.size, path, compression, number, position):
            length = _checked_length(header, path, compression, number, position) + _FOOTER.size
            if number % every == 0:
                places.append(position)
            if can_jump:
                file.seek(length - 1, os.SEEK_CUR)
            num_read = len(_read(file, 1 if can_jump else length, path, compression, number, position))
            if num_read < (1 if can_jump else length):
                raise _cut_off(path, compression, number, position)
            number, position = number + 1, position + _HEADER.size + length
    return number, places


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


def _unpack(raw_file: BinaryIO, compression: str, path: str) -> BinaryIO:
    if compression == "GZIP":
        # GzipFile.read returns what one step unpacks; the buffer around it collects as much as is asked for.
        return io.BufferedReader(gzip.GzipFile(fileobj=raw_file, mode="rb"), _READ_BYTES)
    if compression == "ZSTD":
        return io.BufferedReader(_ZstdReader(raw_file, path), _READ_BYTES)
    return io.BufferedReader(raw_file, _READ_BYTES) if isinstance(raw_file, io.RawIOBase) else raw_file


class _ZstdReader(io.RawIOBase):
    """Unpacks zstd frames, one after the other. zstandard's own reader does not tell a cut-off frame from a whole one.

    Raises:
        EOFError: the file ends within a frame.
        zlib.error: a frame is damaged.
    """

    def __init__(self, raw_file: BinaryIO, path: str):
        try:
            import zstandard
        except ImportError:
            raise InputError(f"{path} is compressed with zstd, which takes a package: pip install zstandard") from None
        self._raw_file, self._zstandard = raw_file, zstandard
        self._frame = None
        self._packed = b""
        self._unpacked = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not self._unpacked.nbytes:
            self._packed = self._packed or self._raw_file.read(_ZSTD_READ_BYTES)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("it ends in the middle of a zstd frame")
                return 0
            self._unpack_more()
        size = min(len(buffer), self._unpacked.nbytes)
        buffer[:size] = self._unpacked[:size]
        self._unpacked = self._unpacked[size:]
        return size

    def _unpack_more(self) -> None:
        if self._frame is None:
            self._frame = self._zstandard.ZstdDecompressor().decompressobj()
        try:
            self._unpacked = memoryview(self._frame.decompress(self._packed))
        except self._zstandard.ZstdError as error:
            raise zlib.error(str(error)) from None
        self._packed = b""
        if self._frame.eof:
            self._packed = self._frame.unused_data
            self._frame = None


def _frames(file: BinaryIO, path: str, compression: str, number: int, position: int) -> Iterator[bytes]:
    """Yields the records from the place of a file on, which is `position` and has `number` records before it."""
    while header := _read(file, _HEADER.size, path, compression, number, position):
        length = _checked_length(header, path, compression, number, position)
        body = _read(file, length + _FOOTER.size, path, compression, number, position)
        if len(body) < length + _FOOTER.size:
            raise _cut_off(path, compression, number, position)
        record = body[:length]
        if _masked_crc32c(record) != _FOOTER.unpack_from(body, length)[0]:
            where = _where(path, compression, number, position)
            raise InputError(f"{where} is damaged: its checksum is wrong. {_HINT}")
        yield record
        number += 1
        position += _HEADER.size + len(body)


def _checked_length(header: bytes, path: str, compression: str, number: int, position: int) -> int:
    """Returns the length that a header says, once its checksum is right: a wrong one may be any number of exabytes."""
    if len(header) < _HEADER.size:
        raise _cut_off(path, compression, number, position)
    length, checksum = _HEADER.unpack(header)
    if _masked_crc32c(header[:8]) != checksum:
        if not number:
            raise InputError(f"{path} is not a TFRecord file: it does not begin with a length and its checksum.")
        where = _where(path, compression, number, position)
        raise InputError(f"{where} is damaged: the checksum of its length is wrong. {_HINT}")
    return length


def _cut_off(path: str, compression: str, number: int, position: int) -> InputError:
    where = _where(path, compression, number, position)
    return InputError(f"{where} is cut off: whatever wrote the file was stopped. Make it again.")


def _where(path: str, compression: str, number: int, position: int) -> str:
    """Names a record, in words of a person: the first of a file is record 1."""
    return f"{path}: record {number + 1}" + ("" if compression else f" (at byte {position:,})")


def _throw_away(file: BinaryIO, num_bytes: int, path: str, compression: str) -> None:
    while num_bytes:
        thrown = len(_read(file, min(num_bytes, _READ_BYTES), path, compression, 0, 0))
        if not thrown:
            return  # the file has become shorter: what comes next sees its end
        num_bytes -= thrown


def _read(file: BinaryIO, num_bytes: int, path: str, compression: str, number: int, position: int) -> bytes:
    try:
        return file.read(num_bytes)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        where = _where(path, compression, number, position)
        raise InputError(f"{where} cannot be unpacked: {error}. {_HINT}") from None
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}") from None


def _masked_crc32c(data: bytes) -> int:
    """The checksum that TFRecord files hold.

    Reference: tensorflow/core/lib/hash/crc32c.h, `Mask`: a checksum of data that holds checksums is a weak one.
    """
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
