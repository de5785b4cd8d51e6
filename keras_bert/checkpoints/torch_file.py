"""Reads the tensors of `pytorch_model.bin` without torch and without running code from the pickle.

Both of torch's formats are supported: the zip file, and the bare stream of versions before 1.6. The shapes in the
pickle are checked against the stored bytes.
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

from keras_bert.checkpoints.checkpoint import StoredTensor, check_stored_file, check_stored_once, numpy_dtype
from keras_bert.checkpoints.safetensors_file import read_array
from keras_bert.checkpoints.tensor_pickle import KNOWN_NAMES, PickledTensor, Storage, TensorUnpickler, make_storage
from keras_bert.program.errors import InputError

_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C  # starts the bare stream
_MOST_NAMES = 8  # of the same bytes, which tied layers share
_LONGEST_PICKLE = 4 << 20  # bytes; the pickle of a BERT LARGE has less than 0.1 MB, since the numbers are outside of it


class _Location(NamedTuple):
    """Where the bytes of a storage are in the file."""

    offset: int
    num_bytes: int


def read_torch_file(path: str | os.PathLike, trust_pickle: bool = False) -> dict[str, StoredTensor]:
    """Returns name -> tensor of a state dictionary. Tensors are read on demand.

    With `trust_pickle` the file may import and call anything: use it only for files from a trusted source.

    Raises:
        InputError: the file is missing, a git-lfs pointer, cut off or not a state dictionary; a tensor exceeds its
            storage; or the file contains something else than tensors and is not trusted.
    """
    path = os.fspath(path)
    check_stored_file(path)
    try:
        content, locations = (_read_zip if zipfile.is_zipfile(path) else _read_stream)(path, trust_pickle)
        if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
            content = content["state_dict"]
        if not isinstance(content, dict):
            raise InputError(f"{path} holds a {type(content).__name__}, but a state dictionary was expected.")
        tensors = {
            str(name): _stored(path, name, value, locations)
            for name, value in content.items()
            if type(value) is PickledTensor
        }
        check_stored_once(path, tensors, os.path.getsize(path), _MOST_NAMES)
        return tensors
    except InputError:
        raise
    except Exception as error:  # a damaged pickle can raise nearly anything
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"{path} is damaged or is not a file that torch.save wrote ({reason}). Copy it again."
        ) from None


def _stored(path: str, name: str, tensor: PickledTensor, locations: Mapping[str, _Location]) -> StoredTensor:
    """Returns a tensor of the file, after checking that it is inside its storage and not larger than it.

    Otherwise a stride of 0 could make a few bytes expand to any amount of memory.
    """
    location, shape, dtype = locations[tensor.storage.name], tensor.shape, tensor.storage.dtype
    item_size = numpy_dtype(dtype).itemsize
    # The stride of an axis of length 1 is never used, so any number is valid.
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


def _load(file: IO[bytes], path: str, trust_pickle: bool, item_sizes: dict[str, int]) -> Any:
    """Returns the object of a pickle, and notes the storages that it names: name -> bytes per element."""

    def noted_storage(key: Any) -> Storage:
        storage = make_storage(key)
        item_sizes.setdefault(storage.name, numpy_dtype(storage.dtype).itemsize)
        return storage

    if not trust_pickle:
        return TensorUnpickler(file, path, noted_storage).load()
    unpickler = _TrustingUnpickler(file, encoding="utf-8")
    unpickler.persistent_load = noted_storage
    return unpickler.load()


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
        location = place_in_zip(archive, members[pickles[0]])
        if location.num_bytes > _LONGEST_PICKLE and not trust_pickle:
            raise InputError(
                f"{path}: its data.pkl has {location.num_bytes:,} bytes, which is too long for a list of tensors."
            )
        archive.fp.seek(location.offset)
        content = _load(io.BytesIO(archive.fp.read(location.num_bytes)), path, trust_pickle, {})
        start = pickles[0].removesuffix("data.pkl") + "data/"
        locations = {
            name.removeprefix(start): place_in_zip(archive, member)
            for name, member in members.items()
            if name.startswith(start)
        }
    return content, locations


def place_in_zip(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Location:
    """Returns the location of a member's bytes, which torch stores uncompressed."""
    if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
        raise InputError(f"{archive.filename}: {member.filename} is compressed, which torch.save never does.")
    archive.fp.seek(member.header_offset)
    header = archive.fp.read(30)
    name_length, extra_length = struct.unpack("<26xHH", header)
    location = _Location(member.header_offset + 30 + name_length + extra_length, member.file_size)
    size = archive.fp.seek(0, os.SEEK_END)
    if not header.startswith(b"PK\3\4") or location.offset + location.num_bytes > size:
        raise ValueError(f"{member.filename} is not where the zip file says")
    return location


def _read_stream(path: str, trust_pickle: bool) -> tuple[Any, dict[str, _Location]]:
    """Reads magic number, protocol, system, content and storage names, each a pickle; the storages' bytes follow."""
    size, locations, item_sizes = os.path.getsize(path), {}, {}
    with open(path, "rb") as file:
        pickles = file if trust_pickle else io.BytesIO(file.read(_LONGEST_PICKLE))
        if _load(pickles, path, False, {}) != _MAGIC_NUMBER:
            raise InputError(f"{path} is a pickle that torch.save did not write.")
        _, _, content, names = (_load(pickles, path, trust_pickle, item_sizes) for _ in range(4))
        end = pickles.tell()
        for name in names:
            if not isinstance(name, str):
                raise ValueError("the name of a storage is not a string")
            file.seek(end)
            (count,) = struct.unpack("<q", file.read(8))
            locations[name] = _Location(end + 8, count * item_sizes[name])
            end += 8 + locations[name].num_bytes
            if count < 0 or end > size:
                raise ValueError("it is cut off")
    return content, locations
