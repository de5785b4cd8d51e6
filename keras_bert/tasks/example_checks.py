"""Checks of examples that do not depend on their kind."""

from collections.abc import Sequence
from typing import Any

from keras_bert.program.columns import is_float32
from keras_bert.program.errors import InputError


def check_examples(examples: Any, names: Sequence[str]) -> None:
    """Checks the columns of examples.

    Args:
        examples: a dataclass with `source`, for messages, and `weights`, N numbers or None.
        names: the other attributes with a value for each example, or None; the first one determines N.

    Raises:
        InputError: there is no example, a column has fewer or more values, or a weight is below 0 or infinite.
    """
    count = len(getattr(examples, names[0]))
    if not count:
        raise InputError(f"{examples.source}: there is no example.")
    for name in dict.fromkeys([*names[1:], "weights"]):
        values = getattr(examples, name)
        if values is not None and len(values) != count:
            raise InputError(f"{examples.source}: {count} {names[0]} but {name} for {len(values)}.")
    check_weights(examples)


def check_weights(examples: Any) -> None:
    """Raises `InputError` if one of `examples.weights` is no number, below 0, or too large for 32 bits."""
    for number, weight in enumerate(() if examples.weights is None else examples.weights):
        if not is_float32(weight) or weight < 0:
            place = examples.place(number) if hasattr(examples, "place") else f"example {number + 1}"
            raise InputError(
                f"{examples.source}: the weight of {place} must be a number of 0 or more. Received: {weight!r:.100}"
            )
