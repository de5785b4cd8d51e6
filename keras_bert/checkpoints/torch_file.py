"""`pytorch_model.bin`: tensors out of a pickle, without torch and without running what is in the pickle.

A pickle is a program. `tensor_pickle` follows only what builds tensors; everything else is refused, unless the user
says that the file is trusted. Both of torch's containers are read: the zip file of today and the bare stream of before
version 1.6. What a pickle says about a tensor is held against the bytes that are there.
"""

import io
import math
import os
import pickle
import struct
import zipfile
from collections.abc import Mapping
from typing import IO, Any, NamedTuple

import numpy as np

from keras_bert.checkpoints.checkpoint import StoredTensor, check_stored_file, numpy_dtype
from keras_bert.checkpoints.safetensors_file import read_array
from keras_bert.checkpoints.tensor_pickle import KNOWN_NAMES, Storage, Tensor, make_storage, read_tensor_pickle
from keras_bert.program.errors import InputError

_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C  # of the bare stream
_LONGEST_PICKLE = 4 << 20  # bytes; that of a BERT LARGE has less than 0.1 MB, since the numbers lie outside


class _Location(NamedTuple):
    """Where the bytes of a storage are in the file."""

    offset: int
    num_bytes: int


def read_torch_file(path: str | os.PathLike, trust_pickle: bool = False) -> dict[str, StoredTensor]:
    """Returns name -> tensor of a state dictionary; the tensors' bytes are read later, one by one.

    Args:
        trust_pickle: whether the file may import and call whatever it names. Never the default: it may do anything.

    Raises:
        InputError: the file is missing, a git-lfs pointer, cut off or no state dictionary; a tensor reaches out of its
            storage; or the file holds something else than tensors and is not trusted.
    """
    path = os.fspath(path)
    check_stored_file(path)
    try:
        content, locations = (_read_zip if zipfile.is_zipfile(path) else _read_stream)(path, trust_pickle)
        if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
            content = content["state_dict"]
        if not isinstance(content, dict):
            raise InputError(f"{path} holds a {type(content).__name__}, and a state dictionary was expected.")
        return {
            str(name): _stored(path, name, value, locations) for name, value in content.items() if type(value) is Tensor
        }
    except InputError:
        raise
    except Exception as error:  # a damaged pickle can raise nearly anything
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"{path} is damaged or is not a file that torch.save wrote ({reason}). Copy it again."
        ) from None


def _stored(path: str, name: str, tensor: Tensor, locations: Mapping[str, _Location]) -> StoredTensor:
    """Returns a tensor of the file. It must lie within its storage, and be no larger.

    With a stride of 0, a few bytes could ask for any amount of memory.
    """
    location, shape, dtype = locations[tensor.storage.name], tensor.shape, tensor.storage.dtype
    item_size = numpy_dtype(dtype).itemsize
    # The stride of an axis of length 1 is never used, and can be any number.
    strides = [stride if size > 1 else 0 for size, stride in zip(shape, tensor.strides, strict=True)]
    reach = 0 if 0 in shape else 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    numbers = location.num_bytes // item_size
    if tensor.first + reach > numbers or math.prod(shape) > numbers:
        raise InputError(
            f"{path} is damaged: {name} has the shape {list(shape)} and the strides {list(tensor.strides)} from number "
            f"{tensor.first} on, which is more than its storage of {numbers} numbers. Copy it again."
        )

    def read() -> np.ndarray:
        flat = read_array(path, location.offset + tensor.first * item_size, (reach,), dtype)
        steps = [stride * item_size for stride in strides]
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(flat, shape, steps)).reshape(shape)

    return StoredTensor(shape, dtype, read)


