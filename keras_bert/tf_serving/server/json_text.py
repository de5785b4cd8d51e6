"""JSON as TensorFlow Serving reads and prints it: RapidJSON's rules and texts.

Strings are kept as bytes in disguise: Python strings whose surrogates U+DC80 to U+DCFF are bytes that are not UTF-8
(`surrogateescape`), because TensorFlow Serving hands them on to the model as they came.
"""

import json
import math
import re

from keras_bert.program.json_files import is_deeper
from keras_bert.tf_serving.server.status import StatusError, invalid_argument

# What Python's parser says -> what RapidJSON says. The place of a comma depends on what it stands in.
_ERRORS = {
    "Expecting value": "Invalid value.",
    "Expecting property name enclosed in double quotes": "Missing a name for object member.",
    "Illegal trailing comma before end of object": "Missing a name for object member.",
    "Illegal trailing comma before end of array": "Invalid value.",
    "Expecting ':' delimiter": "Missing a colon after a name of object member.",
    "Unterminated string starting at": "Missing a closing quotation mark in string.",
    "Invalid control character at": "Invalid encoding in string.",
    "Invalid \\escape": "Invalid escape character in string.",
    "Invalid \\uXXXX escape": "Incorrect hex digit after \\u escape in string.",
}
_MISSING_COMMA = {
    "{": "Missing a comma or } after an object member.",
    "[": "Missing a comma or ] after an array element.",
}
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_ESCAPES = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_MAX_DEBUG_CHARACTERS = 256  # as long as TensorFlow Serving quotes a value in an error
_BAD_SURROGATES = "The surrogate pair in string is invalid."
_TOO_DEEP = "Terminate parsing due to Handler error."
# Python 3.12 parses deeper than its functions can call themselves; a tensor has 32 axes at most.
_DEEPEST = 256


class _NumberTooBig(ValueError):
    pass


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _NumberTooBig
    return number


def _parse_int(text: str) -> int | float:
    # Whole numbers beyond 64 bits are floating-point numbers.
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
    """Returns the JSON object at the beginning of a body; what stands behind it is ignored, as RapidJSON is told to.

    Raises:
        StatusError: INVALID_ARGUMENT, with RapidJSON's text for what is wrong and about where.
    """
    text = body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    start = len(text) - len(text.lstrip(" \t\r\n"))
    if start == len(text):
        raise invalid_argument("JSON Parse error: The document is empty", "" if not body else f". at offset: {start}")
    try:
        _check_surrogates(text)
        value, _ = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise _parse_error(_rapidjson_text(error, text), text, error.pos) from None
    except _NumberTooBig:
        raise _parse_error("Number too big to be stored in double.", text, start) from None
    except RecursionError:
        raise _parse_error(_TOO_DEEP, text, start) from None
    if is_deeper(value, _DEEPEST):
        raise _parse_error(_TOO_DEEP, text, start)
    if not isinstance(value, dict):
        raise format_error(value, "Is not object")
    return value


def _check_surrogates(text: str) -> None:
    """Refuses \\ud800 without its second half, and a second half alone."""
    if not _SURROGATE_ESCAPE.search(text):
        return
    half_pair_ends = None
    for match in _ESCAPES.finditer(text):
        unit = int(match[1], 16) if match[1] else 0
        follows_first_half = half_pair_ends == match.start()
        is_second_half = 0xDC00 <= unit < 0xE000
        if is_second_half != follows_first_half or (half_pair_ends is not None and not follows_first_half):
            raise _parse_error(_BAD_SURROGATES, text, match.start())
        half_pair_ends = match.end() if 0xD800 <= unit < 0xDC00 else None
    if half_pair_ends is not None:
        raise _parse_error(_BAD_SURROGATES, text, half_pair_ends)


def _rapidjson_text(error: json.JSONDecodeError, text: str) -> str:
    if error.msg == "Expecting ',' delimiter":
        open_brackets = ["["]
        for bracket in _BRACKETS.findall(text, 0, error.pos):
            if bracket in ("{", "["):
                open_brackets.append(bracket)
            elif bracket in ("}", "]"):
                open_brackets.pop()
        return _MISSING_COMMA[open_brackets[-1]]
    return _ERRORS.get(error.msg, "Invalid value.")


def _parse_error(what: str, text: str, position: int) -> StatusError:
    offset = len(text[:position].encode("utf-8", "surrogateescape"))
    return invalid_argument("JSON Parse error: ", what, " at offset: ", offset)


def format_error(value, what: str) -> StatusError:
    """Returns TensorFlow Serving's error about a value that has a wrong form."""
    return invalid_argument("JSON Value: ", debug_text(value), " ", what)


def type_name(value) -> str:
    """Returns RapidJSON's name of the type of a value: 1.5 -> 'Number'."""
    if value is None or isinstance(value, bool):
        return {None: "Null", True: "True", False: "False"}[value]
    kinds = ((str, "String"), (dict, "Object"), (list, "Array"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "Number")


def debug_text(value) -> str:
    """Returns a value as TensorFlow Serving quotes it in errors: pretty, arrays on one line, the beginning only."""
    return "".join(_debug_parts(value, 1, [_MAX_DEBUG_CHARACTERS]))


def _debug_parts(value, level: int, left: list[int]):
    if left[0] <= 0:
        return
    if isinstance(value, dict):
        indent = "    " * level
        yield "{"
        for number, (key, member) in enumerate(value.items()):
            if left[0] <= 0:
                break
            yield ("," if number else "") + "\n" + indent + quoted(key) + ": "
            left[0] -= len(key) + len(indent) + 5
            yield from _debug_parts(member, level + 1, left)
        yield "\n" + indent[:-4] + "}" if value else "}"
    elif isinstance(value, list):
        yield "["
        for number, member in enumerate(value):
            if left[0] <= 0:
                break
            yield ", " if number else ""
            left[0] -= 2
            yield from _debug_parts(member, level + 1, left)
        yield "]"
    else:
        text = quoted(value[:_MAX_DEBUG_CHARACTERS]) if isinstance(value, str) else json.dumps(value)
        left[0] -= len(text)
        yield text


_ESCAPED = {number: f"\\u{number:04X}" for number in range(32)}
_ESCAPED |= {ord(character): f"\\{name}" for character, name in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)}


def quoted(text: str) -> str:
    """Returns a JSON string with RapidJSON's escapes: only those that are needed."""
    return f'"{text.translate(_ESCAPED)}"'


def error_body(message: str) -> bytes:
    """Returns the body of every answer that is an error."""
    return f'{{\n    "error": {quoted(message)}\n}}'.encode("utf-8", "surrogateescape")
