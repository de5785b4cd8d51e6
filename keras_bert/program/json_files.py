"""JSON that strangers wrote: configs, tokenizers, headers, manifests.

Python's parser takes any size and, up to its recursion limit, any depth; what reads the values then fails far from the
file. Here a file is bounded before it is parsed, and its values are checked for their types when they are taken out.
"""

import json
import os
import reprlib
from collections.abc import Collection, Mapping
from typing import Any

from keras_bert.program.errors import InputError

LARGEST_FILE = 16 << 20  # bytes; the tokenizer.json of multilingual BERT has 3 MB
_DEEPEST = 100  # what is written back, or copied, must stay far from Python's recursion limit
_CONTAINERS = {dict, list}
_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "a whole number"}


def read_json_object(path: str | os.PathLike) -> dict[str, Any]:
    """Returns the JSON object that a file holds.

    Raises:
        InputError: as `read_json`, or the file holds something else than one object.
    """
    return _object(read_json(path), os.fspath(path))


def read_json(path: str | os.PathLike) -> Any:
    """Returns the JSON value that a file holds.

    Raises:
        InputError: the file cannot be read or has more than 16 MiB, is not JSON in UTF-8, or is nested more than 100
            deep.
    """
    path = os.fspath(path)
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from None
    if len(content) > LARGEST_FILE:
        raise InputError(f"{path} has more than {LARGEST_FILE:,} bytes, and no JSON file of a model is so large.")
    return parse_json(content, path)


def parse_json_object(content: bytes | str, where: str) -> dict[str, Any]:
    """Returns the JSON object that a text holds; `where` begins the message of an error.

    Raises:
        InputError: as `parse_json`, or the text holds something else than one object.
    """
    return _object(parse_json(content, where), where)


def _object(values: Any, where: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise InputError(f"{where} must hold one JSON object. Received: {type(values).__name__}")
    return values


def parse_json(content: bytes | str, where: str) -> Any:
    """Returns the JSON value that a text holds.

    Raises:
        InputError: it is not JSON in UTF-8, or is nested more than 100 deep.
    """
    too_deep = (
        f"{where} is nested more than {_DEEPEST} deep, and no file of a model is. It is damaged, or made to harm."
    )
    try:
        values = json.loads(content.decode("utf-8") if isinstance(content, bytes) else content)
    except RecursionError:
        raise InputError(too_deep) from None
    except ValueError as error:
        raise InputError(f"{where} is not JSON: {error}") from None
    if is_deeper(values, _DEEPEST):
        raise InputError(too_deep)
    return values


def is_deeper(value: Any, depth: int) -> bool:
    """Returns whether lists and objects are nested more than `depth` deep, without a recursion.

    >>> is_deeper([[1], 2], 2), is_deeper([[1], 2], 1)
    (False, True)
    """
    level = _containers([value])
    for _ in range(depth):
        level = [inner for item in level for inner in _containers(item.values() if type(item) is dict else item)]
        if not level:
            return False
    return True


def _containers(items: Collection[Any]) -> list:
    # Long lists of numbers are common, and mostly what a request consists of: they are passed over in C.
    if _CONTAINERS.isdisjoint(map(type, items)):
        return []
    return [item for item in items if type(item) in _CONTAINERS]


def checked(value: Any, kind: type, name: str, where: str) -> Any:
    """Returns a value that must be of a type: dict, list, str, bool or int.

    Raises:
        InputError: it is not; the message begins with `where`, the file, and names it `name`.
    """
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InputError(f"{where}: {name} must be {_KINDS[kind]}. Received: {reprlib.repr(value)}")
    return value


def member(values: Mapping[str, Any], name: str, kind: type, where: str, default: Any = None) -> Any:
    """Returns the member of an object, `checked`, or `default` where it is missing or null."""
    value = values.get(name)
    return default if value is None else checked(value, kind, name, where)


def strings(values: Mapping[str, Any], name: str, where: str) -> list[str]:
    """Returns the list of strings that is a member of an object, `checked`; none where it is missing or null."""
    return [checked(item, str, f"each of {name}", where) for item in member(values, name, list, where, [])]
