"""Reads pickles of tensors without running code in them.

A pickle is a program for a small virtual machine with a stack and a memo. `TensorUnpickler` is Python's machine with
the opcodes and names that `torch.save` uses for dictionaries of tensors only.

Reference: CPython `Lib/pickle.py`.
"""

import pickle
import pickletools
from collections.abc import Callable, Iterable
from typing import IO, Any, NamedTuple

from keras_bert.program.errors import InputError

STORAGE_TYPES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}
# Opcodes of lists, dictionaries, tuples, literals and the memo, and those that name and call a function.
_OPCODES = (
    *("PROTO", "FRAME", "STOP", "MARK", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GET", "BINGET", "LONG_BINGET"),
    *("NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"),
    *("FLOAT", "BINFLOAT", "STRING", "BINSTRING", "SHORT_BINSTRING"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "TUPLE", "APPEND", "APPENDS"),
    *("GLOBAL", "STACK_GLOBAL", "REDUCE", "BINPERSID"),
)
_MOST_AXES = 32


class Storage(NamedTuple):
    """The data of one or several tensors: NumPy's name of the dtype, and the name of the data in the file."""

    dtype: str
    name: str


class PickledTensor(NamedTuple):
    """A tensor in a storage: the index of its first element, its shape, and its strides in elements."""

    storage: Storage
    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def make_storage(key: Any) -> Storage:
    """Returns the storage for torch's storage key, ("storage", type, name, device, number of elements, ...)."""
    if not isinstance(key, tuple) or len(key) < 3 or not all(isinstance(part, str) for part in key[:3]):
        raise ValueError("a storage without type and name")
    if key[1] not in STORAGE_TYPES.values():
        raise ValueError(f"a storage of the type {key[1]}")
    return Storage(*key[1:3])


def make_tensor(storage: Any, first: Any, shape: Any, strides: Any, *_: Any) -> PickledTensor:
    """Returns a tensor, with the arguments of `torch._utils._rebuild_tensor_v2`."""
    if not isinstance(storage, Storage) or not isinstance(shape, tuple) or not isinstance(strides, tuple):
        raise ValueError("a tensor without storage, shape and strides")
    if len(shape) != len(strides) or len(shape) > _MOST_AXES:
        raise ValueError(f"a tensor of {len(shape)} axes and {len(strides)} strides")
    if any(type(number) is not int or number < 0 for number in (first, *shape, *strides)):
        raise ValueError("a tensor whose start, shape or strides are not whole numbers from 0")
    return PickledTensor(storage, first, tuple(shape), tuple(strides))


def make_dictionary(*pairs: list) -> dict:
    """Returns the dictionary of an `OrderedDict`; Python 2 pickled it as a list of pairs."""
    found: dict = {}
    for items in pairs:
        _fill(found, _checked(items, list))
        items.clear()  # so that a small file cannot create many dictionaries from one list
    return found


# (module, name) in a pickle -> our function that replaces it.
KNOWN_NAMES: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): make_dictionary,
    ("torch._utils", "_rebuild_tensor_v2"): make_tensor,
    ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
    **{("torch", name): dtype for name, dtype in STORAGE_TYPES.items()},
}


class _Opcodes(dict):
    """Opcode -> the method that runs it; others are refused by name."""

    def __missing__(self, opcode: int) -> Any:
        known = pickletools.code2op.get(chr(opcode))
        raise ValueError(f"the opcode {known.name if known else opcode}, which pickles of tensors do not use")


class TensorUnpickler(pickle._Unpickler):
    """Reads a pickle of tensors. What it calls are functions of `KNOWN_NAMES`, so nothing of the pickle is run.

    The base class is Python's unpickler in Python: the one in C allocates memory by the largest index of the memo. All
    lengths in a pickle are lengths of bytes that it reads from the file, so memory is bounded by the file in memory.

    Args:
        file: a binary file in memory. Its position is after the pickle when `load` returns.
        path: the name of the file, for error messages.
        storage: converts torch's storage key to a `Storage`.

    `load` raises `InputError` for a pickle with another name, and errors of many kinds for a damaged one.
    """

    dispatch = _Opcodes({code: pickle._Unpickler.dispatch[code] for code in (getattr(pickle, o)[0] for o in _OPCODES)})

    def __init__(self, file: IO[bytes], path: str, storage: Callable[[Any], Storage] = make_storage):
        super().__init__(file, encoding="latin-1")
        self._path, self._storage = path, storage

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in KNOWN_NAMES:
            return KNOWN_NAMES[module, name]
        raise InputError(
            f"{self._path} is a pickle that imports {module}.{name}, which is not part of a tensor and could do "
            "anything on this machine; it was not run. Use the model.safetensors of this model, or set trust_pickle if "
            "you trust the source of the file."
        )

    def persistent_load(self, key: Any) -> Storage:
        return self._storage(key)

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _fill(_checked(self.stack[-1], dict), [(key, value)])

    def load_setitems(self) -> None:
        items = self.pop_mark()
        _fill(_checked(self.stack[-1], dict), zip(items[::2], items[1::2], strict=True))

    def load_build(self) -> None:
        """Passes over attributes, such as the versions of torch's modules. Python's own method would set them."""
        self.stack.pop()
        _checked(self.stack[-1], dict)

    dispatch |= {pickle.SETITEM[0]: load_setitem, pickle.SETITEMS[0]: load_setitems, pickle.BUILD[0]: load_build}


def _checked(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"a {type(value).__name__} instead of a {kind.__name__}")
    return value


def _fill(dictionary: dict, pairs: Iterable) -> None:
    for key, value in pairs:
        # Python hashes nested tuples by recursion in C, so deep ones would crash the process.
        if not isinstance(key, (str, int)):
            raise ValueError(f"a {type(key).__name__} as the key of a dictionary")
        dictionary[key] = value
