"""Reads pickles of tensors without Python's unpickler, so that no code in the pickle is run.

A pickle is a program for a small virtual machine with a stack and a memo. This is such a machine, limited to the
opcodes that `torch.save` uses for dictionaries of tensors. The keys of dictionaries must be strings or numbers: Python
hashes nested tuples by recursion in C, so deep tuples would crash the process.

Reference: CPython `Lib/pickletools.py`, which also takes the bytes apart.
"""

import io
import pickletools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

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
_LITERALS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
}
_CONSTANTS: dict[str, Callable[[], Any]] = {
    **{"NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False},
    **{"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple},
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
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


def make_parameter(data: Any, *_: Any) -> Any:
    """Returns the tensor of a parameter."""
    return data


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
    ("torch._utils", "_rebuild_parameter"): make_parameter,
    **{("torch", name): dtype for name, dtype in STORAGE_TYPES.items()},
}


def read_tensor_pickle(
    file: io.BytesIO, find: Callable[[str, str], Any], storage: Callable[[Any], Storage] = make_storage
) -> Any:
    """Returns the object that a pickle of tensors describes, and leaves the file position after the pickle.

    Args:
        file: a binary file in memory.
        find: function (module, name) -> entry of `KNOWN_NAMES`; it raises an error for other names.
        storage: converts torch's storage key to a `Storage`.

    Raises:
        Exception: of many kinds, if the pickle is damaged or has an opcode that pickles of tensors do not use.
    """
    stack: list = []
    marks: list[int] = []
    memo: dict[int, Any] = {}

    def since_mark() -> list:
        start = marks.pop()
        items = stack[start:]
        del stack[start:]
        return items

    def last(count: int) -> list:
        items = [stack.pop() for _ in range(count)]
        return items[::-1]

    for opcode, argument, _ in pickletools.genops(file):
        step = opcode.name
        if step in _LITERALS:
            stack.append(argument)
        elif step in _CONSTANTS:
            stack.append(_CONSTANTS[step]())
        elif step == "MARK":
            marks.append(len(stack))
        elif step in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif step == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif step in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif step in _TUPLES:
            stack.append(tuple(last(_TUPLES[step])))
        elif step == "TUPLE":
            stack.append(tuple(since_mark()))
        elif step in ("SETITEM", "SETITEMS"):
            items = last(2) if step == "SETITEM" else since_mark()
            _fill(_checked(stack[-1], dict), zip(items[::2], items[1::2], strict=True))
        elif step in ("APPEND", "APPENDS"):
            items = last(1) if step == "APPEND" else since_mark()
            _checked(stack[-1], list).extend(items)
        elif step in ("GLOBAL", "STACK_GLOBAL"):
            stack.append(find(*(argument.split(" ", 1) if step == "GLOBAL" else last(2))))
        elif step == "BINPERSID":
            stack.append(storage(stack.pop()))
        elif step == "REDUCE":
            function, arguments = last(2)
            stack.append(function(*_checked(arguments, tuple)))  # only `find` gives what can be called
        elif step == "BUILD":
            last(1)  # attributes of a dictionary, such as the versions of torch's modules
            _checked(stack[-1], dict)
        elif step not in ("PROTO", "FRAME", "STOP"):
            raise ValueError(f"the opcode {step}, which pickles of tensors do not use")
    return stack.pop()


def _checked(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"a {type(value).__name__} instead of a {kind.__name__}")
    return value


def _fill(dictionary: dict, pairs: Iterable) -> None:
    for key, value in pairs:
        if not isinstance(key, (str, int)):
            raise ValueError(f"a {type(key).__name__} as the key of a dictionary")
        dictionary[key] = value
