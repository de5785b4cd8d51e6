"""Values as users pass them: lists, arrays, tensors, columns of a table, data sets of strings; and missing values.

Wherever texts are expected, a single string counts as a list of one, and the result is a list of one.
"""

import itertools
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import GeneratorType
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError

# Objects that give Keras batches themselves. Such an object may look like a column.
_LOADERS = ("keras.", "torch.utils.data.", "grain.")
# The methods that turn columns of pyarrow; of pandas, polars and ragged tensors; of NumPy, torch and JAX into lists.
_LIST_METHODS = ("to_pylist", "to_list", "tolist")
# pandas' own kinds of missing values, which are not even equal to themselves.
_PANDAS_KINDS = ("NAType", "NaTType")
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


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
            "fit(texts, labels), or a tf.data.Dataset of texts and labels: keras_bert makes the batches. Your own "
            "batches are features: text_features(model, texts, labels)."
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
    """Yields the values of a `checked_column` as Python values, one at a time; bytes become `str`.

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
        name, advice: for error messages: what a value is called, and what to do about one that is not a string.

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
        name: a plural for the message, such as "texts".

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
    """Returns the message that `count` of `total` rows of a source lack a value; `first` has its place and content."""
    return f"{source}: {count:,} of {total:,} rows have no value where one is needed. The first is {first}. {advice}"


def skipped_note(source: str, count: int, total: int) -> str:
    """Returns the note about rows that were left out."""
    return f"{source}: {count:,} of {total:,} rows were left out, because a value is missing."
