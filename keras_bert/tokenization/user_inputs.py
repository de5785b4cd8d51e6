"""Texts as users pass them: lists, arrays, columns of a table, data sets of strings.

Wherever texts are expected, a single string counts as a list of one, and the result is a list of one.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import GeneratorType
from typing import Any

import numpy as np

from keras_bert.program.columns import checked_column, is_missing, missing_message
from keras_bert.program.errors import InputError

# Objects that give Keras batches themselves. Such an object may look like a column.
_LOADERS = ("keras.", "torch.utils.data.", "grain.")


def holds_texts(x: Any) -> bool:
    """Returns whether `x` has texts. Features are dictionaries of numbers, numbers, or batches of either."""
    if hasattr(x, "element_spec"):
        return getattr(getattr(_first(x.element_spec), "dtype", None), "name", "") == "string"
    if isinstance(x, Mapping):  # of texts it is refused, as other texts that are no column
        return any(isinstance(one, str) for column in x.values() for one in _beginning(column))
    if isinstance(x, GeneratorType) or getattr(getattr(x, "dtype", None), "kind", None) in tuple("biufc"):
        return False
    return not _is_loader(x)


def listed_texts(x: Any) -> Any:
    """Returns a generator of texts as a list; a generator of features, of which the first is looked at, is whole again.

    So are those in a tuple of columns.

    Raises:
        InputError: `x` gives texts in batches or with labels, as a generator, a `PyDataset` or a `DataLoader`.
    """
    if isinstance(x, tuple):
        return tuple(map(listed_texts, x))
    if isinstance(x, GeneratorType):
        first = next(x, None)
        if first is None or isinstance(first, (str, bytes)) or (isinstance(first, list) and _has_text(first)):
            return [] if first is None else [first, *x]
        given, found = x, (one for one in itertools.chain([first], x))
    else:
        given = found = x
        # Batches of features that are read once say so: looking at the first one would take it away.
        source = getattr(x, "dataset", x) if _is_loader(x) and not getattr(x, "gives_features", False) else None
        first = source[0] if hasattr(source, "__getitem__") and len(source) else None
    if _has_text(first):
        raise InputError(
            f"A {type(given).__name__} that gives texts in batches or with labels is not taken. Give lists, such as "
            "fit(texts, labels), or a tf.data.Dataset of texts and labels: keras_bert makes the batches."
        )
    return found


def _is_loader(x: Any) -> bool:
    return any(f"{base.__module__}.".startswith(_LOADERS) for base in type(x).__mro__)


def _has_text(value: Any) -> bool:
    """Returns whether the first value in lists, tuples, dictionaries and arrays is a text."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple, np.ndarray)) and len(value):
        return _has_text(value[0])
    return isinstance(value, (str, bytes)) or getattr(getattr(value, "dtype", None), "name", "") == "string"


def iterate_column(values: Any, name: str) -> Iterator:
    """Yields the values of a column as Python values, one at a time; bytes become `str`.

    Args: as for `checked_column`.

    Raises:
        InputError: `values` is not a column, or its bytes are not UTF-8.
    """
    if _is_loader(values):
        raise InputError(f"{name} must be a list. Received: {type(values).__name__}, which gives batches.")
    if hasattr(values, "element_spec"):
        values = collect(values, 0)[0]
    return (_as_python(value, name) for value in checked_column(values, name))


def as_list(values: Any, name: str) -> list:
    """Returns a column of values other than texts, such as labels, as a list; bytes become `str`.

    >>> as_list(np.array([b"yes", b"no"]), "labels")
    ['yes', 'no']

    Args:
        values: as for `checked_column`, but not a single string.

    Raises:
        InputError: `values` is a single string or not a column, or its bytes are not UTF-8.
    """
    if isinstance(values, (str, bytes)):
        raise InputError(f"{name} must be a list. Received: {values!r:.100}. Give a single value as a list of one.")
    return list(iterate_column(values, name))


