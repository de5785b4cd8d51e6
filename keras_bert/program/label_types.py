"""The types of labels: strings, whole numbers, truth values, floats. Files keep labels as strings, beside the type."""

import math
from collections.abc import Iterable
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.program.options import check_choice
from keras_bert.program.user_inputs import checked_column

_TYPES = {"str": str, "int": int, "bool": bool, "float": float}
LABEL_TYPES = tuple(_TYPES)
Label = str | int | float


def label_strings(labels: Iterable[Any]) -> tuple[list[str], str]:
    """Returns labels as strings, and the name of their type.

    >>> label_strings([10, 20]), label_strings("one")
    ((['10', '20'], 'int'), (['one'], 'str'))

    Raises:
        InputError: a label is of another type, a number is not finite, labels are of several types, or no column.
    """
    labels = [plain(label) for label in checked_column(labels, "labels")]
    types = {_type_name(label) for label in labels}
    if len(types) > 1:
        raise InputError(f"labels must be of one type. Received: {', '.join(sorted(types))}")
    name = next(iter(types), "str")
    return [label if isinstance(label, str) else str(label) for label in labels], name


def label_value(text: str, label_type: str) -> Label:
    """Returns the label that `label_strings` has made a string of.

    >>> label_value("10", "int"), label_value("False", "bool")
    (10, False)

    Raises:
        InputError: there is no such type, or the string is no label of this type, which only damaged files have.
    """
    check_choice("label_type", label_type, LABEL_TYPES)
    try:
        value = text == "True" if label_type == "bool" else _TYPES[label_type](text)
    except ValueError:
        value = None
    if value is None or str(value) != text:
        raise InputError(f"The label {text!r:.100} is no {label_type}.")
    return value


def plain(value: Any) -> Any:
    """Returns a NumPy number, string or truth value as one of Python, and other values as they are."""
    return value.item() if hasattr(value, "dtype") and getattr(value, "shape", None) == () else value


def _type_name(label: Any) -> str:
    if isinstance(label, str):
        return "str"
    name = type(label).__name__
    if type(label) in _TYPES.values() and (name != "float" or math.isfinite(label)):
        return name
    reason = "it marks a missing label" if label is None or label != label else "JSON files could not give it back"
    raise InputError(
        f"A label must be a string, a whole number, a truth value or a finite float. Received: {label!r:.100}, and "
        f"{reason}. Give its name as a string."
    )
