"""Strings on the wire are bytes; in Python they are `str` where they can be."""

import numpy as np

from keras_bert.program.errors import InputError


def string_to_bytes(value: str | bytes) -> bytes:
    """Returns a string as the bytes that are sent: `bytes` as they are, `str` as UTF-8.

    Raises:
        InputError: `value` is no string, or holds half a surrogate pair.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            # Python holds bytes of a command line or a file that are not UTF-8 as surrogates.
            return value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise InputError(f"The text {value!r} has half a surrogate pair, which UTF-8 does not have.") from error
    raise InputError(f"A tensor of strings holds {value!r}, which is neither str nor bytes.")


def bytes_to_string(value: bytes) -> str | bytes:
    """Returns bytes that are UTF-8 as `str`, and others as they are: b"a" -> "a", b"\\xff" -> b"\\xff"."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value


def map_strings(function, array: np.ndarray) -> np.ndarray:
    """Returns an array of objects of the same shape: `function` of every element."""
    result = np.empty(array.shape, object)
    result.ravel()[:] = [function(value) for value in array.ravel().tolist()]
    return result
