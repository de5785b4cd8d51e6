"""Runs an ONNX file: features in, outputs of the model out. Needs the package onnxruntime, and no TensorFlow."""

import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records.features import POSITION_IDS
from keras_bert.serving.portable.folder import damaged_network, missing_package
from keras_bert.serving.portable.row_layouts import Layout

_OUTPUT = "output"
_MASK = "input_mask"
# ONNX Runtime's kernel for LayerNorm of a sum takes longer than its two kernels for sum and LayerNorm.
_DISABLED_OPTIMIZERS = ["SkipLayerNormFusion"]


class OnnxEngine:
    """A network of `write_onnx`. Threads may share it.

    Args:
        file_path: the `.onnx` file.
        num_threads: threads for one batch; by default one for each core of the processor.

    Attributes:
        feature_names: the features that the network takes.
        layout: the rows that it computes fastest.

    Raises:
        InputError: onnxruntime is not installed, or ONNX Runtime cannot open the file.
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
        file_path = os.fspath(file_path)
        try:
            self._session = onnxruntime.InferenceSession(
                file_path, options, providers=["CPUExecutionProvider"], disabled_optimizers=_DISABLED_OPTIMIZERS
            )
        except Exception as error:
            raise damaged_network(file_path, error) from error
        self.feature_names = tuple(value.name for value in self._session.get_inputs())
        self._outputs = tuple(value.name for value in self._session.get_outputs())

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
    """Returns the features of an ONNX network. Raises `InputError` for a mask of several sequences, unless packed."""
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
