"""Holds out the last examples for validation, as `validation_split` of `keras.Model.fit` does."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.program.options import check_number


def part_of(examples: Any, names: Sequence[str], first: int, stop: int, **others: Any) -> Any:
    """Returns a part of examples.

    Args:
        examples: a dataclass.
        names: its attributes that have a value for each example, or are None.
        first, stop: the part has the examples `first:stop`.
        **others: values of further attributes for the part.
    """
    found = {name: getattr(examples, name) for name in names}
    parts = {name: values[first:stop] for name, values in found.items() if values is not None}
    return dataclasses.replace(examples, **parts, **others)


def first_held_out(num_examples: int, validation_split: float) -> int:
    """Returns the number of the first example that is held out: all from there on are for validation.

    >>> first_held_out(10, 0.25)
    7

    Raises:
        InputError: the share is not between 0 and 1, or one of both parts would be empty.

    Reference: Keras `array_data_adapter.train_validation_split`.
    """
    check_number("validation_split", validation_split, above=0, below=1)
    first = math.floor(num_examples * (1.0 - validation_split))
    if not 0 < first < num_examples:
        raise InputError(
            f"validation_split={validation_split} of {num_examples} examples leaves none for "
            f"{'validation' if first else 'training'}. Give more examples or another share."
        )
    return first
