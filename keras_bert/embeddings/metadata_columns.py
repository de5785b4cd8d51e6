"""Columns of metadata, a value for each text: checks, filters, and limits of their files."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import as_list, checked_text

Columns = dict[str, np.ndarray]
# A column -> the value that it must have; or a function of all columns that returns a mask.
Where = Mapping[str, Any] | Callable[[Columns], np.ndarray]

_KINDS = {"U": "strings", "i": "whole numbers", "f": "numbers", "b": "truth values"}
_TYPES: dict[str, type | tuple[type, ...]] = {"U": str, "i": int, "f": (float, int), "b": bool}
_DTYPES = {"i": np.int64, "f": np.float64, "b": np.bool_}
# Bytes of a column. NumPy stores every string with the length of the longest one, 4 bytes a character.
LARGEST_COLUMN = 1 << 30


def checked_columns(metadata: Any, num_texts: int) -> Columns:
    """Returns metadata as arrays of one of four kinds: `str`, int64, float64 or bool.

    Args:
        metadata: the name of each column -> a list or an array with a value for each text.
        num_texts: how many these are.

    Raises:
        InputError: it is no such dictionary, a column has another length, values of another or of several kinds, or
            takes more than 1 GiB.
    """
    if not isinstance(metadata, Mapping):
        raise InputError(f"metadata must be a dictionary: column -> list. Received: {type(metadata).__name__}")
    columns = {}
    for name, given in metadata.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"The name of a column of metadata must be a string. Received: {name!r:.100}")
        values = as_list(given, f"metadata[{name!r}]")
        if len(values) != num_texts:
            raise InputError(
                f"The column {name!r} of the metadata must have a value for each of the {num_texts:,} texts. Received: "
                f"{len(values):,} values"
            )
        columns[name] = _array_of(values, name)
    return columns


def joined_columns(columns: Columns, added: Columns) -> Columns:
    """Returns the columns of earlier and of new texts as one.

    Raises:
        InputError: they have other names or kinds, or a column takes more than 1 GiB.
    """
    if columns.keys() != added.keys():
        raise InputError(
            f"The metadata of the index has the columns: {', '.join(columns) or 'none'}. Received: "
            f"{', '.join(added) or 'none'}. Give the same."
        )
    joined = {}
    for name, column in columns.items():
        new = added[name]
        if column.dtype.kind == "f" and new.dtype.kind == "i":
            new = new.astype(np.float64)
        if column.dtype.kind != new.dtype.kind:
            raise InputError(
                f"The column {name!r} of the index has {_KINDS[column.dtype.kind]}. Received: {_KINDS[new.dtype.kind]}"
            )
        _check_size(name, (len(column) + len(new)) * max(column.itemsize, new.itemsize))
        joined[name] = np.concatenate([column, new])
    return joined


def mask_of(where: Where, columns: Columns, num_rows: int) -> np.ndarray:
    """Returns which rows a filter keeps, bool [rows].

    Raises:
        InputError: it names no column, or a value of another kind than the column's; or a function returns no mask.
    """
    if callable(where):
        mask = where(dict(columns))
        if getattr(mask, "dtype", None) != np.bool_ or np.shape(mask) != (num_rows,):
            found = f"{mask.dtype} {list(mask.shape)}" if isinstance(mask, np.ndarray) else type(mask).__name__
            raise InputError(
                f"where must return a mask: a bool array [{num_rows}], a value for each row. Received: {found}"
            )
        return np.array(mask)  # a copy, since the function may keep it and change it
    if not isinstance(where, Mapping) or not where:
        raise InputError(f"where must be a dictionary, column -> value, or a function. Received: {where!r:.100}")
    mask = np.ones(num_rows, bool)
    for name, value in where.items():
        column = _column(columns, name)
        value = value.item() if isinstance(value, np.generic) else value
        if not _is_of_kind(value, column.dtype.kind):
            raise InputError(f"The column {name!r} has {_KINDS[column.dtype.kind]}. Received: {value!r:.100}")
        try:
            mask &= column == value
        except OverflowError:  # a whole number that no float64 reaches, so no value equals it
            mask[:] = False
    return mask


def condition_of(text: str, columns: Columns) -> tuple[str, Any]:
    """Returns the column and the value of a condition on the command line, such as `year=2020`.

    Raises:
        InputError: it is no condition, or its value is not of the column's kind.
    """
    name, mark, value = text.partition("=")
    if not mark:
        raise InputError(f"A condition is written column=value. Received: {text!r:.100}")
    kind = _column(columns, name).dtype.kind
    try:
        if kind == "b":
            return name, {"true": True, "false": False}[value.lower()]
        return name, {"U": str, "i": int, "f": float}[kind](value)
    except (ValueError, KeyError):
        raise InputError(f"The column {name!r} has {_KINDS[kind]}. Received: {value!r:.100}") from None


def check_stored_column(column: np.ndarray, num_rows: int) -> np.ndarray:
    """Returns a column that was mapped from a file. Raises `ValueError` if it is none of `num_rows` values."""
    kind = column.dtype.kind
    if kind not in _KINDS or column.shape != (num_rows,) or column.dtype != _DTYPES.get(kind, column.dtype):
        raise ValueError(f"a column of {column.dtype} {list(column.shape)} for {num_rows} texts")
    if kind == "U" and num_rows and column.itemsize:
        # Python refuses to read such a string, but only when it is read.
        points = np.frombuffer(np.ascontiguousarray(column), column.dtype.byteorder.replace("=", "<") + "u4")
        if points.max() > sys.maxunicode:
            raise ValueError(f"a column of texts has the code point U+{points.max():X}")
    return column


def _column(columns: Columns, name: Any) -> np.ndarray:
    if name not in columns:
        raise InputError(f"The metadata has no column {name!r:.100}. It has: {', '.join(columns) or 'none'}")
    return columns[name]


def _is_of_kind(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "b" or not isinstance(value, bool))


def _array_of(values: list, name: str) -> np.ndarray:
    kind = next((kind for kind in "Ubif" if all(_is_of_kind(value, kind) for value in values)), None)
    if kind is None:
        types = sorted({type(value).__name__ for value in values})
        raise InputError(
            f"The column {name!r} of the metadata must have strings, whole numbers, numbers or truth values, all of "
            f"one kind and none missing. Received: {', '.join(types)}"
        )
    if kind == "U":
        for number, value in enumerate(values, start=1):
            if checked_text(value, f"value {number} of the column {name!r}").endswith("\0"):
                raise InputError(f"Value {number} of the column {name!r} ends with a zero byte. Remove it.")
        _check_size(name, 4 * len(values) * max(map(len, values), default=0))
        return np.array(values, dtype=np.str_)
    try:
        return np.array(values, _DTYPES[kind])
    except OverflowError:
        raise InputError(f"The column {name!r} of the metadata has a whole number of more than 64 bits.") from None


def _check_size(name: str, num_bytes: int) -> None:
    if num_bytes > LARGEST_COLUMN:
        raise InputError(
            f"The column {name!r} of the metadata takes {num_bytes:,} bytes, since every string takes as much as the "
            f"longest one; {LARGEST_COLUMN:,} are allowed. Keep long texts elsewhere, by their ids."
        )
