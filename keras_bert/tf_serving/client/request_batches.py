"""Converts inputs to arrays, splits their rows into requests and joins the answers."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.program.user_inputs import as_column

# The default of the most rows that clients send in one request.
ROWS_OF_A_REQUEST = 64


def as_arrays(inputs: Mapping) -> dict[str, np.ndarray]:
    """Returns the inputs as arrays; strings as object arrays of `bytes`.

    Arrays keep their type. Lists are converted as TensorFlow converts them: whole numbers become int32, or int64 if
    they do not fit, other numbers float32. An empty list has strings, and a single string is a list of one.

    Raises:
        InputError: there is no input, rows have different lengths, or a value is neither a string nor a number.
    """
    if not inputs:
        raise InputError('No input was given. Name each as the signature does: predict(text=["a film"]).')
    return {name: _as_array(name, value) for name, value in inputs.items()}


def map_strings(function: Callable, array: np.ndarray) -> np.ndarray:
    """Returns an object array of the same shape with `function` applied to every element."""
    mapped = np.empty(array.size, object)  # numpy's own strings would lose trailing NULs
    mapped[:] = [function(value) for value in array.ravel().tolist()]
    return mapped.reshape(array.shape)


def string_to_bytes(value: Any) -> bytes:
    """Returns `bytes` unchanged, and `str` as UTF-8. Raises `InputError` for others, and for half a surrogate pair."""
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


def split_rows(inputs: Mapping[str, np.ndarray], batch_size: int | None) -> Iterator[tuple[range, dict]]:
    """Yields (range of rows, these rows of every input), `batch_size` rows at a time; all rows at once for None.

    Raises `InputError` if the inputs have different numbers of rows, or the batch size is not positive.
    """
    if batch_size is None:
        yield range(0), dict(inputs)
        return
    check_whole("batch_size", batch_size, at_least=1)
    counts = {name: array.shape[0] if array.ndim else None for name, array in inputs.items()}
    if len(set(counts.values())) > 1 or None in counts.values():
        found = ", ".join(
            f"{name} {'is a single value' if rows is None else f'has {rows}'}" for name, rows in counts.items()
        )
        raise InputError(f"All inputs must have equally many rows: {found}. With batch_size=None they go as they are.")
    count = next(iter(counts.values()))
    # Inputs without rows are sent too: the answer names the outputs.
    for start in range(0, max(count, 1), batch_size):
        stop = min(start + batch_size, count)
        yield range(start, stop), {name: array[start:stop] for name, array in inputs.items()}


def join_rows(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Returns the answers to several requests as one. Narrow outputs are padded as our exports pad them.

    The padding is "" for strings, 0 for floats and for ids (`..._ids`), False for booleans, and -1 for other whole
    numbers, which are positions. Raises `InputError` if an output has no rows, or axes that differ between answers.
    """
    if len(parts) == 1:
        return parts[0]
    joined = {}
    for name in parts[0]:
        arrays = [part[name] for part in parts]
        if any(array.ndim != arrays[0].ndim or not array.ndim for array in arrays):
            raise InputError(f"The output {name} cannot be joined: it has no rows. Use batch_size=None.")
        # The type of an empty list in JSON is unknown, so only arrays with values count.
        dtype = np.result_type(*([array.dtype for array in arrays if array.size] or [arrays[0].dtype]))
        inner = np.max([array.shape[1:] for array in arrays], axis=0).astype(int)
        whole = np.full((sum(map(len, arrays)), *inner), _padding(name, dtype), dtype)
        start = 0
        for array in arrays:
            if array.size:
                place = (slice(start, start + len(array)), *(slice(size) for size in array.shape[1:]))
                whole[place] = array
            start += len(array)
        joined[name] = whole
    return joined


def _padding(name: str, dtype: np.dtype):
    if dtype.kind == "O":
        return ""
    return -1 if dtype.kind == "i" and not name.endswith("_ids") else 0


def _as_array(name: str, value) -> np.ndarray:
    if isinstance(value, np.ndarray):
        array = value.astype(object) if value.dtype.kind in "SUT" else value
    else:
        try:
            # Objects first: numpy's own strings lose trailing NULs.
            array = np.array(as_column(value), dtype=object)
        except ValueError as error:
            raise InputError(f"The rows of {name} have different lengths; fill the short ones up.") from error
        array = _numbers(name, array)
    if array.dtype != object:
        return array
    if any(isinstance(item, (list, tuple, np.ndarray)) for item in array.ravel()):
        raise InputError(f"The rows of {name} have different lengths; fill the short ones up.")
    try:
        return map_strings(string_to_bytes, array)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def _numbers(name: str, array: np.ndarray) -> np.ndarray:
    """Returns an array of Python numbers with TensorFlow's type for them; other arrays unchanged."""
    kinds = {type(item) for item in array.ravel().tolist()}
    if not kinds or not all(issubclass(kind, (bool, int, float, np.number, np.bool_)) for kind in kinds):
        return array
    try:
        numbers = np.array(array.tolist())
    except OverflowError:
        numbers = array
    if numbers.dtype == object:
        raise InputError(f"{name} has a whole number that does not fit into 64 bits.")
    if any(issubclass(kind, np.generic) for kind in kinds):
        return numbers
    if numbers.dtype == np.int64 and np.array_equal(numbers.astype(np.int32), numbers):
        return numbers.astype(np.int32)
    return numbers.astype(np.float32) if numbers.dtype == np.float64 else numbers