def as_texts(values: Any, name: str = "text", advice: str = "") -> list[str]:
    """Returns texts as a list of `str`.

    >>> as_texts("tea"), as_texts(np.array([b"caf\\xc3\\xa9", b"tea"]))
    (['tea'], ['café', 'tea'])

    Args:
        values: as for `checked_column`.
        name: what a value is called in error messages.
        advice: what to do about a value that is not a string, for error messages.

    Raises:
        InputError: `values` is not a column, or one of its values is not a valid Unicode string.
    """
    noun, *rest = name.partition(" of ")
    column = list(iterate_column(values, "".join([f"{noun}s", *rest])))
    missing = [number for number, value in enumerate(column) if is_missing(value, may_be_blank=True)]
    if missing:
        first = f"{name} {missing[0]}, counted from 0: it is {column[missing[0]]}"
        raise InputError(
            missing_message(f"The {name}s", len(missing), len(column), first, "Fill them in or leave them out.")
        )
    return [checked_text(value, f"{name} {number}", advice) for number, value in enumerate(column, start=1)]


def checked_text(value: Any, place: str, advice: str = "") -> str:
    """Returns `value`. Raises `InputError` unless it is a valid Unicode string; `place` names it, such as "text 2"."""
    if not isinstance(value, str):
        raise InputError(f"{place[:1].upper()}{place[1:]} must be a string. Received: {value!r:.100}.{advice}")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"{place[:1].upper()}{place[1:]} has half a surrogate pair at character {error.start}, which UTF-8 "
                "cannot hold. Replace it: text.encode('utf-8', 'replace').decode()."
            ) from None
    return value


def collect(dataset, example_rank: int) -> tuple:
    """Reads a data set of strings to its end.

    Args:
        dataset: a finite `tf.data.Dataset` of x, (x, y) or (x, y, weight); x and y may be tuples or dictionaries.
        example_rank: the number of axes of an example's text: 0 for a string, 1 for a list of words. Elements with one
            more axis are batches.

    Returns:
        (x, y, weight) as lists, or tuples and dictionaries of lists; None for missing parts.

    Raises:
        InputError: it is endless, or x is a dictionary.
    """
    import tensorflow as tf

    specification = dataset.element_spec
    parts = specification if isinstance(specification, tuple) else (specification,)
    if isinstance(parts[0], Mapping):
        raise InputError(
            f"The data set has dictionaries of {', '.join(parts[0])}. Select the text: "
            "dataset.map(lambda row: (row['text'], row['label']))."
        )
    if int(dataset.cardinality()) == -1:
        raise InputError("The data set repeats for ever. Texts are read to their end first, so remove repeat().")
    is_batched = _first(parts[0]).shape.rank > example_rank
    columns: list[list] = [[] for _ in tf.nest.flatten(parts)]
    for element in dataset:
        for column, value in zip(columns, tf.nest.flatten(element), strict=True):
            values = value if is_batched else [value.to_list() if hasattr(value, "to_list") else value.numpy()]
            column.extend(as_list(values, "texts"))
    return tuple([*tf.nest.pack_sequence_as(parts, columns), None, None][:3])


def _as_python(value: Any, name: str):
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{name} holds bytes that are not UTF-8 ({error}): {value!r:.60}") from None
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_as_python(inner, name) for inner in value]
    return value.item() if isinstance(value, np.generic) else value


def _beginning(values: Any) -> Sequence:
    """Returns a list of one for a string, the first value of a list or tuple, and nothing of arrays."""
    return [values] if isinstance(values, str) else values[:1] if isinstance(values, (list, tuple)) else []


def _first(specification):
    """Returns the first specification in tuples, lists and dictionaries."""
    while isinstance(specification, (tuple, list, Mapping)):
        specification = next(iter(specification.values() if isinstance(specification, Mapping) else specification))
    return specification
