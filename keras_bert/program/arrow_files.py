"""Arrow files, also of strangers: they are mapped into memory and checked, not copied."""

import os
from typing import Any

import numpy as np

from keras_bert.program.atomic_output import atomic_named_file, explain_write_errors
from keras_bert.program.errors import InputError, how_to_install

try:
    import pyarrow as pa
    import pyarrow.compute as pc  # noqa: F401  # an attribute of `pa` from now on
except ImportError:
    raise InputError(f"An index or a table of texts needs pyarrow. {how_to_install('search')}") from None


def as_mask(mask: Any) -> Any:
    """Returns truth values as an array of Arrow, without pandas, which `pyarrow.array` imports if it is installed."""
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, bits])


def write_table(path: str, table: Any) -> None:
    """Writes a new Arrow file, uncompressed."""
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def write_parquet(path: str | os.PathLike, table: Any) -> None:
    """Writes a file of Parquet, which appears whole or not at all. Raises `InputError` if it cannot be written."""
    from pyarrow import parquet

    with atomic_named_file(path) as temporary, explain_write_errors(path):
        parquet.write_table(table, temporary)


def map_table(path: str | os.PathLike) -> Any:
    """Maps the table of an Arrow file: strings, numbers, truth values, and lists of one size with float32.

    pyarrow verifies the structure of the file, and here the lengths, the offsets and the UTF-8 of all values. The file
    must not be changed in place while it is used.

    Raises:
        ValueError: the file is missing or damaged, has columns of other types or two of one name, nulls, or compressed
            buffers, which could expand to any size.
    """
    try:
        source = pa.memory_map(os.fspath(path))
        reader = pa.ipc.open_file(source)
        names = reader.schema.names
        wrong = next((field for field in reader.schema if not _is_plain(field.type)), None)
        if wrong is not None:
            raise ValueError(f"the column {wrong.name!r} has the type {wrong.type!s:.60}")
        if len(set(names)) < len(names):
            raise ValueError(f"two columns have one name: {', '.join(names)}")
        _check_uncompressed(source)
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        for batch in batches:
            batch.validate(full=True)
            for name, column in zip(names, batch.columns, strict=True):
                if column.null_count or (_is_list(column.type) and column.flatten().null_count):
                    raise ValueError(f"the column {name!r} has nulls")
        return pa.Table.from_batches(batches, reader.schema)
    except Exception as error:  # pyarrow raises errors of many kinds for a damaged file
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{os.path.basename(os.fspath(path))}: {reason}") from None


def _is_list(type: Any) -> bool:
    return pa.types.is_fixed_size_list(type) and pa.types.is_float32(type.value_type) and type.list_size > 0


def _is_plain(type: Any) -> bool:
    is_number = pa.types.is_integer(type) or pa.types.is_float32(type) or pa.types.is_float64(type)
    is_string = pa.types.is_string(type) or pa.types.is_large_string(type)
    return is_number or is_string or pa.types.is_boolean(type) or _is_list(type)


def _check_uncompressed(source: Any) -> None:
    """Raises `ValueError` if a batch of a file, which pyarrow has opened and so has verified, is compressed.

    Reference: File.fbs and Message.fbs of Apache Arrow. The footer lists blocks of 24 bytes, which begin with the place
    of a message; the header of a message, a batch, has the field `compression`.
    """
    # Only now, since few need it.
    from flatbuffers.number_types import Int64Flags
    from flatbuffers.table import Table

    def root(content: bytes) -> Table:
        return Table(content, int.from_bytes(content[:4], "little"))

    def field(table: Table, number: int) -> int:
        return table.Offset(4 + 2 * number)

    end = source.size() - 10  # behind it: the length of the footer, and ARROW1
    length = int.from_bytes(source.read_at(4, end), "little")
    footer = root(source.read_at(length, end - length))
    blocks = field(footer, 3)
    for number in range(footer.VectorLen(blocks) if blocks else 0):
        source.seek(footer.Get(Int64Flags, footer.Vector(blocks) + 24 * number))
        message = root(pa.ipc.read_message(source).metadata.to_pybytes())
        if field(Table(message.Bytes, message.Indirect(message.Pos + field(message, 2))), 3):
            raise ValueError("its buffers are compressed. Write it again without compression")
