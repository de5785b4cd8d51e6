"""Reads a column that a user passes: a list, an array, a tensor, a column of a table."""

import numbers
from collections.abc import Iterable, KeysView, Mapping, Set
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


def as_mapping(values: Any) -> dict | None:
    """Returns a dictionary, or a Series of pandas by its index, as a dictionary; None for what has no names.

    Raises:
        InputError: a Series has two values for one label.
    """
    if isinstance(values, Mapping):
        return dict(values)
    if not (hasattr(values, "index") and hasattr(values, "to_dict") and getattr(values, "ndim", None) == 1):
        return None
    if not values.index.is_unique:
        raise InputError(f"A Series has two values for one label of its index. Received: {list(values.index)!r:.200}")
    return values.to_dict()


def checked_column(values: Any, name: str) -> Iterable:
    """Returns a column as something to iterate over.

    Args:
        values: list, tuple, generator, array, tensor, or a column of a table (pandas, polars, pyarrow, Hugging Face
            datasets). A single string is a column of one.
        name: what the values are, in the plural.

    Raises:
        InputError: it is nothing like a column.
    """
    names = getattr(values, "column_names", getattr(values, "columns", None))
    if names is not None:
        raise InputError(
            f"{name} must be a list. Received a table with the columns {', '.join(map(str, names))}. Give one of them: "
            f"table[{str(next(iter(names), 'text'))!r}]."
        )
    column = as_column(values)
    if isinstance(column, Set) and not isinstance(column, KeysView):
        raise InputError(f"{name} must be a list. Received a set, which has no order. Give sorted(...) of it.")
    if isinstance(column, (str, bytes, Mapping)) or not isinstance(column, Iterable):
        raise InputError(f"{name} must be a list. Received: {values!r:.100}")
    return column
