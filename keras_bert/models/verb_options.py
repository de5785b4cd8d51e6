"""Checks the options of `fit`, `predict` and other verbs. Some are for texts only, others for features."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from keras_bert.program.errors import InputError


def option_names(verb: Callable) -> list[str]:
    """Returns the names of a function's optional arguments."""
    parameters = inspect.signature(verb).parameters.values()
    return [parameter.name for parameter in parameters if parameter.default is not parameter.empty]


def split_arguments(given: Mapping[str, Any], keras_verb: Callable) -> tuple[dict, dict, dict]:
    """Splits the arguments of a call into those of Keras' method, further options and unknown ones, name -> value.

    Args:
        given: `locals()` at the beginning of a method that shows all its arguments and ends with `**unknown`.
        keras_verb: the method of `keras.Model`.
    """
    of_keras, others = inspect.signature(keras_verb).parameters, {"self", "unknown"}
    arguments = {name: value for name, value in given.items() if name in of_keras and name not in others}
    options = {name: value for name, value in given.items() if name not in of_keras and name not in others}
    return arguments, options, dict(given["unknown"])


def check_options(
    verb: Callable,
    where: str = "",
    refused: Mapping[str, Any] | None = None,
    unknown: Iterable[str] = (),
    instead: Mapping[str, str] | None = None,
) -> None:
    """Raises `InputError` for the first option that is unknown, or that has no effect.

    Args:
        verb: a function or a bound method, such as `model.fit`.
        where: when the verb has other options than its signature says: "on texts" or "on features".
        refused: options of the signature that have no effect there, name -> value. Their defaults are accepted.
        unknown: names that are not in the signature.
        instead: such names -> a sentence about what to do instead.
    """
    refused = refused or {}
    parameters = inspect.signature(verb).parameters if refused else {}
    # By identity, because arrays cannot be compared with a default.
    given = [name for name, value in refused.items() if value is not parameters[name].default]
    wrong = next(iter([*unknown, *given]), None)
    if wrong is not None:
        names = ", ".join(name for name in option_names(verb) if name not in refused)
        place = f" {where}" if where else ""
        hint = f" {instead[wrong]}" if instead and wrong in instead else ""
        raise InputError(f"{verb.__name__}{place} has no option {wrong}. It has: {names}.{hint}")
