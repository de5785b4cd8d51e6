"""Converts strings to the bytes of messages and back."""

from collections.abc import Sequence

import numpy as np

from keras_bert.program.errors import InputError


def string_to_bytes(value: str | bytes) -> bytes:
    """Returns the bytes to send for a string: `bytes` unchanged, `str` as UTF-8.

    Raises:
        InputError: `value` is not a string, or has half a surrogate pair.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            # Python decodes invalid UTF-8 of command lines and files as surrogates.
            return value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise InputError(f"The text {value!r} has half a surrogate pair, which UTF-8 does not have.") from error
    raise InputError(f"A tensor of strings holds {value!r}, which is neither str nor bytes.")


def bytes_to_string(value: bytes) -> str | bytes:
    """Returns `str` for bytes that are UTF-8, and other bytes unchanged: b"a" -> "a", b"\\xff" -> b"\\xff"."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value


def string_array(strings: Sequence) -> np.ndarray:
    """Returns an object array `[N]`; numpy's own strings would lose trailing NULs."""
    array = np.empty(len(strings), object)
    array[:] = strings
    return array


def map_strings(function, array: np.ndarray) -> np.ndarray:
    """Returns an object array of the same shape with `function` applied to every element."""
    return string_array([function(value) for value in array.ravel().tolist()]).reshape(array.shape)
