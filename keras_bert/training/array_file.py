"""`.npz` files of arrays of any type that variables have, bfloat16 and float8 among them."""

import os
from collections.abc import Mapping
from typing import IO

import numpy as np

from keras_bert.checkpoints.checkpoint import numpy_dtype

# NumPy's format has no names for the types of ml_dtypes. Their bytes are stored as whole numbers of that size, and the
# name of the type in an entry beside them.
_TYPE_ENTRY = "{}.dtype"
_BUILT_INTO_NUMPY = 1


def write_arrays(file: str | os.PathLike | IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    """Writes an `.npz` file; arrays of NumPy's own types are stored as `numpy.savez` stores them."""
    entries = {}
    for name, array in arrays.items():
        array = np.asarray(array)
        if array.dtype.isbuiltin != _BUILT_INTO_NUMPY:
            entries[_TYPE_ENTRY.format(name)] = np.array(array.dtype.name)
            array = array.view(f"u{array.dtype.itemsize}")
        entries[name] = array
    np.savez(file, **entries)


def read_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Returns what `write_arrays` has written, or `numpy.savez`.

    Raises:
        Exception: zipfile and NumPy have many for what they cannot read.
    """
    with open(path, "rb") as file, np.load(file) as saved:
        entries = {name: saved[name] for name in saved.files}
    types = {name: entries.pop(entry) for name in list(entries) if (entry := _TYPE_ENTRY.format(name)) in entries}
    return {name: _typed(array, types.get(name)) for name, array in entries.items()}


def _typed(array: np.ndarray, name: np.ndarray | None) -> np.ndarray:
    if name is not None:
        return array.view(numpy_dtype(str(name)))
    # Files of before had the bytes of bfloat16 alone, the only type of two bytes that NumPy does not name.
    return array.view(numpy_dtype("bfloat16")) if array.dtype == np.dtype("V2") else array
