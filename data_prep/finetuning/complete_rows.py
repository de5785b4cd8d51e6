"""Reports all rows of a file that miss a value at once, or leaves them out."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import MissingColumn, MissingValue, missing_message, skipped_note

_logger = logging.getLogger(__name__)
_ADVICE = "Fill them in, or leave such rows out with --skip_missing (skip_missing=True)."
Read = TypeVar("Read")


def labels_are_read(path: str, labelled: Sequence[bool], skip_missing: bool) -> bool:
    """Returns whether the labels of a file that may have none are read, from whether each row has one.

    They are read if all rows have one, and with `skip_missing` if some have. If some have but are not read, a warning
    says so.
    """
    if any(labelled) and not all(labelled) and not skip_missing:
        _logger.warning(
            f"{path}: {sum(labelled):,} of {len(labelled):,} rows have labels, so none are read. To read them, leave "
            "out the other rows with --skip_missing (skip_missing=True)."
        )
    return all(labelled) or (any(labelled) and skip_missing)


def complete_rows(
    path: str,
    rows: Iterable[Any],
    convert: Callable[[Any], Read],
    *,
    skip_missing: bool = False,
    left_out: list[str] | None = None,
) -> list[Read]:
    """Returns `convert(row)` of each row. Raises `InputError` if values are missing, or as `convert`.

    Args:
        path: the name of the file, for messages.
        convert: raises `MissingValue` if a value is missing, with a message that begins with the path.
        skip_missing: whether rows with a missing value are left out; a warning says how many.
        left_out: if given, other bad rows after the first good one are left out too, and a description of each bad row
            is appended here.
    """
    found, missing, number, has_column = [], [], -1, False
    for number, row in enumerate(rows):
        try:
            found.append(convert(row))
        except InputError as error:
            if left_out is not None and found:
                left_out.append(str(error))
            elif isinstance(error, MissingValue):
                missing.append((number, str(error).removeprefix(f"{path}: ")))
                has_column = has_column or not isinstance(error, MissingColumn)
            else:
                raise
    if missing and (not skip_missing or not found):
        row, place = missing[0]
        if not found and not has_column:
            raise InputError(f"{path}: {place}.")
        raise InputError(
            missing_message(path, len(missing), number + 1, f"number {row}, counted from 0, at {place}", _ADVICE)
        )
    if missing:
        _logger.warning("%s", skipped_note(path, len(missing), number + 1))
    return found
