"""Reads and writes JSON text with TensorFlow Serving's rules.

Strings that are not UTF-8 keep their bytes as surrogates U+DC80 to U+DCFF (`surrogateescape`), because TensorFlow
Serving passes strings to the model unchanged.
"""

import json
import math
import re
import reprlib

from keras_bert.program.json_files import is_deeper
from keras_bert.tf_serving.server.status import StatusError, invalid_argument

# An escaped pair of surrogates, half of a pair (group 1), or any other escape.
_ESCAPES = re.compile(r"\\(?:u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|(u[dD][89a-fA-F])|.)", re.DOTALL)
# Python 3.12 parses deeper nesting than recursive Python functions can process. Tensors have at most 32 axes.
_DEEPEST = 256
_KINDS = {type(None): "null", bool: "boolean", str: "string", dict: "object", list: "array"}


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is too large for 64 bits")
    return number


def _parse_int(text: str) -> int | float:
    # Integers beyond 64 bits become floating-point numbers.
    if len(text) < 19:
        return int(text)
    if len(text) > 25:
        return _parse_float(text)
    number = int(text)
    return number if -(2**63) <= number < 2**64 else float(number)


def _first_member_counts(pairs: list[tuple[str, object]]) -> dict:
    members = dict(pairs)
    if len(members) != len(pairs):
        members.update(reversed(pairs))
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_first_member_counts, parse_float=_parse_float, parse_int=_parse_int)


def parse_object(body: bytes) -> dict:
    """Returns the JSON object at the start of a body. Like TensorFlow Serving, it ignores any text after it.

    Raises:
        StatusError: INVALID_ARGUMENT; the message has the error and its byte position.
    """
    text = body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    start = len(text) - len(text.lstrip(" \t\r\n"))
    try:
        _check_surrogates(text)
        value, _ = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        byte = len(text[: error.pos].encode("utf-8", "surrogateescape"))
        raise _not_json(f"{error.msg} at byte {byte}") from None
    except ValueError as error:
        raise _not_json(str(error)) from None
    except RecursionError:
        raise _not_json(f"it is nested deeper than {_DEEPEST} levels") from None
    if is_deeper(value, _DEEPEST):
        raise _not_json(f"it is nested deeper than {_DEEPEST} levels")
    if not isinstance(value, dict):
        raise invalid_argument("The body must be a JSON object. Received: ", shown(value))
    return value


def _not_json(reason: str) -> StatusError:
    return invalid_argument("The body must be a JSON object. It cannot be read as JSON: ", reason)


def _check_surrogates(text: str) -> None:
    """Raises an error for \\ud800 without its second half, and for a second half alone."""
    if any(match[1] for match in _ESCAPES.finditer(text)):
        raise ValueError("a string has half of a surrogate pair")


def kind_of(value) -> str:
    """Returns JSON's name for the type of a value: 1.5 -> 'number'."""
    return _KINDS.get(type(value), "number")


def shown(value) -> str:
    """Returns the beginning of a value for an error message."""
    return reprlib.repr(value)


def quoted(text: str) -> str:
    """Returns a JSON string in which only quotes, backslashes and control characters are escaped."""
    return json.dumps(text, ensure_ascii=False)


def error_body(message: str) -> bytes:
    """Returns the body of an error answer."""
    return f'{{"error": {quoted(message)}}}'.encode("utf-8", "surrogateescape")
