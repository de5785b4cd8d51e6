"""The constructor arguments of model classes, which `from_pretrained` takes and shows."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import keras

# What the constructor of `keras.Model` takes. It shows `**kwargs` only.
_OF_KERAS = ("name", "dtype", "trainable")
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def constructor_arguments_of(model_class: type) -> dict[str, inspect.Parameter]:
    """Returns the arguments of a model's constructor besides the config, as keyword arguments: name -> parameter.

    Constructors pass what they do not name to the constructor of their base class. An argument that a constructor
    requires, such as `labels`, gets the default None: a checkpoint can have it.
    """
    found: dict[str, inspect.Parameter] = {}
    for base in model_class.__mro__:
        if base is keras.Model:
            of_keras = inspect.signature(keras.layers.Layer.__init__).parameters
            found |= {name: of_keras[name] for name in _OF_KERAS}
            break
        if "__init__" not in vars(base):
            continue
        parameters = list(inspect.signature(base.__init__).parameters.values())[2:]  # without self and config
        named = {one.name: one for one in parameters if one.kind not in _VARIABLE}
        found |= {name: one for name, one in named.items() if name not in found}
        if not any(one.kind is one.VAR_KEYWORD for one in parameters):
            break
    return {
        name: one.replace(kind=one.KEYWORD_ONLY, default=None if one.default is one.empty else one.default)
        for name, one in found.items()
    }


def with_constructor_arguments(verb: Callable, model_class: type) -> Any:
    """Returns a class method like `verb` whose signature shows the constructor's arguments instead of `**arguments`."""
    verb = inspect.unwrap(verb)
    signature = inspect.signature(verb)
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    if len(own) == len(signature.parameters):  # there is nothing to replace
        return classmethod(verb)
    names = {one.name for one in own}
    added = [one for name, one in constructor_arguments_of(model_class).items() if name not in names]

    @functools.wraps(verb)
    def shown(*args: Any, **arguments: Any) -> Any:
        return verb(*args, **arguments)

    shown.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    return classmethod(shown)
