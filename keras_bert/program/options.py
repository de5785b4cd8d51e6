"""Options are declared once: a field of a dataclass has its default, its bounds and its help text.

@documented
@dataclasses.dataclass(frozen=True)
class RunOptions(Options):
    '''The options of a run.'''

    batch_size: int = option(32, "Examples per update.", at_least=1)

`Options` checks the values. `program/option_flags.py` makes the flags of commands, which give the same messages.
"""

import dataclasses
import functools
import math
import numbers
import operator
import reprlib
import types
import typing
from collections.abc import Callable, Collection, Sequence
from typing import Any

from keras_bert.program.errors import InputError

_NOUNS: dict[Any, str] = {int: "whole number", float: "number", bool: "true or false", str: "text"}
_shown = reprlib.Repr()
_shown.maxstring = _shown.maxother = 100


@dataclasses.dataclass(frozen=True)
class Allowed:
    """The values that an option or an argument may have.

    Attributes:
        kind: int, float, bool or str.
        at_least, at_most: the lowest and the highest number.
        above, below: the same for bounds that are not allowed themselves.
        choices: the possible strings.
        or_none: whether None is allowed too.
        is_list: whether the value is a list or a tuple of such numbers.
    """

    kind: type
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    choices: Collection[str] | None = None
    or_none: bool = False
    is_list: bool = False

    def __str__(self):
        """Returns the values in words, such as "a whole number of at least 1"."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        bounds = " and ".join(f"{words} {_written(bound)}" for words, bound, _ in self._bounds())
        noun = _NOUNS[self.kind]
        kind = noun if self.kind is bool else f"a list of {noun}s" if self.is_list else f"a {noun}"
        return f"{kind} {bounds}".strip()

    def has(self, value: Any) -> bool:
        """Returns whether the value is allowed. NaN and infinite numbers are not."""
        if value is None and self.or_none:
            return True
        if self.choices:
            return isinstance(value, str) and value in self.choices
        if self.is_list:
            return isinstance(value, list | tuple) and all(map(dataclasses.replace(self, is_list=False).has, value))
        if self.kind not in (int, float):
            return isinstance(value, self.kind)
        is_number = isinstance(value, numbers.Integral if self.kind is int else numbers.Real)
        if not is_number or isinstance(value, bool) or not -math.inf < value < math.inf:
            return False
        return all(is_within(value, bound) for _, bound, is_within in self._bounds())

    def _bounds(self) -> list[tuple[str, float, Callable[[Any, Any], bool]]]:
        found = [("of at least", self.at_least, operator.ge), ("above", self.above, operator.gt)]
        found += [("at most", self.at_most, operator.le), ("below", self.below, operator.lt)]
        return [(words, bound, is_within) for words, bound, is_within in found if bound is not None]

    def checked(self, name: str, value: Any) -> Any:
        """Returns an allowed value; numbers of NumPy, which JSON does not have, become Python's.

        Raises:
            InputError: "NAME must be ALLOWED. Received: VALUE".
        """
        if not self.has(value):
            raise InputError(f"{name} must be {self}. Received: {_shown.repr(value)}")
        is_plain = not isinstance(value, numbers.Real) or isinstance(value, int | float)
        return value if is_plain else self.kind(value)


def check_whole(name: str, value: Any, **bounds: Any) -> Any:
    """Returns a whole number as Python's. Raises `InputError` unless it is one, no bool, within bounds of `Allowed`."""
    return Allowed(int, **bounds).checked(name, value)


def check_number(name: str, value: Any, **bounds: Any) -> Any:
    """Returns a number as Python's. Raises `InputError` unless it is finite and within bounds of `Allowed`."""
    return Allowed(float, **bounds).checked(name, value)


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Raises `InputError` unless an argument is one of some strings."""
    Allowed(str, choices=choices).checked(name, value)


@dataclasses.dataclass(frozen=True)
class _Option:
    help: str
    flag: str | None
    read: Callable[[Any], Any] | None
    needs: str | None
    bounds: dict[str, Any]


def option(
    default: Any = dataclasses.MISSING,
    help: str = "",
    *,
    flag: str | None = None,
    read: Callable[[Any], Any] | None = None,
    needs: str | None = None,
    **bounds: Any,
) -> Any:
    """Returns a field of an `Options` class.

    Args:
        default: the default of the field, and of the flag. `dataclasses.MISSING`: the field has none.
        help: describes the option, in `--help` and (`documented`) in the docstring of the class. Without it the option
            has no flag.
        flag: the name of the flag, by default that of the field.
        read: makes the value of the field from that of the flag, unless it is None.
        needs: the flag without which this one has no effect, see `refuse_unneeded_flags`.
        **bounds: choices, at_least, at_most, above, below: see `Allowed`.
    """
    return dataclasses.field(default=default, metadata={"option": _Option(help, flag, read, needs, bounds)})


def same_option(options_class: type, name: str) -> Any:
    """Returns a field like that of another dataclass."""
    field = options_class.__dataclass_fields__[name]  # type: ignore[attr-defined]
    return dataclasses.field(default=field.default, metadata=field.metadata)


def documented(options_class: type) -> type:
    """Adds the help texts of a dataclass to its docstring, and returns the class."""
    lines = [f"    {field.name}: {given.help}" for field, given in described_fields(options_class)]
    options_class.__doc__ = "\n".join([(options_class.__doc__ or "").rstrip(), "", "Options:", *lines])
    return options_class


class Options:
    """The base of dataclasses whose values are checked.

    Raises:
        InputError: the value of a field has another type than its annotation, or is out of its bounds.
    """

    def __post_init__(self):
        for name, allowed in allowed_values(type(self)).items():
            object.__setattr__(self, name, allowed.checked(name, getattr(self, name)))


@functools.cache
def allowed_values(options_class: type) -> dict[str, Allowed]:
    """Returns what each field of a dataclass may be: name -> values. Fields of other types have no entry."""
    found = {}
    for field in dataclasses.fields(options_class):
        kinds = set(typing.get_args(field.type) if isinstance(field.type, types.UnionType) else (field.type,))
        or_none = type(None) in kinds or field.default is None
        kinds -= {type(None)}
        kind = kinds.pop() if len(kinds) == 1 else None
        is_list = typing.get_origin(kind) in (tuple, Sequence) and typing.get_args(kind)[0] in (int, float, str)
        kind = typing.get_args(kind)[0] if is_list else kind
        if kind in _NOUNS:
            bounds = field.metadata["option"].bounds if "option" in field.metadata else {}
            found[field.name] = Allowed(kind, or_none=or_none, is_list=is_list, **bounds)
    return found


def described_fields(options_class: type) -> list[tuple[dataclasses.Field, _Option]]:
    """Returns the fields that have a help text, and so a flag."""
    fields = [(field, field.metadata.get("option")) for field in dataclasses.fields(options_class)]
    return [(field, given) for field, given in fields if given and given.help]


def _written(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"
