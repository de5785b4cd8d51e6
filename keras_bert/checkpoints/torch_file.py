"""`pytorch_model.bin`: tensors out of a pickle, without torch and without running what is in the pickle.

A pickle is a program. The reader here lets it call only what builds tensors: three functions, which are replaced by
our own, and the names of torch's types of storage. Everything else is refused, unless the user says that the file is
trusted. Both of torch's containers are read: the zip file of today and the bare stream of before version 1.6.
"""

import collections
import io
import os
import pickle
import struct
import zipfile
from typing import Any

import numpy as np

from keras_bert.checkpoints.checkpoint import StoredTensor, check_stored_file, numpy_dtype
from keras_bert.checkpoints.safetensors_file import read_array
from keras_bert.errors import InputError

_STORAGES = {
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
_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C  # of the bare stream


def read_torch_file(path: str | os.PathLike, trust_pickle: bool = False) -> dict[str, StoredTensor]:
    """Returns name -> tensor of a state dictionary; the tensors' bytes are read later, one by one.

    Args:
        trust_pickle: whether the file may import and call whatever it names. Never the default: it may do anything.

    Raises:
        InputError: the file is missing, a git-lfs pointer, cut off, no state dictionary, or it holds something else
            than tensors and is not trusted.
    """
    path = os.fspath(path)
    check_stored_file(path)
    try:
        content = _read_zip(path, trust_pickle) if zipfile.is_zipfile(path) else _read_stream(path, trust_pickle)
    except InputError:
        raise
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise InputError(
            f"{path} is damaged or is not a file that torch.save wrote ({error}). Copy it again."
        ) from None
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__}, and a state dictionary was expected.")
    return {str(name): _as_tensor(value) for name, value in content.items() if isinstance(value, _Tensor)}


class _Storage:
    """The bytes of one or several tensors: in a file, at `offset`."""

    def __init__(self, path: str, dtype: str, offset: int | None = None):
        self.path, self.dtype, self.offset = path, dtype, offset


class _Tensor:
    """What torch's own functions would make a tensor of: a storage, and where in it the numbers are."""

    def __init__(self, storage: _Storage, first: int, shape: tuple[int, ...], strides: tuple[int, ...], *_):
        self.storage, self.first, self.shape, self.strides = storage, first, tuple(shape), tuple(strides)


def _as_tensor(tensor: _Tensor) -> StoredTensor:
    item_size = numpy_dtype(tensor.storage.dtype).itemsize

    def read() -> np.ndarray:
        reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides, strict=True)) + 1
        offset = tensor.storage.offset + tensor.first * item_size
        flat = read_array(tensor.storage.path, offset, (reach,), tensor.storage.dtype)
        strides = [stride * item_size for stride in tensor.strides]
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(flat, tensor.shape, strides))

    return StoredTensor(tensor.shape, tensor.storage.dtype, read)


def _parameter(data: _Tensor, *_) -> _Tensor:
    return data


_ALLOWED = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _Tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    **{("torch", name): dtype for name, dtype in _STORAGES.items()},
}


class _TensorUnpickler(pickle.Unpickler):
    """An unpickler that knows tensors and nothing else."""

    def __init__(self, file, path: str, storages: dict[str, _Storage], trust_pickle: bool):
        super().__init__(file, encoding="utf-8")
        self._path, self._storages, self._trust = path, storages, trust_pickle

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        if self._trust:
            return super().find_class(module, name)
        raise InputError(
            f"{self._path} is a pickle that asks for {module}.{name}, which is not a tensor and could do anything on "
            "this machine; nothing of it was run. Use the model.safetensors of this model, or, if you trust whoever "
            "made the file, say trust_pickle."
        )

    def persistent_load(self, key: tuple) -> _Storage:
        _, dtype, name, *_ = key  # ("storage", type, key, device, number of elements)
        return self._storages.setdefault(name, _Storage(self._path, dtype))


def _read_zip(path: str, trust_pickle: bool):
    storages: dict[str, _Storage] = {}
    with zipfile.ZipFile(path) as archive:
        pickles = [name for name in archive.namelist() if name.endswith("data.pkl")]
        if not pickles:
            raise InputError(f"{path} is a zip file without data.pkl, so torch.save did not write it.")
        content = _TensorUnpickler(io.BytesIO(archive.read(pickles[0])), path, storages, trust_pickle).load()
        for name, storage in storages.items():
            storage.offset = _offset_in_zip(archive, pickles[0].removesuffix("data.pkl") + f"data/{name}")
    return content


def _offset_in_zip(archive: zipfile.ZipFile, name: str) -> int:
    """Returns where the bytes of a member start: torch stores them as they are."""
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED:
        raise InputError(f"{archive.filename}: {name} is compressed, which torch.save never does.")
    archive.fp.seek(member.header_offset + 26)
    name_length, extra_length = struct.unpack("<HH", archive.fp.read(4))
    return member.header_offset + 30 + name_length + extra_length


def _read_stream(path: str, trust_pickle: bool):
    """Magic number, protocol, system, content and the storages' names, each a pickle; then the storages' bytes."""
    storages: dict[str, _Storage] = {}
    with open(path, "rb") as file:
        if _TensorUnpickler(file, path, storages, False).load() != _MAGIC_NUMBER:
            raise InputError(f"{path} is a pickle that torch.save did not write.")
        for _ in range(2):
            _TensorUnpickler(file, path, storages, False).load()
        content = _TensorUnpickler(file, path, storages, trust_pickle).load()
        for name in _TensorUnpickler(file, path, storages, False).load():
            (count,) = struct.unpack("<q", file.read(8))
            storages[name].offset = file.tell()
            file.seek(count * numpy_dtype(storages[name].dtype).itemsize, os.SEEK_CUR)
    return content
