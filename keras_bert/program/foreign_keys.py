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
        fixed: key -> the values with which it changes nothing; any other value is refused.
    """

    used: Collection[str] = ()
    harmless: Collection[str] = ()
    fixed: Mapping[str, Collection[Any]] = dataclasses.field(default_factory=dict)

    def check(self, values: Mapping[str, Any], where: str) -> None:
        """Raises `InputError` if a key is unknown or has a value that is not supported. A null counts as missing.

        Args:
            values: the content of the file, or of a part of it.
            where: the name of the source, with which messages begin.
        """
        for name, allowed in self.fixed.items():
            value = values.get(name)
            if value is not None and value not in allowed:
                supported = " or ".join(map(repr, allowed))
                raise InputError(
                    f"{where}: {name} is {reprlib.repr(value)}, which would change the results. Only {supported} is "
                    "supported."
                )
        unknown = self.unknown(values)
        if unknown:
            named = ", ".join(f"{name!r:.100}={reprlib.repr(values[name])}" for name in unknown[:_MOST_NAMED])
            raise InputError(
                f"{where} has settings that keras_bert does not know and that could change the results: {named}. If "
                "they do not, remove them from a copy of the file."
            )

    def unknown(self, values: Mapping[str, Any]) -> list[str]:
        """Returns the keys that are not known. A null counts as missing."""
        known = {*self.used, *self.harmless, *self.fixed}
        return [name for name, value in values.items() if value is not None and name not in known]
