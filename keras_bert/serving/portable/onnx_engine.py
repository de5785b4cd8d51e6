"""Runs an ONNX file: features in, outputs of the model out. Needs the package onnxruntime, and no TensorFlow."""

import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records.features import POSITION_IDS
from keras_bert.serving.portable.folder import missing_package
from keras_bert.serving.portable.onnx_check import Declared, check_onnx
from keras_bert.serving.portable.packed_network import packed_network
from keras_bert.serving.portable.row_layouts import Layout

_OUTPUT = "output"
_MASK = "input_mask"
# ONNX Runtime's kernel for LayerNorm of a sum takes longer than its two kernels for sum and LayerNorm.
_DISABLED_OPTIMIZERS = ["SkipLayerNormFusion"]
# A protocol buffer holds at most 2 GiB.
_MOST_BYTES = (1 << 31) - 1


class OnnxEngine:
    """A network of `write_onnx`. Threads may share it.

    Args:
        file_path: the `.onnx` file. It must contain its weights: other files are not read.
        num_threads: threads for one batch; by default one for each core of the processor.

    Attributes:
        feature_names: the features that the network takes.
        input_axes: their axes, see `Declared`.
        layout: the rows that it computes fastest.

    Raises:
        InputError: onnxruntime is not installed, the file is damaged or too large, or it has something that
            `write_onnx` does not write; see `check_onnx`.
    """

    layout = Layout(rows=8)

    def __init__(self, file_path: str | os.PathLike, num_threads: int | None = None):
        # Otherwise onnxruntime sends messages about its use to a server.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        try:
            import onnxruntime
        except ImportError as error:
            raise missing_package("onnx", error) from error
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # errors are raised; without this they are printed too
        if num_threads is not None:
            options.intra_op_num_threads = num_threads
        content, declared = checked_network(file_path)
        try:
            self._session = onnxruntime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"], disabled_optimizers=_DISABLED_OPTIMIZERS
            )
        except Exception as error:
            raise InputError(
                f"{os.fspath(file_path)} is damaged or of another kind: {error!s:.300}. Export the model again."
            ) from error
        self.input_axes, self._outputs = declared.inputs, declared.outputs
        self.feature_names = tuple(declared.inputs)

    def run(self, features: Mapping[str, np.ndarray]):
        """Returns the outputs of the model for a batch.

        Args:
            features: int32 arrays of one shape: `[B, S]`, or `[B, C, S]` for multiple choice; `masked_lm_positions` is
                `[B, P]`. Other keys are ignored.

        Returns:
            float32, an array or a dictionary of arrays, as the Keras model returns them.

        Raises:
            InputError: `input_mask` has other numbers than 0 and 1, or ONNX Runtime refuses the features.
        """
        given = arrays_for(self.feature_names, features)
        try:
            found = self._session.run(list(self._outputs), given)
        except Exception as error:
            raise cannot_compute(given, error) from error
        return named_outputs(self._outputs, found)


def arrays_for(names: Sequence[str], features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the features that an ONNX network takes.

    Raises:
        InputError: `input_mask` has other numbers than 0 and 1, and the network does not take packed rows.
    """
    given = {name: np.ascontiguousarray(features[name], np.int32) for name in names}
    mask = given.get(_MASK)
    if POSITION_IDS not in names and mask is not None and mask.size and not 0 <= mask.min() <= mask.max() <= 1:
        raise InputError(
            f"{_MASK} of an ONNX model is 1 for tokens and 0 for padding. Received numbers from {mask.min()} to "
            f"{mask.max()}. Put each sequence into a row of its own."
        )
    return given


def named_outputs(names: Sequence[str], arrays: Iterable[np.ndarray]):
    """Returns the outputs of a network as the Keras model returns them: an array, or a dictionary of arrays."""
    found = dict(zip(names, arrays, strict=True))
    return found[_OUTPUT] if list(found) == [_OUTPUT] else found


def cannot_compute(given: Mapping[str, np.ndarray], error: Exception) -> InputError:
    """Returns the error for features that a runtime refuses."""
    shapes = ", ".join(f"{name} {values.shape}" for name, values in given.items())
    return InputError(f"The network cannot compute these features: {shapes}. {error!s:.300}")


def checked_network(file_path: str | os.PathLike, packed: bool = False) -> tuple[bytes, Declared]:
    """Returns the bytes of an ONNX file, and its inputs and outputs; with `packed`, of the form for packed rows if any.

    From bytes, a runtime does not know the folder of a file, so it cannot read files in it.

    Raises:
        InputError: there is no file, it is too large, or `check_onnx` refuses it.
    """
    file_path = os.fspath(file_path)
    if not os.path.isfile(file_path):
        raise InputError(f"There is no file {file_path}")
    size = os.path.getsize(file_path)
    if size > _MOST_BYTES:
        raise InputError(f"{file_path} has {size:,} bytes; an ONNX file has at most {_MOST_BYTES:,}.")
    with open(file_path, "rb") as file:
        content = file.read(_MOST_BYTES)
    if packed:
        content = packed_network(file_path, content) or content
    return content, check_onnx(content, file_path)
