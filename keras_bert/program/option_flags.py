"""Makes the flags of commands from options, which are declared once, and the options of the flags.

define_option_flags(RunOptions)  # --batch_size
options = options_of_flags(RunOptions)
"""

import contextlib
import dataclasses
import types
import typing
from collections.abc import Callable, Container
from typing import Any

from absl import flags

from keras_bert.program.command_line import refuse_flags_without_effect
from keras_bert.program.options import Allowed, allowed_values, described_fields

FLAGS = flags.FLAGS
# A flag belongs to the module that calls the functions below.
flags.disclaim_key_flags()

_CONVERT: dict[type, Callable[[str], Any]] = {int: flags.IntegerParser().convert, float: flags.FloatParser().convert}


class _OptionParser(flags.ListParser):
    """Reads the value of a flag. What is not allowed gets the message of the option's dataclass."""

    def __init__(self, name: str, allowed: Allowed, read: Callable[[Any], Any] | None = None):
        super().__init__()
        self._name, self._allowed, self._read = name, allowed, read

    def parse(self, argument: Any) -> Any:
        value = [*map(self._number, super().parse(argument))] if self._allowed.is_list else self._number(argument)
        self._allowed.checked(self._name, self._read(value) if self._read else value)
        return value

    def _number(self, argument: Any) -> Any:
        """Returns the number that a text has; other texts as they are."""
        with contextlib.suppress(ValueError, TypeError):
            return _CONVERT.get(self._allowed.kind, str)(argument)
        return argument


def define_flag(name: str, default: Any, help: str, kind: type = int, *, required: bool = False, **bounds: Any) -> None:
    """Defines a flag that belongs to no dataclass; `kind` and `bounds`: see `Allowed`."""
    _define(name, default, help, Allowed(kind, **bounds), required=required)


def _define(name: str, default: Any, help: str, allowed: Allowed, read: Any = None, required: bool = False) -> None:
    if allowed.kind is bool:
        flags.DEFINE_boolean(name, default, help)
        return
    if allowed.choices:
        help = f"<{'|'.join(allowed.choices)}>: {help}"
    serializer = flags.ListSerializer(",") if allowed.is_list else flags.ArgumentSerializer()
    flags.DEFINE(_OptionParser(name, allowed, read), name, default, help, serializer=serializer, required=required)


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
    allowed = allowed_values(options_class)
    for field, given in described_fields(options_class):
        if field.name in but:
            continue
        default = field.default if has_defaults and field.default is not dataclasses.MISSING else None
        left_out = not has_defaults and field.default not in (None, False, dataclasses.MISSING)
        help = f"{purpose}{given.help}{f' Default: {field.default}.' if left_out else ''}"
        name = f"{given.flag or field.name}{suffix}"
        if field.name in allowed:
            default = list(default) if isinstance(default, tuple) else default
            _define(name, default, help, allowed[field.name], given.read)
        elif _first_type(field) is str:
            flags.DEFINE_string(name, default, help)
        else:
            flags.DEFINE_list(name, default if default is None else list(default), help)
    for field in _nested(options_class, but):
        define_option_flags(type(field.default), suffix=suffix, purpose=purpose, has_defaults=has_defaults)


def flag_names(options_class: type) -> set[str]:
    """Returns the names of the flags that `define_option_flags` defines."""
    own = {given.flag or field.name for field, given in described_fields(options_class)}
    return own.union(*(flag_names(type(field.default)) for field in _nested(options_class, ())))


def flag_values(options_class: type, *, but: Container[str] = (), suffix: str = "") -> dict[str, Any]:
    """Returns the values of the flags of `define_option_flags`, field -> value, as the dataclass takes them."""
    values = {}
    for field, given in described_fields(options_class):
        if field.name in but:
            continue
        value = FLAGS[f"{given.flag or field.name}{suffix}"].value
        value = tuple(value) if isinstance(value, list) else value
        values[field.name] = value if value is None or given.read is None else given.read(value)
    for field in _nested(options_class, but):
        values[field.name] = type(field.default)(**flag_values(type(field.default), suffix=suffix))
    return values


def flags_by_name(*names: str) -> dict[str, Any]:
    """Returns the values of flags: name -> value."""
    return {name: FLAGS[name].value for name in names}


def given_values(options_class: type, *, but: Container[str] = ()) -> dict[str, Any]:
    """Returns the values of the flags that have one, field -> value. All others are left to the dataclass."""
    return {name: value for name, value in flag_values(options_class, but=but).items() if value is not None}


def options_of_flags(options_class: type, **others: Any) -> Any:
    """Returns the options that the flags say; `others` are fields without a flag, or that a command determines."""
    return options_class(**{**flag_values(options_class), **others})


def refuse_unneeded_flags(*options_classes: type) -> None:
    """Raises `InputError` for flags on the command line without the flags that they need (`needs` of `option`)."""
    for options_class in options_classes:
        needing: dict[str, list[str]] = {}
        for field, given in described_fields(options_class):
            if given.needs:
                needing.setdefault(given.needs, []).append(given.flag or field.name)
        for needed, names in needing.items():
            refuse_flags_without_effect(FLAGS[needed].value, f"without --{needed}", *names)


def _nested(options_class: type, but: Container[str]) -> list[dataclasses.Field]:
    """Returns the fields whose default is a dataclass."""
    fields = dataclasses.fields(options_class)
    return [field for field in fields if dataclasses.is_dataclass(field.default) and field.name not in but]


def _first_type(field: dataclasses.Field) -> Any:
    is_union = isinstance(field.type, types.UnionType)
    return typing.get_args(field.type)[0] if is_union else field.type
