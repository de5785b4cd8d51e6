"""The names of labels that users give as names, as positions in the list of labels, or as truth values.

Every function that takes labels from users reads them here.
"""

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.program.label_types import label_value, plain
from keras_bert.program.user_inputs import as_mapping, checked_column, checked_text

_TRUTH_NAMES = {True: ("true", "yes"), False: ("false", "no")}


def check_labels(labels, fewest: int = 2) -> tuple[str, ...]:
    """Returns the class names as a tuple. Raises `InputError` for fewer than `fewest` names, or for duplicates."""
    labels = tuple(checked_column(labels, "labels"))
    if len(labels) < fewest or not all(isinstance(label, str) for label in labels) or len(set(labels)) < len(labels):
        number = "two or more" if fewest > 1 else "one or more"
        raise InputError(f"labels must be {number} different names. Received: {list(labels)}")
    return tuple(checked_text(label, f"label {number}") for number, label in enumerate(labels, start=1))


def label_name(value: Any, labels: Sequence[str], place: str, label_type: str = "str") -> str:
    """Returns the name of a label. A string is a name, known or not; a whole number is a position, from 0.

    A truth value is the label "True" or "yes", or "False" or "no", in capitals or not; of two other labels, it is the
    position 0 or 1. A model whose labels are numbers or truth values has no positions: the value is the label itself.

    >>> label_name(1, ["bad", "good"], "The label"), label_name(True, ["True", "False"], "The label")
    ('good', 'True')

    `value` may be of NumPy, or a float as 1.0; see `program/label_types.py` for `label_type`. Raises `InputError`,
    which begins with `place`: a number is also the name of another label, or `value` is no label.
    """
    value = plain(value)
    if isinstance(value, str):
        return value
    if label_type != "str":
        return _name_of_value(value, labels, place, label_type)
    is_truth = isinstance(value, bool)
    if is_truth:
        named = [label for label in labels if label.casefold() in _TRUTH_NAMES[value]]
        if len(named) == 1:
            return named[0]
    is_position = isinstance(value, int | float) and value in range(2 if is_truth else len(labels))
    if not is_position or (is_truth and len(labels) != 2):
        advice = f" Write the name as a string: {str(value)!r}." if str(value) in labels else ""
        raise InputError(
            f"{place} must be a name or a number from 0 to {len(labels) - 1}. Received: {value!r}.{advice} The labels "
            f"are: {', '.join(labels)}"
        )
    at_position = labels[int(value)]
    namesakes = _numbers(tuple(labels)).get(value, [at_position])
    if at_position not in namesakes:
        raise InputError(
            f"{place} is {value!r}: the position of {at_position!r}, and the name of {namesakes[0]!r}. Write the name "
            f"as a string: {at_position!r} or {namesakes[0]!r}."
        )
    return at_position


def _name_of_value(value: Any, labels: Sequence[str], place: str, label_type: str) -> str:
    """Returns the name of a label that is a number or a truth value. Whole numbers and floats may stand for another."""
    is_label = isinstance(value, bool) == (label_type == "bool") and isinstance(value, int | float)
    names = [label for label in labels if is_label and label_value(label, label_type) == value]
    if not names:
        raise InputError(
            f"{place} must be one of the labels, of the type {label_type}: {', '.join(labels)}. Received: "
            f"{value!r:.100}"
        )
    return names[0]


def label_names(values: Any, labels: Sequence[str], place: str, label_type: str = "str") -> list[str]:
    """Returns the names of any number of labels, given as a list of names, or as 0 or 1 for each label.

    With a `label_type` other than `str`, the list has labels of this type. Raises `InputError` for all else, and where
    0 and 1 are names.

    >>> label_names([1, 0, 1], ["a", "b", "c"], "The labels")
    ['a', 'c']
    """
    if isinstance(values, list) and all(isinstance(label, str) for label in values):
        return values
    is_marks = isinstance(values, list) and len(values) == len(labels) and all(value in (0, 1) for value in values)
    if label_type != "str" and isinstance(values, list) and not is_marks:
        return [label_name(value, labels, place, label_type) for value in values]
    if not is_marks:
        raise InputError(
            f"{place} must be a list of names, or 0 or 1 for each of the {len(labels)} labels. Received: "
            f"{values!r:.100}"
        )
    are_numbers = not any(isinstance(value, bool) for value in values)
    if are_numbers and len(set(values)) == len(values) and set(values) <= set(_numbers(tuple(labels))):
        raise InputError(
            f"{place} are {values!r}: names, or 0 or 1 for each of the labels {', '.join(labels)}. Write names as "
            "strings."
        )
    return [label for label, has_it in zip(labels, values, strict=True) if has_it]


def values_of_labels(values: Any, labels: Sequence[str], name: str, label_type: str = "str") -> dict[str, Any] | None:
    """Returns the names of labels -> what `values` has for them, see `label_name`.

    >>> values_of_labels({1: 0.5}, ["a", "b"], "class_weight")
    {'b': 0.5}

    `values`, by their name in messages, are a dictionary, or a Series of pandas whose index has labels; None for all
    else. Raises `InputError` if a label is unknown, or has two values.
    """
    given = as_mapping(values, name)
    if given is None:
        return None
    found: dict[str, Any] = {}
    for label, value in given.items():
        known = label_name(label, labels, f"A label of {name}", label_type)
        if known not in labels:
            raise InputError(f"{name} has the unknown label {known!r}. The labels are: {', '.join(labels)}")
        if known in found:
            raise InputError(f"{name} has two values for the label {known!r}. Received: {given!r:.200}")
        found[known] = value
    return found


@functools.lru_cache(maxsize=16)
def _numbers(labels: tuple[str, ...]) -> dict[float, list[str]]:
    """Returns the labels that are numbers, in any form: "1", "1.0" or "01"; number -> labels."""
    found: dict[float, list[str]] = {}
    for label in labels:
        with contextlib.suppress(ValueError):
            found.setdefault(float(label), []).append(label)
    return found
