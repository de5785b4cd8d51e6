"""Finds missing values in columns and files: None, NaN, pandas' NA, and texts without a character."""

from typing import Any

from keras_bert.program.errors import InputError

# pandas' own kinds of missing values, which are not even equal to themselves.
_PANDAS_KINDS = ("NAType", "NaTType")


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
