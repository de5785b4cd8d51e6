"""Reads text from files, folders, patterns and tensorflow_datasets, one document at a time.

A text file has one sentence or paragraph per line and a blank line between documents. In JSON Lines, Parquet, Arrow and
tensorflow_datasets, a record is a document, and line breaks in its text separate paragraphs.
"""

import glob
import itertools
import os
import posixpath
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from data_prep.text import tfds_text
from data_prep.text.column_files import COLUMN_SUFFIXES, is_column_file, read_column_file
from data_prep.text.remote_files import is_remote, remote_names, remote_size
from data_prep.text.text_chunks import JSON_SUFFIXES, TextChunk, read_chunks, texts_in_chunks
from data_prep.text.text_lines import open_file as open_any_file
from data_prep.text.text_lines import without_lone_surrogates
from keras_bert.program.errors import InputError

# The files that are read from a folder. Files without a suffix are included: WikiExtractor writes `AA/wiki_00`.
_SUFFIXES = (".txt", ".gz", *JSON_SUFFIXES, *COLUMN_SUFFIXES)


def read_documents(
    patterns: str | Sequence[str],
    *,
    text_field: str = "text",
    tfds_data_dir: str | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[list[str]]:
    """Reads documents one at a time, in an order that depends on the names only.

    Args:
        patterns: a file, folder (with all its subfolders), glob, or `tfds:NAME[/CONFIG][:VERSION][@SPLIT]`; one,
            several separated by commas, or a sequence. A file that matches several of them is read once. Files ending
            in `.gz` are decompressed; `.jsonl` and `.jsonl.gz` are JSON Lines, `.parquet`, `.arrow` and `.feather` are
            tables; everything else is text. Files, folders and globs may be URLs such as gs://, see `remote_files.py`.
        text_field: the field with the text, in JSON Lines, tables and tensorflow_datasets.
        tfds_data_dir: the data folder of tensorflow_datasets; None for its default.
        on_progress: called from time to time with the number of bytes read since the last call. The sum over all calls
            is `input_size(patterns)`.

    Returns:
        An iterator over documents, each a list of stripped, non-empty lines. A document with more than 4 million
        characters is returned in several parts.

    Raises:
        InputError: at the call, nothing matches a pattern; while reading, a file is empty, binary, not UTF-8, not valid
            gzip or JSON Lines, or has no such field.

    Example:
        list(read_documents("two_documents.txt"))
        -> [['First line.', 'Second line.'], ['Another document.']]
    """
    chunks = read_text_chunks(patterns, text_field=text_field, tfds_data_dir=tfds_data_dir)
    return _documents_of(chunks, TextCheck(patterns), on_progress or (lambda num_bytes: None))


def _documents_of(chunks: Iterator[TextChunk], check: "TextCheck", on_progress) -> Iterator[list[str]]:
    for chunk in chunks:
        num_documents = 0
        for document in chunk.documents():
            num_documents += 1
            yield document
        check.add(chunk.source, num_documents, chunk.is_last)
        on_progress(chunk.source_bytes)
    check.finish()


def read_text_chunks(
    patterns: str | Sequence[str], *, text_field: str = "text", tfds_data_dir: str | None = None
) -> Iterator[TextChunk]:
    """Reads the same text in chunks of about 2 MB, which other processes can split into documents.

    Raises `InputError` as `read_documents`; errors inside a chunk are raised by `TextChunk.documents`.
    """
    sources = list_sources(patterns)
    for name in sources:
        if tfds_text.is_tfds_name(name):
            tfds_text.check_name(name)
    chunks = (read_source_chunks(source, text_field, tfds_data_dir=tfds_data_dir) for source in sources)
    return itertools.chain.from_iterable(chunks)


def read_source_chunks(
    source: str,
    text_field: str,
    *,
    tfds_data_dir: str | None = None,
    open_file: Callable[[str], BinaryIO] = open_any_file,
) -> Iterator[TextChunk]:
    """Reads one of `list_sources` in chunks; `open_file` as in `read_chunks`."""
    if tfds_text.is_tfds_name(source):
        return texts_in_chunks(source, tfds_text.read_texts(source, text_field, tfds_data_dir))
    if is_column_file(source):
        return texts_in_chunks(source, _texts_of_rows(source, text_field, open_file))
    return read_chunks(source, text_field, open_file)


def _texts_of_rows(source: str, text_field: str, open_file: Callable[[str], BinaryIO]) -> Iterator[tuple[str, int]]:
    """Yields the text of each row and the bytes that were read for it."""
    before = 0
    for number, (row, position) in enumerate(read_column_file(source, [text_field], open_file), start=1):
        text = row[text_field]
        if not isinstance(text, str):
            raise InputError(f"{source}: row {number}: the column {text_field!r} must be a string. Received: {text!r}")
        yield without_lone_surrogates(text), position - before
        before = position


class TextCheck:
    """Detects sources without text while their documents are counted, chunk by chunk.

    An empty file that the user named is an error; an empty file of a folder or pattern is not.
    """

    def __init__(self, patterns: str | Sequence[str]):
        self._named = {os.path.expanduser(pattern) for pattern in split_patterns(patterns)}
        self._num_in_source = 0
        self._sources = []
        self._found_any = False

    def add(self, source: str, num_documents: int, is_last: bool) -> None:
        """Counts the documents of a source's next chunk. Raises `InputError` at the end of a named, empty source."""
        self._num_in_source += num_documents
        if is_last:
            if not self._num_in_source and source in self._named:
                raise InputError(f"{source} is empty: it has no line of text. Give another file.")
            self._found_any = self._found_any or self._num_in_source > 0
            self._num_in_source = 0
            self._sources.append(source)

    def finish(self) -> None:
        """Raises `InputError` if no source has any text."""
        if not self._found_any:
            raise InputError(
                f"None of the {len(self._sources)} input files has a line of text. The first is {self._sources[0]}"
            )


def list_sources(patterns: str | Sequence[str]) -> list[str]:
    """Returns the files and `tfds:` names that match `patterns`, in reading order, each once.

    Raises `InputError` if nothing matches a pattern.
    """
    found = {}
    for pattern in split_patterns(patterns):
        for name in _expand(pattern):
            is_local = not tfds_text.is_tfds_name(name) and not is_remote(name)
            found.setdefault(os.path.realpath(name) if is_local else name, name)
    return list(found.values())


def input_size(patterns: str | Sequence[str], *, tfds_data_dir: str | None = None) -> int:
    """Returns the total number of bytes that reading `patterns` reports to `on_progress`: the sizes on disk."""
    return sum(source_size(name, tfds_data_dir) for name in list_sources(patterns))


def source_size(name: str, tfds_data_dir: str | None = None) -> int:
    """Returns the size in bytes of one file, or of one data set of tensorflow_datasets."""
    if tfds_text.is_tfds_name(name):
        return tfds_text.size_in_bytes(name, tfds_data_dir)
    return remote_size(name) if is_remote(name) else os.path.getsize(name)


def as_patterns(input_file: str | os.PathLike | Sequence[str | os.PathLike] | None) -> list[str]:
    """Returns the individual names and patterns; an empty list for None.

    >>> as_patterns("a.txt, b/*.txt"), as_patterns(["a.txt"])
    (['a.txt', 'b/*.txt'], ['a.txt'])
    """
    if isinstance(input_file, str):
        input_file = input_file.split(",")
    elif isinstance(input_file, os.PathLike):
        input_file = [input_file]
    return [os.fspath(name).strip() for name in input_file or () if os.fspath(name).strip()]


def split_patterns(patterns: str | os.PathLike | Sequence[str | os.PathLike]) -> list[str]:
    """Returns the individual patterns. Raises `InputError` if there is none."""
    patterns = as_patterns(patterns)
    if not patterns:
        raise InputError("No input was given. Name a text file, a folder, a pattern like 'texts/*.txt', or tfds:NAME.")
    return patterns


def _expand(pattern: str) -> list[str]:
    """Returns the files of one pattern, sorted."""
    if tfds_text.is_tfds_name(pattern):
        return [pattern]
    if is_remote(pattern):
        names = remote_names(pattern)
        if names != [pattern] and not glob.has_magic(pattern):
            names = [name for name in names if _is_text(posixpath.basename(name))]
        if not names:
            raise InputError(f"No text file matches {pattern}. Check the name.")
        return names
    path = os.path.expanduser(pattern)
    if os.path.isdir(path):
        return _files_in_folder(path)
    if os.path.exists(path):
        return [path]
    if not glob.has_magic(path):
        raise InputError(f"There is no file or folder {pattern}.")
    names = []
    for name in sorted(glob.glob(path, recursive=True)):
        names.extend(_files_in_folder(name, may_be_empty=True) if os.path.isdir(name) else [name])
    if not names:
        raise InputError(f"No file matches the pattern {pattern}. Check the name.")
    return names


def _is_text(name: str) -> bool:
    """Returns whether a file of a folder is read."""
    return not name.startswith((".", "_")) and (name.lower().endswith(_SUFFIXES) or "." not in name)


def _files_in_folder(folder: str, may_be_empty: bool = False) -> list[str]:
    names, others = [], []
    seen = set()
    for parent, folders, files in os.walk(folder, followlinks=True):
        # A link to a parent folder would be followed forever.
        seen.add(os.path.realpath(parent))
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and os.path.realpath(os.path.join(parent, name)) not in seen
        )
        for name in files:
            if not name.startswith((".", "_")):
                (names if _is_text(name) else others).append(os.path.join(parent, name))
    if not names and not may_be_empty:
        holds = f"It holds {', '.join(sorted(map(os.path.basename, others))[:3])}" if others else "It is empty"
        raise InputError(f"The folder {folder} has no file named *.txt, *.gz, *.jsonl or *.parquet. {holds}.")
    return sorted(names)
