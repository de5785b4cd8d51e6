"""Reading text: files, folders, patterns and tensorflow_datasets, one document at a time.

A text file has one sentence or paragraph a line and a blank line between documents. In JSON Lines and in
tensorflow_datasets one record is one document, and the line breaks inside its text part its paragraphs.
"""

import glob
import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from data_prep import tfds_text
from keras_bert.errors import InputError

_JSON_SUFFIXES = (".jsonl", ".jsonl.gz")
# What a folder is searched for. Files without a suffix are taken too: WikiExtractor writes `AA/wiki_00`.
_SUFFIXES = (".txt", ".gz", *_JSON_SUFFIXES)

# Memory stays bounded whatever comes: a text without blank lines is cut into documents of this many characters, and a
# text without line breaks into lines of this many bytes.
MAX_DOCUMENT_CHARACTERS = 4_000_000
MAX_LINE_BYTES = 4_000_000
MAX_JSON_LINE_BYTES = 256_000_000

_BYTES_BETWEEN_REPORTS = 1 << 20


def read_documents(
    patterns: str | Sequence[str],
    *,
    text_field: str = "text",
    tfds_data_dir: str | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[list[str]]:
    """Reads documents one at a time, in an order that depends on the names only.

    Args:
        patterns: file, folder (searched with all its folders), glob, or `tfds:NAME[/CONFIG][:VERSION][@SPLIT]`; one,
            several with commas between them, or a sequence of these. A file that several of them match is read once.
            Names ending in `.gz` are unpacked; `.jsonl` and `.jsonl.gz` are JSON Lines; everything else is text.
        text_field: the field that holds the text, in JSON Lines and in tensorflow_datasets.
        tfds_data_dir: where tensorflow_datasets keeps its data; its own default when None.
        on_progress: called now and then with the number of bytes read since the last call. The sum of all calls is
            `input_size(patterns)`.

    Returns:
        An iterator over documents: a list of lines each, stripped, without empty ones. A document of more than 4
        million characters comes in several parts.

    Raises:
        InputError: at once when nothing matches a pattern; while reading, when a file is empty, binary, not UTF-8, not
            valid gzip or JSON Lines, or has no such field.

    Example:
        >>> list(read_documents("two_documents.txt"))
        [['First line.', 'Second line.'], ['Another document.']]
    """
    sources = list_sources(patterns)
    for name in sources:
        if tfds_text.is_tfds_name(name):
            tfds_text.check_name(name)
    return _read_sources(sources, patterns, text_field, tfds_data_dir, on_progress or (lambda num_bytes: None))


def list_sources(patterns: str | Sequence[str]) -> list[str]:
    """Returns the files and `tfds:` names that `patterns` stand for, in reading order, each once.

    Raises:
        InputError: nothing matches a pattern.
    """
    found = {}
    for pattern in _split_patterns(patterns):
        for name in _expand(pattern):
            found.setdefault(name if tfds_text.is_tfds_name(name) else os.path.realpath(name), name)
    return list(found.values())


def input_size(patterns: str | Sequence[str], *, tfds_data_dir: str | None = None) -> int:
    """Returns the bytes that reading `patterns` will report to `on_progress`: sizes on disk."""
    return sum(
        tfds_text.size_in_bytes(name, tfds_data_dir) if tfds_text.is_tfds_name(name) else os.path.getsize(name)
        for name in list_sources(patterns)
    )


def _split_patterns(patterns: str | Sequence[str]) -> list[str]:
    if isinstance(patterns, str):
        patterns = patterns.split(",")
    patterns = [pattern.strip() for pattern in patterns if pattern.strip()]
    if not patterns:
        raise InputError("No input was given. Name a text file, a folder, a pattern like 'texts/*.txt', or tfds:NAME.")
    return patterns


def _expand(pattern: str) -> list[str]:
    """Returns what one pattern stands for, sorted."""
    if tfds_text.is_tfds_name(pattern):
        return [pattern]
    path = os.path.expanduser(pattern)
    if os.path.isdir(path):
        return _files_in_folder(path)
    if os.path.exists(path):
        return [path]
    if not glob.has_magic(path):
        raise InputError(f"There is no file or folder {pattern}")
    names = []
    for name in sorted(glob.glob(path, recursive=True)):
        names.extend(_files_in_folder(name, may_be_empty=True) if os.path.isdir(name) else [name])
    if not names:
        raise InputError(f"No file matches the pattern {pattern}")
    return names


def _files_in_folder(folder: str, may_be_empty: bool = False) -> list[str]:
    names, others = [], []
    seen = set()
    for parent, folders, files in os.walk(folder, followlinks=True):
        # A link to a folder above would be followed for ever.
        seen.add(os.path.realpath(parent))
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and os.path.realpath(os.path.join(parent, name)) not in seen
        )
        for name in files:
            if not name.startswith((".", "_")):
                is_text = name.endswith(_SUFFIXES) or "." not in name
                (names if is_text else others).append(os.path.join(parent, name))
    if not names and not may_be_empty:
        holds = f"It holds {', '.join(sorted(map(os.path.basename, others))[:3])}" if others else "It is empty"
        raise InputError(f"The folder {folder} has no file named *.txt, *.gz or *.jsonl. {holds}.")
    return sorted(names)


