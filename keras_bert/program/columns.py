"""Reads a column that a user passes: a list, an array, a tensor, a column of a table; and finds missing values."""

import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError

# The methods that turn columns of pyarrow; of pandas, polars and ragged tensors; of NumPy, torch and JAX into lists.
_LIST_METHODS = ("to_pylist", "to_list", "tolist")
# pandas' own kinds of missing values, which are not even equal to themselves.
_PANDAS_KINDS = ("NAType", "NaTType")
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


def is_float32(value: Any) -> bool:
    """Returns whether a value is a finite number that 32 bits can hold. Bool, 1e300 and NaN are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and abs(value) <= _LARGEST_FLOAT32


def as_column(values: Any) -> Any:
    """Returns what can be turned into a list as one, a single string as a list of one, and other values as they are."""
    if isinstance(values, (str, bytes)):
        return [values]
    method = next((method for method in _LIST_METHODS if hasattr(values, method)), None)
    if method and not isinstance(values, np.generic):
        return getattr(values, method)()
    return np.asarray(values.numpy()).tolist() if hasattr(values, "numpy") else values


def checked_column(values: Any, name: str) -> Iterable:
    """Returns a column as something to iterate over.

    Args:
        values: list, tuple, generator, array, tensor, or a column of a table (pandas, polars, pyarrow, Hugging Face
            datasets). A single string is a column of one.
        name: what the values are, in the plural.

    Raises:
        InputError: it is nothing like a column, or has no order, as a set.
    """
    names = getattr(values, "column_names", getattr(values, "columns", None))
    if names is not None:
        raise InputError(
            f"{name} must be a list. Received a table with the columns {', '.join(map(str, names))}. Give one of them: "
            f"table[{str(next(iter(names), 'text'))!r}]."
        )
    column = as_column(values)
    if isinstance(column, (set, frozenset)):
        raise InputError(f"{name} must be a list. Received a set, which has no order: {values!r:.100}")
    if isinstance(column, (str, bytes, Mapping)) or not isinstance(column, Iterable):
        raise InputError(f"{name} must be a list. Received: {values!r:.100}")
    return column


def as_mapping(values: Any, name: str) -> Mapping | None:
    """Returns a dictionary, or a Series of pandas as a dictionary from its index to its values; None for all else.

    >>> as_mapping({"a": 1}, "weights"), as_mapping([1], "weights")
    ({'a': 1}, None)

    Raises:
        InputError: the index of a Series has an entry twice; `name` says what the Series is.
    """
    if not hasattr(values, "iloc") or values.ndim != 1:
        return values if isinstance(values, Mapping) else None
    if not values.index.is_unique:
        twice = values.index[values.index.duplicated()][0]
        raise InputError(f"{name} has two values for {twice!r}. Received a Series whose index has it twice.")
    return values.to_dict()


class MissingValue(InputError):
    """A value of a row is missing. Readers count such rows and report all of them at once."""


class MissingColumn(MissingValue):
    """A row does not name a value. If none of the rows does, there is no such column."""


def is_missing(value: Any, may_be_blank: bool = False) -> bool:
    """Returns whether a value is missing, or one of a list of texts is.

    >>> [is_missing(value) for value in (None, float("nan"), " ", ["a", ""], [], 0, "a")]
    [True, True, True, True, False, False, False]

    Args:
        may_be_blank: whether texts of white space only count as texts.
    """
    if isinstance(value, str):
        return not may_be_blank and not value.strip()
    if isinstance(value, list):
        missing = [is_missing(one, may_be_blank) for one in value]
        return any(missing) and all(isinstance(one, str) or gone for one, gone in zip(value, missing, strict=True))
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ in _PANDAS_KINDS


def missing_message(source: str, count: int, total: int, first: str, advice: str) -> str:
    """Returns the message about missing values.

    Args:
        source: what has them; the first words of the message.
        count, total: the numbers of rows with missing values, and of all rows.
        first: the place of the first one and what it has.
        advice: what to do.
    """
    return f"{source}: {count:,} of {total:,} rows have no value where one is needed. The first is {first}. {advice}"


def skipped_note(source: str, count: int, total: int) -> str:
    """Returns the note about rows that were left out."""
    return f"{source}: {count:,} of {total:,} rows were left out, because a value is missing."
