"""What users hand to `fit` and `predict` as texts: lists, arrays, columns of a table, data sets of strings."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.errors import InputError


def holds_texts(x: Any) -> bool:
    """Whether `x` is texts, and not features: a string, a list or array with strings in it, a data set of strings."""
    if hasattr(x, "element_spec"):
        return _first_dtype(x.element_spec) == "string"
    while isinstance(x, (list, tuple)) and len(x):
        x = x[0]
    if isinstance(x, (list, tuple, str, bytes)):  # what is left of a list is an empty one
        return True
    dtype = getattr(x, "dtype", None)
    return getattr(dtype, "name", None) == "string" or getattr(dtype, "kind", None) in ("O", "S", "U", "T")


def as_list(values: Any, name: str = "texts") -> list:
    """Returns a column as a list of Python values; bytes become `str`.

    >>> as_list(np.array([b"caf\\xc3\\xa9", b"tea"]))
    ['café', 'tea']

    Args:
        values: list, tuple, array, tensor or a column of a data frame.

    Raises:
        InputError: it is a single string or nothing like a column, or its bytes are not UTF-8.
    """
    if isinstance(values, (str, bytes)) or values is None or isinstance(values, Mapping):
        raise InputError(f"{name} must be a list. Received: {values!r:.100}. A single one is given as a list of one.")
    if hasattr(values, "to_list") and not isinstance(values, np.ndarray):  # ragged tensors, columns of data frames
        values = values.to_list()
    elif hasattr(values, "numpy"):
        values = values.numpy()
    if isinstance(values, np.ndarray):
        values = values.tolist()
    try:
        return [_as_text(value, name) for value in values]
    except TypeError:
        raise InputError(f"{name} must be a list. Received: {type(values).__name__}") from None


def collect(dataset, example_rank: int) -> tuple:
    """Reads a data set of strings to its end.

    Args:
        dataset: a finite `tf.data.Dataset` of x, (x, y) or (x, y, weight); x and y may be tuples or dictionaries.
        example_rank: the axes of one example's text: 0 for a string, 1 for a list of words. Elements with one more are
            batches.

    Returns:
        (x, y, weight) as lists, or tuples and dictionaries of lists; None for what is not there.

    Raises:
        InputError: it has no end, or x is a dictionary.
    """
    specification = dataset.element_spec
    parts = specification if isinstance(specification, tuple) else (specification,)
    if isinstance(parts[0], Mapping):
        raise InputError(
            f"The data set has dictionaries of {', '.join(parts[0])}. Say which of them is the text: "
            "dataset.map(lambda row: (row['text'], row['label']))."
        )
    if int(dataset.cardinality()) == -1:
        raise InputError("The data set repeats for ever (repeat()). Texts are read to their end first: take it away.")
    is_batched = _first_rank(parts[0]) > example_rank
    columns = [_empty(part) for part in parts]
    for element in dataset:
        values = element if isinstance(specification, tuple) else (element,)
        for column, value in zip(columns, values, strict=True):
            _append(column, value, is_batched)
    return tuple([*columns, None, None][:3])


def _as_text(value: Any, name: str):
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{name} holds bytes that are not UTF-8 ({error}): {value!r:.60}") from None
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_as_text(inner, name) for inner in value]
    return value.item() if isinstance(value, np.generic) else value


def _first_dtype(specification) -> str:
    while isinstance(specification, (tuple, list, Mapping)):
        specification = next(iter(specification.values() if isinstance(specification, Mapping) else specification))
    return getattr(getattr(specification, "dtype", None), "name", "")


def _first_rank(specification) -> int:
    while isinstance(specification, (tuple, list)):
        specification = specification[0]
    return specification.shape.rank


def _empty(specification):
    if isinstance(specification, Mapping):
        return {name: _empty(inner) for name, inner in specification.items()}
    return tuple(map(_empty, specification)) if isinstance(specification, tuple) else []


def _append(column, value, is_batched: bool) -> None:
    if isinstance(column, dict):
        for name, inner in column.items():
            _append(inner, value[name], is_batched)
    elif isinstance(column, tuple):
        for inner, inner_value in zip(column, value, strict=True):
            _append(inner, inner_value, is_batched)
    elif is_batched:
        column.extend(as_list(value))
    else:
        column.extend(as_list([value.to_list() if hasattr(value, "to_list") else value.numpy()]))