class _PickleReader:
    """Reads the pickles of one file and notes the storages that they name.

    Attributes:
        item_sizes: the name of a storage -> the bytes of one of its numbers.
    """

    def __init__(self, path: str, trust_pickle: bool):
        self._path, self._trust = path, trust_pickle
        self.item_sizes: dict[str, int] = {}

    def load(self, file: IO[bytes]) -> Any:
        if not self._trust:
            return read_tensor_pickle(file, self._find, self._storage)
        unpickler = _TrustingUnpickler(file, encoding="utf-8")
        unpickler.persistent_load = self._storage
        return unpickler.load()

    def _storage(self, key: Any) -> Storage:
        storage = make_storage(key)
        self.item_sizes.setdefault(storage.name, numpy_dtype(storage.dtype).itemsize)
        return storage

    def _find(self, module: str, name: str) -> Any:
        if (module, name) in KNOWN_NAMES:
            return KNOWN_NAMES[module, name]
        raise InputError(
            f"{self._path} is a pickle that asks for {module}.{name}, which is not a tensor and could do anything on "
            "this machine; nothing of it was run. Use the model.safetensors of this model, or, if you trust whoever "
            "made the file, say trust_pickle."
        )


class _TrustingUnpickler(pickle.Unpickler):
    """Python's own unpickler, which runs code of the file. It makes our tensors instead of torch's."""

    def find_class(self, module: str, name: str) -> Any:
        return KNOWN_NAMES[module, name] if (module, name) in KNOWN_NAMES else super().find_class(module, name)


def _read_zip(path: str, trust_pickle: bool) -> tuple[Any, dict[str, _Location]]:
    with zipfile.ZipFile(path) as archive:
        members = {member.filename: member for member in archive.infolist()}
        pickles = [name for name in members if name.rpartition("/")[2] == "data.pkl"]
        if not pickles:
            raise InputError(f"{path} is a zip file without data.pkl, so torch.save did not write it.")
        if len(members) < len(archive.infolist()) or len(pickles) > 1:
            raise InputError(f"{path} has two files of one name inside, so torch.save did not write it.")
        location = _place_in_zip(archive, members[pickles[0]])
        if location.num_bytes > _LONGEST_PICKLE and not trust_pickle:
            raise InputError(
                f"{path}: its data.pkl has {location.num_bytes:,} bytes, and no list of tensors is so long."
            )
        archive.fp.seek(location.offset)
        content = _PickleReader(path, trust_pickle).load(io.BytesIO(archive.fp.read(location.num_bytes)))
        start = pickles[0].removesuffix("data.pkl") + "data/"
        locations = {
            name.removeprefix(start): _place_in_zip(archive, member)
            for name, member in members.items()
            if name.startswith(start)
        }
    return content, locations


def _place_in_zip(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Location:
    """Returns where the bytes of a member are: torch stores them as they are."""
    if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
        raise InputError(f"{archive.filename}: {member.filename} is compressed, which torch.save never does.")
    archive.fp.seek(member.header_offset)
    header = archive.fp.read(30)
    name_length, extra_length = struct.unpack("<26xHH", header)
    location = _Location(member.header_offset + 30 + name_length + extra_length, member.file_size)
    if not header.startswith(b"PK\3\4") or location.offset + location.num_bytes > os.path.getsize(archive.filename):
        raise ValueError(f"{member.filename} is not where the zip file says")
    return location


def _read_stream(path: str, trust_pickle: bool) -> tuple[Any, dict[str, _Location]]:
    """Magic number, protocol, system, content and the storages' names, each a pickle; then the storages' bytes."""
    size, locations = os.path.getsize(path), {}
    with open(path, "rb") as file:
        pickles = file if trust_pickle else io.BytesIO(file.read(_LONGEST_PICKLE))
        reader = _PickleReader(path, trust_pickle)
        if _PickleReader(path, False).load(pickles) != _MAGIC_NUMBER:
            raise InputError(f"{path} is a pickle that torch.save did not write.")
        _, _, content, names = (reader.load(pickles) for _ in range(4))
        end = pickles.tell()
        for name in names:
            if not isinstance(name, str):
                raise ValueError("the name of a storage is not a string")
            file.seek(end)
            (count,) = struct.unpack("<q", file.read(8))
            locations[name] = _Location(end + 8, count * reader.item_sizes[name])
            end += 8 + locations[name].num_bytes
            if count < 0 or end > size:
                raise ValueError("it is cut off")
    return content, locations
