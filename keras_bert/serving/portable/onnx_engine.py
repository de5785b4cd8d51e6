"""Runs an ONNX file: features in, outputs of the model out. Needs the package onnxruntime, and no TensorFlow."""

import os
from collections.abc import Mapping

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.serving.portable.folder import missing_package
from keras_bert.serving.portable.onnx_check import check_onnx
from keras_bert.serving.portable.row_layouts import Layout

_OUTPUT = "output"
_MASK = "input_mask"
# A protocol buffer holds at most 2 GiB.
_MOST_BYTES = (1 << 31) - 1


class OnnxEngine:
    """A network of `write_onnx`. Threads may share it.

    Args:
        file_path: the `.onnx` file. It must contain its weights: other files are not read.
        num_threads: threads for one batch; by default one for each core of the processor.

    Attributes:
        feature_names: the features that the network takes.
        layout: the rows that it computes fastest.

    Raises:
        InputError: onnxruntime is not installed, the file is damaged or too large, or it has something that
            `write_onnx` does not write; see `check_onnx`.
    """

    layout = Layout(rows=8)

    def __init__(self, file_path: str | os.PathLike, num_threads: int | None = None):
        try:
            import onnxruntime
        except ImportError as error:
            raise missing_package("onnx", error) from error
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # errors are raised; without this they are printed too
        if num_threads is not None:
            options.intra_op_num_threads = num_threads
        # From its bytes, ONNX Runtime does not know the folder of a file, so it cannot read files in it.
        content = _content(os.fspath(file_path))
        check_onnx(content, os.fspath(file_path))
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise InputError(
                f"{os.fspath(file_path)} is damaged or of another kind: {error!s:.300}. Export the model again."
            ) from error
        self.feature_names = tuple(value.name for value in self._session.get_inputs())
        self._outputs = [value.name for value in self._session.get_outputs()]

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
        given = {name: np.ascontiguousarray(features[name], np.int32) for name in self.feature_names}
        mask = given.get(_MASK)
        if mask is not None and mask.size and not 0 <= mask.min() <= mask.max() <= 1:
            raise InputError(
                f"{_MASK} of an ONNX model is 1 for tokens and 0 for padding. Received numbers from {mask.min()} to "
                f"{mask.max()}. Put each sequence into a row of its own."
            )
        try:
            found = dict(zip(self._outputs, self._session.run(None, given), strict=True))
        except Exception as error:
            shapes = ", ".join(f"{name} {values.shape}" for name, values in given.items())
            raise InputError(f"The network cannot compute these features: {shapes}. {error!s:.300}") from error
        return found[_OUTPUT] if list(found) == [_OUTPUT] else found


def _content(file_path: str) -> bytes:
    if not os.path.isfile(file_path):
        raise InputError(f"There is no file {file_path}")
    size = os.path.getsize(file_path)
    if size > _MOST_BYTES:
        raise InputError(f"{file_path} has {size:,} bytes; an ONNX file has at most {_MOST_BYTES:,}.")
    with open(file_path, "rb") as file:
        return file.read(_MOST_BYTES)
