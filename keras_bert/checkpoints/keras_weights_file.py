"""`model.weights.h5` files of Keras, read and written tensor by tensor.

Keras itself needs the whole model in memory to read or write such a file. It names tensors by the attributes of the
model's layers: `encoder/blocks/transformer_block_3/attention/query/vars/0`. `keras_layout` finds these names by saving
a small model.
"""

import functools
import io
import json
import math
import os
import random
from collections.abc import Mapping

import h5py
import numpy as np

from keras_bert.checkpoints.checkpoint import StoredTensor, check_stored_file, check_stored_once, numpy_dtype
from keras_bert.checkpoints.model_weights import keras_as_before_on_error, model_weights
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError

_TYPES = (
    "float16",
    "float32",
    "float64",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    "bool",
)
_NAMED_TYPES = ("bfloat16",)
_PLAIN_LAYOUTS = (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT)
_FIRST_LAYER, _SECOND_LAYER = "/layer_0/", "/layer_1/"


def read_keras_weights(path: str | os.PathLike) -> dict[str, StoredTensor]:
    """Returns Keras' name -> tensor. Tensors are read on demand.

    Raises `InputError` if the file is missing, a git-lfs pointer, cut off or not HDF5, or see `described`.
    """
    path = os.fspath(path)
    check_stored_file(path)

    def stored(name: str, shape: tuple[int, ...], dtype: str) -> StoredTensor:
        def read() -> np.ndarray:
            try:
                with _opened(path) as file:
                    array = file[name][()]
            except (OSError, KeyError, ValueError, RuntimeError) as error:
                raise InputError(f"{path}: {name} cannot be read ({_one_line(error)}). Copy it again.") from None
            return array if array.dtype.name == dtype else np.asarray(array).view(numpy_dtype(dtype))

        return StoredTensor(tuple(shape), dtype, read)

    with _opened(path) as file:
        try:
            found = described(file, path, os.path.getsize(path))
        except InputError:
            raise
        except Exception as error:  # h5py raises many kinds of errors for damaged files
            raise InputError(f"{path} is damaged ({_one_line(error)}). Copy it again.") from None
    tensors = {name: stored(name, *description) for name, description in found.items()}
    check_stored_once(path, tensors, os.path.getsize(path))
    return tensors


