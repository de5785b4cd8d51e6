"""Checks the keys of files that other projects wrote: each key is used, harmless, or refused by name."""

import dataclasses
import reprlib
from collections.abc import Collection, Mapping
from typing import Any

from keras_bert.program.errors import InputError

_MOST_NAMED = 5


@dataclasses.dataclass(frozen=True)
class KnownKeys:
    """The keys that a reader knows in one kind of file.

    Attributes:
        used: keys whose values the reader uses or checks itself.
        harmless: keys that change none of our results, whatever their value is.
        fixed: key -> the values with which it changes nothing; any other value is refused. Of none, only a null passes.
        refused: key -> the reason why a file with this key is refused, and what to do instead. An empty value passes.
    """

    used: Collection[str] = ()
    harmless: Collection[str] = ()
    fixed: Mapping[str, Collection[Any]] = dataclasses.field(default_factory=dict)
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def check(self, values: Mapping[str, Any], where: str) -> None:
        """Raises `InputError` if a key is unknown or has a value that is not supported. A null counts as missing.

        Messages begin with `where`, the name of the source.
        """
        self._check_known(values, where)
        unknown = self.unknown(values)
        if unknown:
            raise InputError(
                f"{where} has settings that keras_bert does not know and that could change the results: "
                f"{_named(values, unknown)}. If they do not, remove them from a copy of the file."
            )

    def notes(self, values: Mapping[str, Any], where: str) -> list[str]:
        """Returns a sentence about unknown keys, for files whose settings do not change results; else an empty list.

        Raises:
            InputError: a known key has a value that is not supported.
        """
        self._check_known(values, where)
        unknown = self.unknown(values)
        return [f"{where} has settings that are not used: {_named(values, unknown)}"] if unknown else []

    def unknown(self, values: Mapping[str, Any]) -> list[str]:
        """Returns the keys that are not known. A null counts as missing."""
        known = {*self.used, *self.harmless, *self.fixed, *self.refused}
        return [name for name, value in values.items() if value is not None and name not in known]

    def _check_known(self, values: Mapping[str, Any], where: str) -> None:
        for name, reason in self.refused.items():
            if values.get(name):
                raise InputError(f"{where}: {name} is {reprlib.repr(values[name])}: {reason}")
        for name, allowed in self.fixed.items():
            value = values.get(name)
            if value is not None and value not in allowed:
                supported = " or ".join(map(repr, allowed)) or "null, or a file without this key,"
                raise InputError(
                    f"{where}: {name} is {reprlib.repr(value)}, which would change the results. Only {supported} is "
                    "supported."
                )


def _named(values: Mapping[str, Any], names: list[str]) -> str:
    shown = [f"{name!r:.100}={reprlib.repr(values[name])}" for name in names[:_MOST_NAMED]]
    return ", ".join(shown + ["..."] * (len(names) > _MOST_NAMED))
