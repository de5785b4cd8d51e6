"""Writes the rows of a Parquet, Arrow or Feather file as JSON Lines to standard output; `column_files.py` runs it.

The file may come from a stranger, and pyarrow's C++ code trusts much of what it declares. So it is read in this process
of its own, whose memory and processor time the operating system limits: the worst that a file can do is to end it.

    python -P column_file_reader.py PATH [COLUMN]

Each line is a list: the bytes of the file read so far, and a dictionary with the values of a row. Values that JSON does
not have are strings; binary values are text if they are UTF-8, or else null. Exit code 2 and a line on standard error
mean that the file is refused.
"""

import json
import math
import os
import sys

# Bytes of address space; pyarrow itself takes 0.3 GB.
MOST_MEMORY = 2 << 30
# Seconds of processor time without a row.
_MOST_SECONDS = 60
_ROWS_AT_ONCE = 256
_LONGEST_LINE = 256_000_000
# A small file may stand for much text: a repeated value is stored once.
_FREELY_WRITTEN = 1 << 30
_MOST_EXPANSION = 200


class Refused(Exception):
    """The file cannot be used; the message says why."""


def main(path: str, column: str | None = None) -> None:
    _limit_time()
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    except (ImportError, ValueError, OSError):  # on Windows, and where it cannot be limited
        pass
    size, written = os.path.getsize(path), 0
    for position, rows in _batches(path, size, column):
        for row in rows:
            line = json.dumps([position, row], default=str).encode("utf-8", "replace") + b"\n"
            written += len(line)
            if len(line) > _LONGEST_LINE:
                raise Refused(f"a row has more than {_LONGEST_LINE:,} bytes")
            if written > _FREELY_WRITTEN + _MOST_EXPANSION * size:
                raise Refused(f"its {size:,} bytes stand for more than {_FREELY_WRITTEN:,} bytes of text")
            sys.stdout.buffer.write(line)
        _limit_time()
    sys.stdout.buffer.flush()


def _batches(path: str, size: int, column: str | None):
    """Yields, for a few rows at a time, the bytes of the file read so far and the rows."""
    import pyarrow as pa

    with pa.OSFile(path) as source:
        schema, read = _open_parquet(source, size) if path.lower().endswith(".parquet") else _open_arrow(source)
        names, class_names = _readable_columns(schema, column), _class_names(schema)
        for position, batch in _with_end(read(names), size):
            columns = [_values(batch.column(name), class_names.get(name)) for name in names]
            yield position, (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def _with_end(batches, size: int):
    """Gives the last batch the size of the file as its position."""
    last = None
    for position, batch in batches:
        if last is not None:
            yield last
        last = position, batch
    if last is not None:
        yield size, last[1]


def _open_parquet(source, size: int):
    """Returns the schema, and a function that yields (position, batch) for some columns."""
    import pyarrow.parquet

    # With buffered reading, one page of each column is in memory instead of a row group.
    file = pyarrow.parquet.ParquetFile(source, pre_buffer=False, buffer_size=1 << 20)
    schema, num_rows = file.schema_arrow, max(1, file.metadata.num_rows)

    def read(names):
        done = 0
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=names, use_threads=False):
            done += batch.num_rows
            yield size * done // num_rows, batch

    return schema, read


def _open_arrow(source):
    """As `_open_parquet`, for the file form of Arrow, which Feather has too, and for its streaming form."""
    import pyarrow.ipc

    begin = source.read(6)
    source.seek(0)
    if begin[:4] == b"FEA1":
        raise Refused("it is a file of the first version of Feather. Write it again with a current pyarrow")
    if begin == b"ARROW1":
        reader = pyarrow.ipc.open_file(source)
        batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
    else:
        batches = reader = pyarrow.ipc.open_stream(source)

    def read(names):
        for batch in batches:
            batch.validate(full=True)
            position = source.tell()
            for first in range(0, batch.num_rows, _ROWS_AT_ONCE):
                yield position, batch.slice(first, _ROWS_AT_ONCE)

    return reader.schema, read


def _readable_columns(schema, column: str | None) -> list[str]:
    """Returns the names of the columns to read: `column`, or all but those of images and sounds."""
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise Refused(f"it has several columns named {twice!r}")
    if column is None:
        return [field.name for field in schema if not field.type.num_fields or "binary" not in str(field.type)]
    if column not in schema.names:
        raise Refused(f"it has no column {column!r}. It has: {', '.join(map(repr, schema.names)) or 'none'}")
    return [column]


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
    except (TypeError, KeyError, ValueError, AttributeError):
        return {}


def _named(value, names: list[str] | None):
    """Returns the names for the numbers of classes; numbers without a name, such as -1, are kept."""
    if names is None:
        return value
    if isinstance(value, list):
        return [_named(one, names) for one in value]
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else value


def _values(column, class_names: list[str] | None) -> list:
    """Returns the values of a column as JSON has them."""
    import pyarrow as pa

    if pa.types.is_temporal(column.type):  # pyarrow needs pandas for nanoseconds
        column = column.cast(pa.string())
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
    return value


def _limit_time() -> None:
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used.ru_utime + used.ru_stime) + _MOST_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (soft if most == resource.RLIM_INFINITY else min(soft, most), most))


def _end(message) -> None:
    print(message, file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Refused as error:
        _end(error)
    except MemoryError:
        _end(
            f"it is damaged, or reading it takes more than {MOST_MEMORY >> 30} GB of memory. Then write it with "
            "smaller row groups or batches"
        )
    except BrokenPipeError:
        os._exit(1)
    except Exception as error:  # pyarrow raises errors of many kinds for a damaged file
        _end(f"it is damaged or of another kind ({' '.join(str(error).split())[:200]})")
