"""Reads a column that a user passes: a list, an array, a tensor, a column of a table."""

import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError

# The methods that turn columns of pyarrow; of pandas, polars and ragged tensors; of NumPy, torch and JAX into lists.
_LIST_METHODS = ("to_pylist", "to_list", "tolist")


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
