"""An exported folder on the development server: its answers as the outputs of `serving_default`, without TensorFlow."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.serving.portable.loading import load
from keras_bert.tf_serving.server.loaded_model import DEFAULT_SIGNATURE, Arrays, ServedSignature, TensorSpec
from keras_bert.tf_serving.server.status import Code, StatusError, invalid_argument
from keras_bert.tf_serving.wire import messages
from keras_bert.tf_serving.wire.strings import map_strings

_STRING, _FLOAT, _BOOL = 7, 1, 10  # numbers of the dtypes in messages
_DTYPES = {"string": _STRING, "float": _FLOAT, "bool": _BOOL}


class _Signature(ServedSignature):
    can_be_joined = False  # runtimes compute requests of several threads side by side


class ServedExport:
    """An exported folder with the interface of `ServedModel`. Threads call the engine side by side.

    Args:
        folder: a folder of `export_model --format=onnx` or `litert`.
        **options: how it computes, the options of `keras_bert.serving.load`.

    Attributes:
        folder: the folder.
        signatures: `serving_default`, with the inputs and outputs that it has in a SavedModel.

    Raises:
        StatusError: the folder cannot be loaded, or has a model of a kind that is served as a SavedModel only.
    """

    def __init__(self, folder: str, **options: Any):
        self.folder = folder
        try:
            self._model = load(folder, **options)
        except InputError as error:
            raise StatusError(Code.FAILED_PRECONDITION, str(error)) from None
        if not hasattr(self._model, "serve"):
            raise StatusError(
                Code.UNIMPLEMENTED,
                f"{folder} is the export of a {self._model.kind}, which the server takes as a SavedModel only. Write "
                "one with export_model, without --format.",
            )
        self.signatures = {DEFAULT_SIGNATURE: self._signature()}

    def _signature(self) -> _Signature:
        inputs = {name: ("string", 0) for name in self._model.served_inputs}
        definition = messages.SignatureDef(method_name="tensorflow/serving/predict")
        specs = []
        for values, infos in ((inputs, definition.inputs), (self._model.served_outputs, definition.outputs)):
            specs.append({})
            for name, (dtype, columns) in sorted(values.items()):
                shape = (None, columns) if columns else (None,)
                specs[-1][name] = TensorSpec(name, dtype, shape)
                infos[name].name, infos[name].dtype = name, _DTYPES[dtype]
                for size in shape:
                    infos[name].tensor_shape.dim.add(size=-1 if size is None else size)
        return _Signature(DEFAULT_SIGNATURE, definition, *specs, {})

    def run(self, signature_name: str, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Returns output -> array. Strings are object arrays of bytes. Several threads may call it at once.

        Raises:
            StatusError: INVALID_ARGUMENT: an input is no column of texts, or the model cannot take them.
        """
        columns = [inputs[name] for name in self._model.served_inputs]
        if any(column.ndim != 1 or not 0 < len(column) == len(columns[0]) for column in columns):
            shapes = ", ".join(f"{name} {list(values.shape)}" for name, values in inputs.items())
            raise invalid_argument("Each input must be a list of texts, of the same length from 1. Received: ", shapes)
        texts = [[text.decode("utf-8", "replace") for text in column] for column in columns]
        try:
            outputs = self._model.serve(*texts)
        except InputError as error:
            raise invalid_argument(error) from None
        return {name: _as_bytes(np.asarray(values)) for name, values in outputs.items()}

    def close(self) -> None:
        """Frees the memory. No `run` may be in progress."""
        del self._model


def _as_bytes(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "UO":
        return values if values.dtype == bool else values.astype(np.float32)
    return map_strings(lambda text: text.encode("utf-8"), values.astype(object))
