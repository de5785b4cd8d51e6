"""Reads JSON from untrusted sources: configs, tokenizers, headers, manifests. Writes our own.

Python's parser accepts any size and almost any depth, so bad files would fail far from the place where they are read.
These functions limit the size, the number of values and the depth of a file, and check the type of each value that is
taken out.
"""

import json
import os
import re
import reprlib
from collections.abc import Collection, Mapping
from typing import Any

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import read_small_file

# An empty list takes 3 bytes in a file and 64 in memory. The tokenizer.json with most values, XLM-V's, has 2.7 million.
_MOST_VALUES = 1 << 22
_DEEPEST = 100  # levels; far below Python's recursion limit, which writing or copying the values must not reach
_CONTAINERS = {dict, list}
_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "a whole number"}


def write_json(path: str | os.PathLike, values: Any, indent: int = 2) -> None:
    """Writes a JSON file, completely or not at all. Characters are written as they are, in UTF-8."""
    with atomic_file(path) as file:
        file.write((json.dumps(values, indent=indent, ensure_ascii=False) + "\n").encode("utf-8"))


def read_json_object(path: str | os.PathLike) -> dict[str, Any]:
    """Returns the JSON object that a file holds. Raises `InputError` as `read_json`, or if it is no object."""
    return parse_json_object(read_small_file(path), os.fspath(path))


def read_json(path: str | os.PathLike) -> Any:
    """Returns the JSON value that a file holds.

    Raises:
        InputError: the file cannot be read, has more than 48 MiB, or for the reasons given in `parse_small_json`.
    """
    return parse_small_json(read_small_file(path), os.fspath(path))


def parse_small_json(content: bytes | str, where: str) -> Any:
    """As `parse_json_line`, for files of models. Half of a surrogate pair in a string raises `InputError` too."""
    values = parse_json_line(content, where)
    if _HALF_PAIR.search(content if isinstance(content, bytes) else content.encode("utf-8", "replace")):
        try:
            json.dumps(values, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            half = f"\\u{ord(error.object[error.start]):x}"
            raise InputError(
                f"{where} has a string with half of a surrogate pair, {half}, which no text can hold. The file is "
                "damaged: get it again, or write \\ufffd there."
            ) from None
    return values


def parse_json_line(content: bytes | str, where: str) -> Any:
    """As `parse_json`, for texts whose values must fit in memory many times over: a line of a file.

    More than four million values raise `InputError` too.
    """
    # Each value has a comma or a colon before it, or is the first in its list. Marks in texts are counted too.
    num_values = sum(map(content.count, b",:[" if isinstance(content, bytes) else ",:["))
    if num_values > _MOST_VALUES:
        raise InputError(
            f"{where} has {num_values:,} values, more than the {_MOST_VALUES:,} that any file of a model or row of "
            "data needs. Give the right file."
        )
    return parse_json(content, where)


def parse_json_object(content: bytes | str, where: str) -> dict[str, Any]:
    """Returns the JSON object that a part of a model's file holds. Error messages begin with `where`, the source.

    Raises:
        InputError: as `parse_small_json`, or the value is not an object.
    """
    values = parse_small_json(content, where)
    if not isinstance(values, dict):
        raise InputError(f"{where} must hold one JSON object. Received: {type(values).__name__}")
    return values


def parse_json(content: bytes | str, where: str) -> Any:
    """Returns the JSON value that a text holds. Error messages begin with `where`, the name of the source.

    Raises:
        InputError: the text is not JSON in UTF-8, or is nested more than 100 levels deep.
    """
    too_deep = (
        f"{where} is nested more than {_DEEPEST} deep, deeper than any file of a model. It is damaged or malicious: "
        "get it again from a source that you trust."
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
    """Returns whether lists and objects are nested more than `depth` levels deep. Works without recursion.

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
    # Requests consist mostly of long lists of numbers. This test skips such a list in C.
    if _CONTAINERS.isdisjoint(map(type, items)):
        return []
    return [item for item in items if type(item) in _CONTAINERS]


def checked(value: Any, kind: type, name: str, where: str) -> Any:
    """Returns `value` if it has the type `kind`: dict, list, str, bool or int.

    Raises:
        InputError: it has another type. The message begins with `where`, the file, and calls the value `name`.
    """
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InputError(f"{where}: {name} must be {_KINDS[kind]}. Received: {reprlib.repr(value)}")
    return value


def member(values: Mapping[str, Any], name: str, kind: type, where: str, default: Any = None) -> Any:
    """Returns `values[name]` after a type check (see `checked`), or `default` if it is missing or null."""
    value = values.get(name)
    return default if value is None else checked(value, kind, name, where)


def strings(values: Mapping[str, Any], name: str, where: str) -> list[str]:
    """Returns the list of strings `values[name]` after a type check, or an empty list if it is missing or null."""
    return [checked(item, str, f"each of {name}", where) for item in member(values, name, list, where, [])]
