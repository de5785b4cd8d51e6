"""Reads the lines of text files, for formats with one row per line."""

import contextlib
import gzip
import io
import itertools
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from data_prep.text.remote_files import is_remote, open_remote
from keras_bert.program.errors import InputError

# Endings of files with a JSON object in each line.
JSON_LINES = (".jsonl", ".ndjson", ".jsonlines")
_NOT_WINDOWS_1252 = frozenset(b"\x81\x8d\x8f\x90\x9d")

# Python takes twenty times the memory for a row of very short values.
MAX_ROW_BYTES = 16_000_000
# text8, a usual text for language models, is one line of 100 MB.
MAX_LINE_BYTES = 256_000_000
# gzip packs one repeated character to a thousandth, but text hardly to a tenth. So a small file cannot fill the memory.
_MOST_GROWTH, _BYTES_OF_ANY_FILE = 50, 16 << 20


def read_lines(path: str | os.PathLike, most_bytes: int = MAX_ROW_BYTES) -> Iterator[str]:
    r"""Yields the lines of a UTF-8 text file, with their line breaks; `.gz` is decompressed.

    Only "\n" is a line break, or "\r" in a file that has no "\n" before its end, as old Macintosh programs write.
    The file may be on disk or at a URL such as gs://, see `remote_files.py`. A byte order mark is skipped. Raises
    `InputError` as `open_text`, or if the file is binary or not UTF-8, or a line has more than `most_bytes` bytes.
    """
    path = os.fspath(path)
    with open_text(path) as (file, _):
        for number, line in enumerate(_physical_lines(file, path, most_bytes), start=1):
            yield decoded(line, path, number)


def _physical_lines(file: BinaryIO, path: str, most_bytes: int) -> Iterator[bytes]:
    lines = _bounded_lines(file, path, most_bytes)
    first, second = next(lines, b""), next(lines, None)
    if second is None and b"\r" in first.rstrip(b"\r\n"):
        yield from (line + b"\n" for line in first.splitlines())
    elif first:
        yield from itertools.chain([first], [] if second is None else [second], lines)


def _bounded_lines(file: BinaryIO, path: str, most_bytes: int) -> Iterator[bytes]:
    while line := file.readline(most_bytes + 1):
        if len(line) > most_bytes:
            raise InputError(f"{path} has a line of more than {most_bytes:,} bytes. Write one row per line.")
        yield line


def open_file(path: str) -> BinaryIO:
    """Opens a file on disk or at a URL for reading, without decompression. Raises `InputError` if there is none."""
    if is_remote(path):
        return open_remote(path)
    if not os.path.isfile(path):
        raise InputError(f"There is no file {path}.")
    return open(path, "rb")


@contextlib.contextmanager
def open_text(path: str, open_file: Callable[[str], BinaryIO] = open_file) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Gives the file of a text for reading, with `.gz` decompressed, and the file that is read for it.

    `open_file` opens a file on disk or at a URL without decompression. Raises `InputError` if the file cannot be read,
    is not valid gzip, or decompresses to more than 16 MiB and fifty times its size.
    """
    try:
        with open_file(path) as raw_file:
            yield (
                (io.BufferedReader(_Unpacked(path, raw_file), 1 << 17) if path.lower().endswith(".gz") else raw_file),
                raw_file,
            )
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a complete gzip file: {error}. Fetch or compress it again.") from None
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}") from None


class _Unpacked(gzip.GzipFile):
    """The decompressed bytes of a file, as long as they can be text."""

    def __init__(self, path: str, raw_file: BinaryIO):
        super().__init__(fileobj=raw_file, mode="rb")
        self._path, self._raw_file = path, raw_file

    def readinto(self, buffer) -> int:
        count = super().readinto(buffer)
        if self.tell() > max(_BYTES_OF_ANY_FILE, _MOST_GROWTH * self._raw_file.tell()):
            raise InputError(
                f"{self._path} decompresses to more than {_MOST_GROWTH} times its size, which no text does. Get the "
                "right file, or decompress it first."
            )
        return count


def read_text(path: str | os.PathLike) -> str:
    """Returns a whole file of UTF-8 text. Raises `InputError` as `read_lines` does, but a line may have any length."""
    return "".join(read_lines(path, most_bytes=sys.maxsize - 1))


def decoded(data: bytes, path: str, first_line: int, start: int | None = None) -> str:
    """Returns the text of a piece of a file, without a byte order mark.

    The piece begins with the line `first_line`, and at the position `start` of the file, for messages. Raises
    `InputError` if it is binary or not UTF-8.
    """
    is_beginning = first_line == 1 and not start
    if is_beginning and data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path} is UTF-16, not UTF-8. Convert it: iconv -f UTF-16 -t UTF-8")
    if b"\0" in data:
        line, position = _place(data, data.index(0), first_line, start)
        raise InputError(f"{path} is binary, not text: {line} has a NUL byte{position}.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line, position = _place(data, error.start, first_line, start)
        byte = f"byte 0x{data[error.start]:02x}"
        raise InputError(f"{path} is not UTF-8: {byte} in {line}{position}. {encoding_advice(data)}") from None
    return text.removeprefix("\ufeff") if is_beginning else text


def _place(data: bytes, position: int, first_line: int, start: int | None) -> tuple[str, str]:
    line = first_line + data.count(b"\n", 0, position)
    return f"line {line}", "" if start is None else f" at position {start + position} of the file"


def encoding_advice(data: bytes) -> str:
    r"""Returns how to convert bytes that are not UTF-8.

    Windows-1252 has the letters of Latin-1, and quotation marks, dashes and the euro sign where that has control
    characters. Bytes that it lacks are of another encoding.

    >>> encoding_advice(b"na\xefve"), encoding_advice(b"\x81")[:20]
    ('If it is from Windows, convert it: iconv -f WINDOWS-1252 -t UTF-8', 'Find out its encodin')
    """
    if _NOT_WINDOWS_1252.isdisjoint(data):
        return "If it is from Windows, convert it: iconv -f WINDOWS-1252 -t UTF-8"
    return "Find out its encoding, such as with `file`, and convert it: iconv -f ENCODING -t UTF-8"


def without_lone_surrogates(text: str) -> str:
    r"""Replaces surrogates without their other half, which JSON can represent but UTF-8 cannot, by U+FFFD.

    >>> without_lone_surrogates("cut \ud83d") == "cut \ufffd"
    True
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
