"""Runs a LiteRT file: features in, outputs of the model out. Needs the package ai-edge-litert, and no TensorFlow."""

import os
import threading
from collections.abc import Mapping

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.serving.portable.folder import damaged_network, missing_package
from keras_bert.serving.portable.onnx_engine import named_outputs
from keras_bert.serving.portable.row_layouts import Layout

_IDENTIFIER = b"TFL3"
# More threads than this do not help small models on short texts.
_MOST_THREADS = 4


class LiteRTEngine:
    """A network of `write_litert`, used as an `OnnxEngine`. Threads may share it; they take turns.

    Args:
        file_path: the `.tflite` file.
        num_threads: threads for one batch; by default the processor's cores, four at most.

    Raises:
        InputError: ai-edge-litert is not installed, or the file is damaged or no LiteRT file.
    """

    layout = Layout(rows=4)

    def __init__(self, file_path: str | os.PathLike, num_threads: int | None = None):
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError as error:
            raise missing_package("litert", error) from error
        file_path = os.fspath(file_path)
        with open(file_path, "rb") as file:
            is_litert = file.read(8)[4:] == _IDENTIFIER
        if not is_litert:
            raise InputError(f"{file_path} is no LiteRT file: it does not have the mark TFL3. Export the model again.")
        try:
            self._interpreter = Interpreter(
                file_path, num_threads=num_threads or min(_MOST_THREADS, os.cpu_count() or 1)
            )
            (signature,) = self._interpreter.get_signature_list()
            runner = self._interpreter.get_signature_runner(signature)
            inputs, outputs = runner.get_input_details(), runner.get_output_details()
        except Exception as error:
            raise damaged_network(file_path, error) from error
        self._path = file_path
        self._inputs = {name: details["index"] for name, details in inputs.items()}
        self._outputs = {name: details["index"] for name, details in outputs.items()}
        self._shape = None
        self._lock = threading.Lock()
        self.feature_names = tuple(self._inputs)

    def run(self, features: Mapping[str, np.ndarray]):
        """Returns the outputs of the model for a batch, as `OnnxEngine.run`.

        Raises `InputError` if the file is damaged, or has another network than its folder says.
        """
        try:
            found = self._run(features)
        except (RuntimeError, ValueError) as error:
            shapes = ", ".join(f"{name} {np.shape(features[name])}" for name in self._inputs if name in features)
            raise InputError(
                f"{self._path} cannot compute these features: {shapes}. {error!s:.300}. Export the model again."
            ) from error
        return named_outputs(self._outputs, found)

    def _run(self, features: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        with self._lock:
            shape = {name: features[name].shape for name in self._inputs}
            if shape != self._shape:
                self._shape = None
                for name, index in self._inputs.items():
                    self._interpreter.resize_tensor_input(index, shape[name])
                self._interpreter.allocate_tensors()
                self._shape = shape
            for name, index in self._inputs.items():
                self._interpreter.set_tensor(index, np.ascontiguousarray(features[name], np.int32))
            self._interpreter.invoke()
            return [self._interpreter.get_tensor(index) for index in self._outputs.values()]
