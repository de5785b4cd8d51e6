"""Checks `.keras` files while Keras reads them.

Keras builds the model that a file describes, and unpacks its parts, before it compares anything with the stored
weights. It tells neither the model nor its layers which file it reads, so this module finds the file in the callers.
"""

import io
import math
import os
import sys
import zipfile
from collections.abc import Callable

import h5py

from keras_bert.checkpoints.checkpoint import numpy_dtype
from keras_bert.checkpoints.keras_weights_file import described, read_keras_weights
from keras_bert.checkpoints.model_weights import variables_made_last
from keras_bert.checkpoints.torch_file import place_in_zip
from keras_bert.checkpoints.weight_list import encoder_shapes
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.private_interfaces import private

_WEIGHTS = "model.weights.h5"


def model_in_file(config: BertConfig, make: Callable, expansion: int = 1):
    """Returns `make()`, a model with this config. While Keras reads a file, memory is taken only after a check.

    Args:
        config: the config of the model.
        make: builds the model.
        expansion: how many times the bytes of the stored weights the new model may have.

    Raises:
        InputError: the model needs more weights than the file has, or the file expands or leads to other files.
    """
    source = _source_of_callers()
    if source is None:
        return make()
    name, stored_bytes = _stored_bytes(source)
    stored_bytes *= expansion
    _check_size(name, sum(map(math.prod, encoder_shapes(config).values())), stored_bytes)  # before layers are made
    with variables_made_last() as models:
        model = make()
        models.append(model)
        num_bytes = sum(numpy_dtype(weight.dtype).itemsize * math.prod(weight.shape) for weight in model.weights)
        _check_size(name, num_bytes, stored_bytes)
    return model


def check_weights_of(path: str | os.PathLike) -> None:
    """Raises `InputError` if a `.keras` or `.weights.h5` file expands, leads to other files or is damaged."""
    path = os.fspath(path)
    if path.endswith("weights.h5"):
        read_keras_weights(path)
    elif path.endswith(".keras") and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            _stored_bytes(archive)


def _source_of_callers() -> zipfile.ZipFile | str | None:
    """Returns the archive or the folder that Keras is reading, or None."""
    sources = {
        private("keras.src.saving.saving_lib._load_model_from_fileobj").__code__: "zf",
        private("keras.src.saving.saving_lib._load_model_from_dir").__code__: "dirpath",
    }
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code in sources:
            return frame.f_locals[sources[frame.f_code]]
        frame = frame.f_back
    return None


def _stored_bytes(source: zipfile.ZipFile | str) -> tuple[str, int]:
    """Returns the name of a file and the bytes of its weights, after checking that nothing in it expands."""
    if not isinstance(source, zipfile.ZipFile):
        return source, sum(tensor.num_bytes for tensor in read_keras_weights(os.path.join(source, _WEIGHTS)).values())
    name, members = source.filename or "the .keras file", source.infolist()
    size = source.fp.seek(0, os.SEEK_END)
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
            raise InputError(f"{name}: {member.filename} is compressed, which Keras never does. Save the model again.")
    weights = [member for member in members if member.filename == _WEIGHTS]
    if sum(member.file_size for member in members) > size or len(weights) != 1:
        raise InputError(f"{name} is damaged: its parts lie over each other, or it has no {_WEIGHTS}. Copy it again.")
    try:
        part = _Part(source.fp, *place_in_zip(source, weights[0]))
        with h5py.File(part, "r") as file:
            found = described(file, f"{name}: {_WEIGHTS}", weights[0].file_size)
            return name, sum(file[one].nbytes for one in found)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name}: {_WEIGHTS} is damaged ({' '.join(str(error).split())}). Copy it again.") from None


def _check_size(name: str, needed: int, stored: int) -> None:
    if needed > stored:
        raise InputError(
            f"{name}: its config describes a model with {needed:,} bytes of weights or more, but the file has "
            f"{stored:,}. It is damaged or malicious: get it again from a source that you trust."
        )


class _Part(io.RawIOBase):
    """A part of an open file as a file."""

    def __init__(self, file, offset: int, size: int):
        super().__init__()
        self._file, self._offset, self._size, self._position = file, offset, size, 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer) -> int:
        self._file.seek(self._offset + self._position)
        data = self._file.read(max(0, min(len(buffer), self._size - self._position)))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
