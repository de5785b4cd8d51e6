"""Options are declared once: a field of a dataclass, with its help text, makes the flag of a command.

@documented
@dataclasses.dataclass(frozen=True)
class Options:
    '''The options of a run.'''

    batch_size: int = option(32, "Examples per update.", lower_bound=1)

define_option_flags(Options)  # --batch_size
options = options_of_flags(Options)
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Container, Sequence
from typing import Any

from absl import flags

from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS
# A flag belongs to the module that calls the functions below.
flags.disclaim_key_flags()

_DEFINE: dict[type, Callable] = {
    bool: flags.DEFINE_boolean,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
}


@dataclasses.dataclass(frozen=True)
class _Option:
    help: str
    flag: str | None
    choices: Sequence[str] | None
    lower_bound: float | None
    upper_bound: float | None
    read: Callable[[Any], Any] | None

    def bounds(self) -> dict[str, float]:
        bounds = {"lower_bound": self.lower_bound, "upper_bound": self.upper_bound}
        return {name: bound for name, bound in bounds.items() if bound is not None}


def option(
    default: Any,
    help: str,
    *,
    flag: str | None = None,
    choices: Sequence[str] | None = None,
    lower_bound: float | None = None,
    upper_bound: float | None = None,
    read: Callable[[Any], Any] | None = None,
) -> Any:
    """Returns a field of a dataclass that has a flag. Fields of other kinds have none.

    Args:
        default: the default of the field, and of the flag. `dataclasses.MISSING`: the field has none.
        help: describes the option, in `--help` and (`documented`) in the docstring of the class.
        flag: the name of the flag, by default that of the field.
        choices: the possible strings.
        lower_bound, upper_bound: the lowest and the highest number that the flag takes.
        read: makes the value of the field from that of the flag, unless it is None.
    """
    given = _Option(help, flag, choices, lower_bound, upper_bound, read)
    return dataclasses.field(default=default, metadata={"option": given})


def same_option(options_class: type, name: str) -> Any:
    """Returns a field like that of another dataclass."""
    field = options_class.__dataclass_fields__[name]  # type: ignore[attr-defined]
    return dataclasses.field(default=field.default, metadata=field.metadata)


def documented(options_class: type) -> type:
    """Adds the help texts of a dataclass to its docstring, and returns the class."""
    lines = [f"    {field.name}: {given.help}" for field, given in _options(options_class)]
    options_class.__doc__ = "\n".join([(options_class.__doc__ or "").rstrip(), "", "Options:", *lines])
    return options_class


def define_option_flags(
    options_class: type,
    *,
    but: Container[str] = (),
    suffix: str = "",
    purpose: str = "",
    has_defaults: bool = True,
) -> None:
    """Defines a flag for each option of a dataclass, and for those of the dataclasses that are defaults of its fields.

    Args:
        but: names of fields without a flag.
        suffix: the end of the names of all flags.
        purpose: the beginning of all help texts.
        has_defaults: False makes None the default of all flags: what is not given is left to the dataclass.
    """
    for field, given in _options(options_class):
        if field.name in but:
            continue
        default = field.default if has_defaults and field.default is not dataclasses.MISSING else None
        left_out = not has_defaults and field.default not in (None, False, dataclasses.MISSING)
        help = f"{purpose}{given.help}{f' Default: {field.default}.' if left_out else ''}"
        arguments = (f"{given.flag or field.name}{suffix}", default, help)
        kind = _kind(field)
        if given.choices:
            flags.DEFINE_enum(*arguments[:2], list(given.choices), arguments[2])
        elif kind in _DEFINE:
            _DEFINE[kind](*arguments, **given.bounds())
        else:
            flags.DEFINE_list(arguments[0], default if default is None else list(default), arguments[2])
    for field in _nested(options_class, but):
        define_option_flags(type(field.default), suffix=suffix, purpose=purpose, has_defaults=has_defaults)


def flag_names(options_class: type) -> set[str]:
    """Returns the names of the flags that `define_option_flags` defines."""
    own = {given.flag or field.name for field, given in _options(options_class)}
    return own.union(*(flag_names(type(field.default)) for field in _nested(options_class, ())))


def flag_values(options_class: type, *, but: Container[str] = (), suffix: str = "") -> dict[str, Any]:
    """Returns the values of the flags of `define_option_flags`, field -> value, as the dataclass takes them."""
    values = {}
    for field, given in _options(options_class):
        if field.name in but:
            continue
        value = FLAGS[f"{given.flag or field.name}{suffix}"].value
        value = tuple(value) if isinstance(value, list) else value
        values[field.name] = value if value is None or given.read is None else given.read(value)
    for field in _nested(options_class, but):
        values[field.name] = type(field.default)(**flag_values(type(field.default), suffix=suffix))
    return values


def given_values(options_class: type, *, but: Container[str] = ()) -> dict[str, Any]:
    """Returns the values of the flags that have one, field -> value. All others are left to the dataclass."""
    return {name: value for name, value in flag_values(options_class, but=but).items() if value is not None}


def options_of_flags(options_class: type, **others: Any) -> Any:
    """Returns the options that the flags say; `others` are fields without a flag, or that a command determines."""
    return options_class(**{**flag_values(options_class), **others})


def _options(options_class: type) -> list[tuple[dataclasses.Field, _Option]]:
    fields = dataclasses.fields(options_class)
    return [(field, field.metadata["option"]) for field in fields if "option" in field.metadata]


def _nested(options_class: type, but: Container[str]) -> list[dataclasses.Field]:
    """Returns the fields whose default is a dataclass."""
    fields = dataclasses.fields(options_class)
    return [field for field in fields if dataclasses.is_dataclass(field.default) and field.name not in but]


def _kind(field: dataclasses.Field) -> Any:
    """Returns the type of a field, without None."""
    is_union = typing.get_origin(field.type) is types.UnionType
    return next(one for one in (typing.get_args(field.type) if is_union else (field.type,)) if one is not type(None))


def whole_numbers(flag: str) -> Callable[[Sequence[str]], list[int]]:
    """Returns the `read` of an option whose flag lists whole numbers."""

    def read(values: Sequence[str]) -> list[int]:
        try:
            return [int(value) for value in values]
        except ValueError:
            message = f"--{flag} must be whole numbers separated by commas. Received: {','.join(values)}"
            raise InputError(message) from None

    return read
