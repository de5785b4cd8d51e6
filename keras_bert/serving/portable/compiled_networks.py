"""Compiled networks of OpenVINO in the user's cache folder: the next start neither reads nor compiles the ONNX file.

OpenVINO has such a cache too, but reads the whole file first, which takes longer than all the rest of a start.
"""

import contextlib
import dataclasses
import io
import json
import mmap
import os
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.user_cache import cache_folder, cache_key, remove_oldest
from keras_bert.serving.portable.onnx_check import Declared
from keras_bert.serving.portable.onnx_engine import checked_network
from keras_bert.serving.portable.packed_network import PACKED_FILE

DEVICE = "CPU"
# Compiled networks are as large as their files.
_MOST_KEPT_BYTES = 2 << 30
# OpenVINO 2026.4 stores the rotation of rotary encoders without the width of its angles, so it would be wrong.
_NOT_KEPT = "Cos"
_HEADER_BYTES = 4096


@dataclasses.dataclass(frozen=True)
class CompiledNetwork:
    """A network that can compute.

    Attributes:
        compiled: the `openvino.CompiledModel`.
        declared: the inputs and outputs of its ONNX file.
        memory: the mapped file with its weights. It must live as long as `compiled`.
    """

    compiled: Any
    declared: Declared
    memory: np.ndarray | None = None


def compiled_network(core: Any, file_path: str, options: Mapping[str, Any]) -> CompiledNetwork:
    """Returns the network of an ONNX file, in the form for packed rows if its folder has that.

    Args:
        core: an `openvino.Core`.
        file_path: the `.onnx` file.
        options: the properties to compile with.

    Raises:
        InputError: as `checked_network`.
        RuntimeError: OpenVINO cannot compile it.
    """
    kept_at = _kept_at(file_path, options)
    found = kept_at and _kept(core, kept_at, options)
    if found:
        return found
    content, declared = checked_network(file_path, packed=True)
    network = core.read_model(content)
    compiled = core.compile_model(network, DEVICE, dict(options))
    if kept_at and all(operation.get_type_name() != _NOT_KEPT for operation in network.get_ops()):
        _keep(kept_at, compiled, declared)
    return CompiledNetwork(compiled, declared)


def _kept_at(file_path: str, options: Mapping[str, Any]) -> str | None:
    """Returns the path of the compiled form of a file, or None if there is no cache folder."""
    folder = cache_folder("openvino")
    if folder is None:
        return None
    paths = file_path, os.path.join(os.path.dirname(file_path), PACKED_FILE)
    return os.path.join(folder, cache_key(["openvino"], *map(_content_key, paths), sorted(options.items())))


def _content_key(path: str) -> tuple[int, int] | None:
    """Returns size and checksum of a file; None if there is none, or nothing in it."""
    if not os.path.isfile(path) or not os.path.getsize(path):
        return None
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return len(content), zlib.crc32(content)


def _kept(core: Any, path: str, options: Mapping[str, Any]) -> CompiledNetwork | None:
    """Returns the network that `_keep` has kept; None if there is none, or if it is damaged."""
    from openvino import Tensor

    try:
        with open(path, "rb") as file:
            header = json.loads(file.read(_HEADER_BYTES))
        if os.path.getsize(path) != _HEADER_BYTES + header["bytes"]:
            return None
        memory = np.memmap(path, np.uint8, "c", offset=_HEADER_BYTES)
        compiled = core.import_model(Tensor(memory, shared_memory=True), DEVICE, dict(options))
        declared = Declared(header["inputs"], tuple(header["outputs"]))
    except Exception:  # a damaged file can raise nearly anything
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return CompiledNetwork(compiled, declared, memory)


def _keep(path: str, compiled: Any, declared: Declared) -> None:
    """Writes a network for later starts. Nothing is kept if that fails, as on a full disk."""
    stream = io.BytesIO()
    with contextlib.suppress(InputError, RuntimeError, MemoryError):
        compiled.export_model(stream)
        content = stream.getbuffer()
        header = json.dumps({"bytes": len(content), "inputs": declared.inputs, "outputs": declared.outputs}).encode()
        if len(header) > _HEADER_BYTES:
            return
        with atomic_file(path) as file:
            file.write(header.ljust(_HEADER_BYTES))
            file.write(content)
    remove_oldest(os.path.dirname(path), _MOST_KEPT_BYTES)
