"""The arguments that methods show although they pass them on as `**options`, and the check of unknown ones."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from keras_bert.program.errors import InputError

# What the constructor of `keras.Model` takes. It shows `**kwargs` only.
_OF_KERAS = ("name", "dtype", "trainable")
_Verb = TypeVar("_Verb", bound=Callable)
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def constructor_arguments_of(model_class: type) -> dict[str, inspect.Parameter]:
    """Returns the arguments of a model's constructor besides the config, as keyword arguments: name -> parameter.

    Constructors pass what they do not name to the constructor of their base class. An argument that a constructor
    requires, such as `labels`, gets the default None: a checkpoint can have it.
    """
    import keras  # only now: loaded exports check their options without it

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
    if not any(one.kind is one.VAR_KEYWORD for one in inspect.signature(verb).parameters.values()):
        return classmethod(verb)
    return classmethod(with_added(verb, constructor_arguments_of(model_class).values()))


def with_added(verb: Callable, added: Iterable[inspect.Parameter]) -> Callable:
    """Returns a function like `verb` whose signature shows these keyword arguments instead of its `**options`."""

    @functools.wraps(verb)
    def shown(*args: Any, **arguments: Any) -> Any:
        return verb(*args, **arguments)

    shown.__signature__ = _signature_with(verb, added)  # type: ignore[attr-defined]
    return shown


def showing(options_class: type) -> Callable[[_Verb], _Verb]:
    """Decorates a function that takes the fields of a dataclass as `**options`: its signature shows the fields."""

    def decorated(verb: _Verb) -> _Verb:
        verb.__signature__ = _signature_with(verb, inspect.signature(options_class).parameters.values())  # type: ignore
        return verb

    return decorated


def _signature_with(verb: Callable, added: Iterable[inspect.Parameter]) -> inspect.Signature:
    signature = inspect.signature(verb)
    own = {name: one for name, one in signature.parameters.items() if one.kind is not one.VAR_KEYWORD}
    further = [one.replace(kind=one.KEYWORD_ONLY) for one in added if one.name not in own]
    return signature.replace(parameters=[*own.values(), *further])


def show_arguments(model_class: type) -> None:
    """Makes methods that end with `**options` show the arguments of the same methods of the base class."""
    for name in ("fit", "evaluate", "predict"):
        verb = vars(model_class).get(name)
        if verb is not None and "options" in inspect.signature(verb).parameters:
            verb.__signature__ = _with_arguments_of(verb, getattr(super(model_class, model_class), name))


def _with_arguments_of(verb: Callable, base: Callable) -> inspect.Signature:
    """Returns the signature of `verb` with the arguments of `base` instead of the `**options` that it passes to `base`.

    The arguments have the order of `base`. Those that `verb` takes as options are given by name.
    """
    own = inspect.signature(verb)
    last: list[inspect.Parameter] = []
    shown, further = [], [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
    for name, one in inspect.signature(base).parameters.items():
        if one.kind is one.VAR_KEYWORD:
            last = [one] if one.name == "unknown" else []  # of Keras, what `fit` gives to `evaluate`
        elif name in own.parameters:
            shown.append(own.parameters[name])
        else:
            # Keras has no types.
            annotation = Any if one.annotation is one.empty else one.annotation
            shown.append(one.replace(kind=one.KEYWORD_ONLY, annotation=annotation))
    names = {one.name for one in shown}
    return own.replace(parameters=[*shown, *(one for one in further if one.name not in names), *last])


def options_of(verb: Callable) -> list[inspect.Parameter]:
    """Returns a function's optional arguments."""
    return [one for one in inspect.signature(verb).parameters.values() if one.default is not one.empty]


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
        names = ", ".join(one.name for one in options_of(verb) if one.name not in refused)
        place = f" {where}" if where else ""
        hint = f" {instead[wrong]}" if instead and wrong in instead else ""
        raise InputError(f"{verb.__name__}{place} has no option {wrong}. It has: {names}.{hint}")
