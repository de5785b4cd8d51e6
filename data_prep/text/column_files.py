"""Reads the rows of Parquet, Arrow and Feather files, also of files from strangers.

pyarrow checks the structure that a file declares. This module bounds the lists and strings of the footer, and what a
file may expand to. A few rows at a time are in memory.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from data_prep.text.remote_files import is_remote, local_copy, open_remote
from keras_bert.program.errors import InputError

COLUMN_SUFFIXES = (".parquet", ".arrow", ".feather")

_ROWS_AT_ONCE = 256
# Bytes of a string and length of a list in the footer of a Parquet file.
_LONGEST_FOOTER_STRING = 100_000_000
_LONGEST_FOOTER_LIST = 1_000_000
# A small file may stand for much text: a repeated value is stored once.
_FREELY_EXPANDED = 1 << 30
_MOST_EXPANSION = 200


def is_column_file(path: str) -> bool:
    """Returns whether a name is that of a Parquet, Arrow or Feather file."""
    return path.lower().endswith(COLUMN_SUFFIXES)


def read_column_file(
    path: str, columns: Sequence[str] | None = None, open_file: Callable[[str], BinaryIO] = open_remote
) -> Iterator[tuple[dict[str, Any], int]]:
    """Yields the rows of a file one by one, each with the number of bytes of the file read so far.

    Values are those that JSON has. Dates and decimal numbers are strings; so are binary values, or None if they are not
    UTF-8. Classes are given by name if the file has their names, as `datasets` stores them. Images and sounds are left
    out.

    Args:
        path: a file on disk or a URL whose name ends in one of `COLUMN_SUFFIXES`. The file of a URL is first copied to
            this machine, by `open_file`.
        columns: the columns to read; by default all.

    Raises:
        InputError: there is no file or no such column, pyarrow is missing, or the file is damaged, is cut off or
            expands to too much.
    """
    if not is_remote(path) and not os.path.isfile(path):
        raise InputError(f"There is no file {path}.")
    try:
        import pyarrow as pa
    except ImportError:
        raise InputError(
            f"{path}: Parquet, Arrow and Feather files need the package pyarrow: pip install pyarrow, or the extra "
            "'parquet' of this package."
        ) from None
    with local_copy(path, open_file) as file:
        try:
            with pa.OSFile(file) as source:
                yield from _rows(source, path.lower().endswith(".parquet"), columns)
        except _Refused as error:
            raise InputError(f"{path} cannot be read: {error}.") from None
        except MemoryError:
            raise InputError(
                f"{path} cannot be read: it is damaged, or a few of its rows need more memory than there is. Write it "
                "with smaller row groups or batches."
            ) from None
        except Exception as error:  # pyarrow raises errors of many kinds for a damaged file
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"{path} cannot be read: it is damaged or of another kind ({reason}).") from None


class _Refused(Exception):
    """The file cannot be used; the message says why."""


def _rows(source, is_parquet: bool, wanted: Sequence[str] | None) -> Iterator[tuple[dict[str, Any], int]]:
    size, num_bytes = source.size(), 0
    schema, read = _open_parquet(source, size) if is_parquet else _open_arrow(source, size)
    names, class_names = _readable_columns(schema, wanted), _class_names(schema)
    for position, batch in read(names):
        columns = [_decoded(batch.column(name)) for name in names]
        num_bytes += sum(values.nbytes for values in columns)
        if num_bytes > _FREELY_EXPANDED + _MOST_EXPANSION * size:
            raise _Refused(f"its {size:,} bytes stand for more than {_FREELY_EXPANDED:,} bytes")
        values = [_values(*one) for one in zip(columns, map(class_names.get, names), strict=True)]
        for row in zip(*values, strict=True):
            yield dict(zip(names, row, strict=True)), position


def _open_parquet(source, size: int):
    """Returns the schema, and a function that yields (position, batch) for some columns."""
    import pyarrow.parquet

    # With buffered reading, one page of each column is in memory instead of a row group.
    file = pyarrow.parquet.ParquetFile(
        source,
        pre_buffer=False,
        buffer_size=1 << 20,
        thrift_string_size_limit=_LONGEST_FOOTER_STRING,
        thrift_container_size_limit=_LONGEST_FOOTER_LIST,
    )
    num_rows = max(1, file.metadata.num_rows)

    def read(names):
        done = 0
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=names, use_threads=False):
            done += batch.num_rows
            yield size * done // num_rows, batch

    return file.schema_arrow, read


def _open_arrow(source, size: int):
    """As `_open_parquet`, for the file form of Arrow, which Feather has too, and for its streaming form."""
    import pyarrow.ipc

    begin = source.read(6)
    source.seek(0)
    if begin[:4] == b"FEA1":
        raise _Refused("it is a file of the first version of Feather. Write it again with a current pyarrow")
    if begin == b"ARROW1":
        reader = pyarrow.ipc.open_file(source)
        number = reader.num_record_batches
        batches = ((size * (place + 1) // number, reader.get_batch(place)) for place in range(number))
    else:
        reader = pyarrow.ipc.open_stream(source)
        batches = ((source.tell(), batch) for batch in reader)

    def read(names):
        for position, batch in batches:
            batch.validate(full=True)
            for first in range(0, batch.num_rows, _ROWS_AT_ONCE):
                yield position, batch.slice(first, _ROWS_AT_ONCE)

    return reader.schema, read


def _readable_columns(schema, columns: Sequence[str] | None) -> list[str]:
    """Returns the names of the columns to read: `columns`, or all but those of images and sounds."""
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise _Refused(f"it has several columns named {twice!r}")
    if columns is None:
        return [field.name for field in schema if not field.type.num_fields or "binary" not in str(field.type)]
    if missing := [name for name in columns if name not in schema.names]:
        raise _Refused(f"it has no column {missing[0]!r}. It has: {', '.join(map(repr, schema.names)) or 'none'}")
    return list(columns)


def _class_names(schema) -> dict[str, list[str]]:
    """Returns the names of the classes of columns, as `datasets` stores them in the metadata."""
    try:
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        found = {}
        for name, feature in features.items():
            feature = feature.get("feature", feature)  # that of a list
            if feature.get("_type") == "ClassLabel" and all(isinstance(label, str) for label in feature["names"]):
                found[name] = feature["names"]
        return found
    except (TypeError, KeyError, ValueError, AttributeError, RecursionError):
        return {}


def _named(value, names: list[str] | None):
    """Returns the names for the numbers of classes; numbers without a name, such as -1, are kept."""
    if names is None:
        return value
    if isinstance(value, list):
        return [_named(one, names) for one in value]
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else value


def _decoded(column):
    """Returns a column without a dictionary of values, and moments as text: pyarrow needs pandas for nanoseconds."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.string()) if pa.types.is_temporal(column.type) else column


def _values(column, class_names: list[str] | None) -> list:
    """Returns the values of a column as JSON has them."""
    return [_named(_plain(value), class_names) for value in column.to_pylist()]


def _plain(value):
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return None
    return str(value)
