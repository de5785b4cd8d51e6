"""Reads text files in chunks of about 2 MB, cut between documents: the unit of parallel work.

The cuts depend on the content of the file only. Reading does little more than find blank lines; decoding, checking and
splitting into documents is done by the process that gets the chunk.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from data_prep.text.text_lines import JSON_LINES, decoded, open_file, open_text, without_lone_surrogates
from data_prep.text.text_lines import MAX_LINE_BYTES as MAX_JSON_LINE_BYTES
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import parse_json_line

JSON_SUFFIXES = (*JSON_LINES, *(f"{ending}.gz" for ending in JSON_LINES))

# Large enough for the tokenizer to run at full speed, small enough for several to be in memory.
CHUNK_BYTES = 2_000_000
# These limits bound the memory: text without blank lines is cut into documents of this many characters, and text
# without line breaks into lines of this many bytes.
MAX_DOCUMENT_CHARACTERS = 4_000_000
MAX_LINE_BYTES = 4_000_000

_BLANK_LINE = re.compile(rb"\n[ \t\r\f\v]*\n")


@dataclasses.dataclass(frozen=True)
class TextChunk:
    """A part of one source with whole documents, except for those that are cut because of their size.

    `data` is a piece of the decompressed file, or a list of texts that are one document each. `first_line` and `start`
    are the position of the piece in the decompressed file; `source_bytes` is its share of the source's size on disk;
    `is_last` marks the last chunk of the source.
    """

    source: str
    data: bytes | list[str]
    first_line: int
    start: int
    source_bytes: int
    is_last: bool
    text_field: str = "text"

    def documents(self) -> Iterator[list[str]]:
        """Yields the documents: lists of stripped, non-empty lines.

        Raises `InputError` if the piece is binary, not UTF-8 or not JSON Lines, or a record has no such field.
        """
        if isinstance(self.data, list):
            return _documents_of_texts(self.data)
        text = decoded(self.data, self.source, self.first_line, self.start)
        if self.source.lower().endswith(JSON_SUFFIXES):
            return _documents_of_texts(_texts_of_json_lines(self, text))
        # Old Macintosh programs end lines with "\r" alone.
        return _group_lines(text.split("\n" if "\n" in text else "\r"))


def read_chunks(path: str, text_field: str, open_file: Callable[[str], BinaryIO] = open_file) -> Iterator[TextChunk]:
    """Yields a file chunk by chunk, at least one; `.gz` is decompressed. `open_file` opens it without decompression.

    Raises `InputError` as `open_text`, or if a JSON line has more than 256 MB.
    """
    is_json = path.lower().endswith(JSON_SUFFIXES)
    with open_text(path, open_file) as (file, raw_file):
        line, start, reported = 1, 0, 0
        for data, is_last in _pieces(file, path, is_json):
            # A gzip reader reads ahead of the decompressed data; at the end both positions agree.
            position = start + len(data) if file is raw_file else raw_file.tell()
            yield TextChunk(path, data, line, start, position - reported, is_last, text_field)
            line, start, reported = line + data.count(b"\n"), start + len(data), position


def texts_in_chunks(source: str, texts: Iterable[tuple[str, int]]) -> Iterator[TextChunk]:
    """Groups texts, each with its share of the source's bytes, into chunks. Each text is a document."""
    gathered, num_characters, num_bytes = [], 0, 0
    for text, source_bytes in texts:
        if num_characters >= CHUNK_BYTES:
            yield TextChunk(source, gathered, 0, 0, num_bytes, False)
            gathered, num_characters, num_bytes = [], 0, 0
        gathered.append(text)
        num_characters += len(text)
        num_bytes += source_bytes
    yield TextChunk(source, gathered, 0, 0, num_bytes, True)


def _pieces(file, path: str, is_json: bool) -> Iterator[tuple[bytes, bool]]:
    """Yields pieces that end at the end of a document, and whether the file ends there."""
    rest = b""
    while True:
        read = file.read(CHUNK_BYTES)
        rest += read
        if len(read) < CHUNK_BYTES:
            yield rest, True
            return
        cut = rest.rfind(b"\n") + 1 if is_json else _cut_after_document(rest)
        if is_json and not cut and len(rest) > MAX_JSON_LINE_BYTES:
            raise InputError(
                f"{path} has a line of more than {MAX_JSON_LINE_BYTES:,} bytes. Write one record per line."
            )
        if cut:
            yield rest[:cut], False
            rest = rest[cut:]


def _cut_after_document(data: bytes) -> int:
    """Returns where to cut: after the last blank line; without one in a large piece, after a line, word or character.

    Returns 0 if more should be read first.

    >>> _cut_after_document(b"one\\n\\ntwo\\n \\nthr")
    11
    """
    # The two most common forms are searched from the end, which is fast.
    cut = max(data.rfind(b"\n\n") + 2, data.rfind(b"\n\r\n") + 3, 2)
    # Matches may overlap: "\n \n \n" has two blank lines.
    for blank_line in _BLANK_LINE.finditer(data, cut - 1):
        cut = blank_line.end()
    if cut > 3 or len(data) <= MAX_LINE_BYTES:
        return cut if cut > 3 else 0
    return data.rfind(b"\n") + 1 or _cut_at_space(data)


def _cut_at_space(data: bytes) -> int:
    """Returns the position after the last space, or between two characters if there is no space.

    >>> _cut_at_space(b"one two thr")
    8
    """
    cut = data.rfind(b" ") + 1
    if cut == 0:
        cut = len(data)
        # Bytes 10xxxxxx continue a UTF-8 character, which has at most three of them.
        while cut > len(data) - 4 and data[cut - 1] & 0xC0 == 0x80:
            cut -= 1
        if data[cut - 1] >= 0xC0:
            cut -= 1
    return cut


def _texts_of_json_lines(chunk: TextChunk, text: str) -> Iterator[str]:
    for number, line in enumerate(text.split("\n"), start=chunk.first_line):
        if not line.strip():
            continue
        where = f"{chunk.source}: line {number}"
        record = parse_json_line(line, where)
        if not isinstance(record, dict):
            raise InputError(f"{where} must be a JSON object. Received: {type(record).__name__}")
        if chunk.text_field not in record:
            names = ", ".join(map(repr, record)) or "none"
            raise InputError(f"{where} has no field {chunk.text_field!r}. It has: {names}")
        value = record[chunk.text_field]
        if not isinstance(value, str):
            kind = type(value).__name__
            raise InputError(f"{where}: the field {chunk.text_field!r} must be a string. Received: {kind}")
        yield without_lone_surrogates(value)


def _documents_of_texts(texts: Iterable[str]) -> Iterator[list[str]]:
    for text in texts:
        # Blank lines separate the paragraphs of a record; they do not end the document.
        yield from _group_lines(line for line in text.split("\n") if line.strip())


def _group_lines(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yields lists of stripped lines, split at blank lines.

    >>> list(_group_lines(["a", " b ", "", "", "c"]))
    [['a', 'b'], ['c']]
    """
    document = []
    num_characters = 0
    for line in lines:
        line = line.strip()
        if not line or num_characters > MAX_DOCUMENT_CHARACTERS:
            if document:
                yield document
            document = []
            num_characters = 0
        if line:
            document.append(line)
            num_characters += len(line)
    if document:
        yield document
