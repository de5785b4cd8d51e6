"""Settings of exports that several tasks have, and checks of their values, which may come from a stranger's file."""

import re
from collections.abc import Callable
from typing import Any

from keras_bert.program.options import Allowed
from keras_bert.registry import Setting

_LARGEST = 2**31 - 1
# Checks of settings: a whole number of at least 1, the same of at least 3, one or None, a number or None.
is_count = Allowed(int, at_least=1, at_most=_LARGEST).has
is_row_length = Allowed(int, at_least=3, at_most=_LARGEST).has
is_count_or_none = Allowed(int, at_least=1, at_most=_LARGEST, or_none=True).has
is_number_or_none = Allowed(float, at_least=-_LARGEST, at_most=_LARGEST, or_none=True).has
are_shares_or_none = Allowed(float, at_least=0, at_most=1, is_list=True, or_none=True).has


def are_names(value: Any, fewest: int) -> bool:
    """Returns whether a value is a list of at least `fewest` different strings."""
    is_list = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return is_list and len(value) >= fewest and len(set(value)) == len(value)


def is_hash(value: Any) -> bool:
    """Returns whether a value is a SHA-256 in hexadecimal digits."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def is_none_or(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Returns a check that also allows None."""
    return lambda value: value is None or check(value)


def labels(fewest: int, default: list | None = None) -> Setting:
    """Returns the setting `labels` of a model with at least `fewest` labels."""
    return Setting(default, lambda value: are_names(value, fewest))


DOC_STRIDE = Setting(None, is_count_or_none)
PROMPTS = {
    "prompts": Setting({}, lambda value: isinstance(value, dict)),
    "default_prompt": Setting(None, is_none_or(lambda value: isinstance(value, str))),
}


def prompt_of(options: Any) -> dict:
    """Returns the default prompt of a SavedModel that was exported with another one, as a setting."""
    return {} if options.prompt is None else {"default_prompt": options.prompt}