def described(file: h5py.File, path: str, size: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """Returns name of a tensor -> (shape, dtype), of a file of `size` bytes.

    HDF5 can refer to other files of the machine (links, external storage, virtual datasets) and can state a shape
    without storing the data (chunks, compression, fill values). Keras never does: it stores each tensor as contiguous
    bytes in the file. Anything else is rejected.
    """
    # h5py's visit functions swallow exceptions, so the callback returns a value instead, which ends the visit.
    link = file.visititems_links(lambda name, link: None if isinstance(link, h5py.HardLink) else name)
    if link is not None:
        raise InputError(f"{path}: {link} is a link to another place, which Keras never writes. Do not trust the file.")
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    return {name: _description(file[name], f"{path}: {name}", size) for name in names}


def _description(item: h5py.Dataset, where: str, file_size: int) -> tuple[tuple[int, ...], str]:
    # NumPy has no bfloat16: Keras stores two raw bytes per number, and the dtype's name as an attribute.
    is_named = item.dtype == np.dtype("V2")
    dtype = item.attrs.get("dtype") if is_named else item.dtype.name
    if dtype not in (_NAMED_TYPES if is_named else _TYPES):
        raise InputError(f"{where} holds {item.dtype}, but numbers were expected. The file is damaged. Copy it again.")
    is_plain = not item.external and item.id.get_create_plist().get_layout() in _PLAIN_LAYOUTS
    stored = item.id.get_storage_size()
    if item.shape is None or not is_plain or not stored == math.prod(item.shape) * item.dtype.itemsize <= file_size:
        raise InputError(
            f"{where} has the shape {list(item.shape or ())}, but is not stored as Keras does it: the file has "
            f"{stored:,} bytes for it. Save the model again with Keras."
        )
    return item.shape, dtype


def write_keras_weights(path: str | os.PathLike, tensors: Mapping[str, StoredTensor]) -> None:
    """Writes a file that Keras' `load_weights` reads. Raises `OSError`, for example because the disk is full."""
    with _PatientFile(path) as file:
        with h5py.File(file, "w") as content:
            for name, tensor in tensors.items():
                content.create_dataset(name, data=_wide(tensor.read()))
        file.raise_what_happened()


def keras_layout(model_class: type, config: BertConfig, arguments: Mapping) -> dict[str, str]:
    """Returns our names of a model's weights -> Keras' names in its weights file.

    The names are found in a model with two encoder layers at most; those of the other layers differ in the number only.
    """
    if arguments.get("dense"):  # of a TextPooling; the arguments may come from a stranger
        arguments = {**arguments, "dense": [{**settings, "units": 1} for settings in arguments["dense"]]}
    narrow = config.narrowest()
    if hasattr(model_class, "narrowest"):
        narrow, arguments = model_class.narrowest(config, arguments)
    layout = dict(_layout_of_saved(model_class, narrow.replace(extra={}), json.dumps(dict(arguments), sort_keys=True)))
    second = {name: name.replace(_SECOND_LAYER, _FIRST_LAYER) for name in layout if _SECOND_LAYER in name}
    # The first layer may lack weights of the second (ModernBERT).
    folders = {
        name.split(_SECOND_LAYER)[0]: _folders(layout[first], layout[name])
        for name, first in second.items()
        if first in layout
    }
    for name in second:
        part = name.split(_SECOND_LAYER)[0]  # the encoder; or the decoder, or its cross attention
        for number in range(2, config.num_blocks):
            layout[name.replace(_SECOND_LAYER, f"/layer_{number}/")] = _of_layer(number, *folders[part], layout[name])
    return dict(sorted(layout.items(), key=lambda names: names[1].split("/")))


@functools.lru_cache(maxsize=64)
def _layout_of_saved(model_class: type, config: BertConfig, arguments: str) -> dict[str, str]:
    """Returns the layout of a small model, which is saved with the number of each weight as its value."""
    import keras

    # The initializers of the model must not change what Python draws later.
    state = random.getstate()
    # An explicit name keeps Keras from numbering later models. float32, whatever the global policy is, represents all
    # the numbers exactly.
    try:
        with keras_as_before_on_error():
            model = model_class(config, **json.loads(arguments), name="layout", dtype="float32")
    finally:
        random.setstate(state)
    weights = model_weights(model)
    for number, variable in enumerate(weights.values()):
        variable.assign(np.full(variable.shape, number))
    file = _NamedMemory()
    keras.saving.save_weights(model, file)
    names, layout = list(weights), {}

    def note(name: str, item) -> None:
        if isinstance(item, h5py.Dataset):
            layout[names[int(item[()].flat[0])]] = name

    with h5py.File(file, "r") as content:
        content.visititems(note)
    return layout


def _folders(of_first: str, of_second: str) -> tuple[str, str]:
    """("encoder/blocks/block/kernel", "encoder/blocks/block_1/kernel") -> ("block", "block_1")."""
    parts = zip(of_first.split("/"), of_second.split("/"), strict=True)
    return next((first, second) for first, second in parts if first != second)


def _of_layer(number: int, first: str, second: str, of_second: str) -> str:
    """(7, "block", "block_1", "encoder/blocks/block_1/kernel") -> "encoder/blocks/block_7/kernel"."""
    return "/".join(f"{first}_{number}" if part == second else part for part in of_second.split("/"))


def _wide(array: np.ndarray) -> np.ndarray:
    """Converts 16-bit and 8-bit floats to float32, without rounding: the weights of models are at least float32."""
    is_narrow = "float" in array.dtype.name and array.dtype.itemsize < 4
    return array.astype("float32") if is_narrow else array


def _opened(path: str) -> h5py.File:
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{path} is damaged or is not a weights file ({_one_line(error)}). Copy it again.") from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class _NamedMemory(io.BytesIO):
    """A file in memory with a name, since Keras checks the file name's extension."""

    def __str__(self):
        return "model.weights.h5"


class _PatientFile(io.FileIO):
    """A file that stores the first write error to raise it later: raised at once, it would crash HDF5."""

    def __init__(self, path: str | os.PathLike):
        super().__init__(path, "w+")
        self._error: OSError | None = None

    def write(self, data) -> int:
        view = memoryview(data).cast("B")
        if self._error is None:
            try:
                done = 0
                while done < len(view):
                    done += super().write(view[done:])
            except OSError as error:
                self._error = error
        return len(view)

    def truncate(self, size=None) -> int:
        if self._error is None:
            try:
                return super().truncate(size)
            except OSError as error:
                self._error = error
        return size or 0

    def raise_what_happened(self) -> None:
        if self._error is not None:
            raise self._error