def _read_sources(sources, patterns, text_field, tfds_data_dir, on_progress) -> Iterator[list[str]]:
    # An empty file that the user named is a mistake; among the many of a folder or pattern it is not.
    named = {os.path.expanduser(pattern) for pattern in _split_patterns(patterns)}
    found_any = False
    for source in sources:
        if tfds_text.is_tfds_name(source):
            texts = tfds_text.read_texts(source, text_field, tfds_data_dir, on_progress)
            documents = _documents_of_texts(texts)
        else:
            documents = _read_file(source, text_field, on_progress)
        is_empty = True
        for document in documents:
            is_empty = False
            yield document
        if is_empty and source in named:
            raise InputError(f"{source} is empty: it has no line of text.")
        found_any = found_any or not is_empty
    if not found_any:
        raise InputError(f"None of the {len(sources)} input files has a line of text. The first is {sources[0]}")


def _read_file(path: str, text_field: str, on_progress: Callable[[int], None]) -> Iterator[list[str]]:
    is_json = path.endswith(_JSON_SUFFIXES)
    lines = read_lines(path, is_json=is_json, on_progress=on_progress)
    if is_json:
        return _documents_of_texts(_texts_of_json_lines(lines, path, text_field))
    return _group_lines(lines)


def read_lines(
    path: str, *, is_json: bool = False, on_progress: Callable[[int], None] = lambda num_bytes: None
) -> Iterator[str]:
    """Yields the lines of a file of UTF-8 text, with their line breaks; `.gz` is unpacked.

    A line of more than four million bytes comes in several parts, but a longer line of JSON is allowed.

    Raises:
        InputError: the file cannot be read, is binary, not UTF-8, or not valid gzip.
    """
    try:
        raw_file = open(path, "rb")  # noqa: SIM115 - closed below, after the gzip reader that wraps it
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}") from None
    with raw_file:
        file = io.BufferedReader(gzip.GzipFile(fileobj=raw_file)) if path.endswith(".gz") else raw_file
        reported = start = 0
        for number, line in enumerate(_raw_lines(file, path, is_json), start=1):
            text = _decode(line, path, number, start)
            yield text.removeprefix("\ufeff") if number == 1 else text
            start += len(line)
            position = raw_file.tell() if file is not raw_file else start
            if position - reported >= _BYTES_BETWEEN_REPORTS:
                on_progress(position - reported)
                reported = position
        on_progress(os.fstat(raw_file.fileno()).st_size - reported)


def _raw_lines(file, path: str, is_json: bool) -> Iterator[bytes]:
    max_line_bytes = MAX_JSON_LINE_BYTES if is_json else MAX_LINE_BYTES
    rest = b""
    try:
        while line := rest + file.readline(max_line_bytes):
            rest = b""
            if len(line) >= max_line_bytes and not line.endswith(b"\n"):
                if is_json:
                    raise InputError(f"{path} has a line of more than {max_line_bytes:,} bytes. Write a record a line.")
                line, rest = _cut_at_space(line)
            yield line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a whole gzip file: {error}. Fetch or pack it again.") from None
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}") from None


def _cut_at_space(line: bytes) -> tuple[bytes, bytes]:
    """Splits after the last space, so that no word is cut; where there is none, between two characters.

    >>> _cut_at_space(b"one two thr")
    (b'one two ', b'thr')
    """
    cut = line.rfind(b" ") + 1
    if cut == 0:
        cut = len(line)
        # Bytes 10xxxxxx continue a UTF-8 character; a character has at most three of them.
        while cut > len(line) - 4 and line[cut - 1] & 0xC0 == 0x80:
            cut -= 1
        if line[cut - 1] >= 0xC0:
            cut -= 1
    return line[:cut], line[cut:]


def _decode(line: bytes, path: str, number: int, start: int) -> str:
    if start == 0 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path} is UTF-16, not UTF-8. Convert it: iconv -f UTF-16 -t UTF-8")
    if b"\0" in line:
        raise InputError(
            f"{path} is binary, not text: line {number} has a NUL byte at position {start + line.index(0)} of the file."
        )
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8: byte 0x{line[error.start]:02x} in line {number}, at position {start + error.start} "
            "of the file. Convert it, for example: iconv -f LATIN1 -t UTF-8"
        ) from None


def _texts_of_json_lines(lines: Iterable[str], path: str, text_field: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"{where} is not JSON: {error}") from None
        if not isinstance(record, dict):
            raise InputError(f"{where} must be a JSON object. Received: {type(record).__name__}")
        if text_field not in record:
            raise InputError(f"{where} has no field {text_field!r}. It has: {', '.join(map(repr, record)) or 'none'}")
        if not isinstance(record[text_field], str):
            kind = type(record[text_field]).__name__
            raise InputError(f"{where}: the field {text_field!r} must be a string. Received: {kind}")
        yield _without_lone_surrogates(record[text_field])


def _without_lone_surrogates(text: str) -> str:
    r"""Puts U+FFFD for half of a surrogate pair, which JSON can write but UTF-8 cannot.

    >>> _without_lone_surrogates("cut \ud83d") == "cut \ufffd"
    True
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _documents_of_texts(texts: Iterable[str]) -> Iterator[list[str]]:
    for text in texts:
        # Blank lines part the paragraphs of a record; they do not end the document.
        yield from _group_lines(line for line in text.split("\n") if line.strip())


def _group_lines(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yields lists of stripped lines, parted where a line is blank.

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
