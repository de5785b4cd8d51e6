"""The signature `serving_default` of a LiteRT or ONNX export: strings in, and out what the SavedModel returns."""

from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.client.model_info import Tensor
from keras_bert.tf_serving.client.request_batches import as_arrays, map_strings

NAME = "serving_default"
_DTYPES = {str: "string", int: "int32", float: "float", bool: "bool"}
_NUMPY_TYPES = {"string": object, "float": np.float32, "int32": np.int32, "bool": np.bool_}


class AnswerSignature:
    """A function of arrays or lists of strings by name that returns arrays by name, as `RunnableSignature`.

    Args:
        model: a loaded export whose task has `serve`, a function of lists of `str` by name that returns the outputs;
            `served_inputs`, name -> the axes after the first, where None is of any size; and `served_outputs`, name ->
            the value of unused entries, and these axes.

    Attributes:
        inputs, outputs: their names.
        input_tensors, output_tensors: name -> type and shape.
    """

    def __init__(self, model: Any):
        self._serve, served_outputs = model.serve, sorted(model.served_outputs.items())
        self.input_tensors = {
            name: Tensor("string", (None, *axes)) for name, axes in sorted(model.served_inputs.items())
        }
        self.output_tensors = {
            name: Tensor(_DTYPES[type(value)], (None, *axes)) for name, (value, *axes) in served_outputs
        }
        self.inputs, self.outputs = tuple(self.input_tensors), tuple(self.output_tensors)

    def __call__(self, **inputs: Any) -> dict[str, np.ndarray]:
        """Returns the outputs for N rows, strings as `bytes`. Raises `InputError` for inputs of other kinds."""
        arrays = as_arrays(inputs)
        found = {name: values.ndim for name, values in arrays.items() if values.dtype == object}
        expected = {name: len(tensor.shape) for name, tensor in self.input_tensors.items()}
        counts = set(map(len, arrays.values()))
        if found != expected or len(arrays) > len(found) or len(counts) > 1 or 0 in counts:
            taken = ", ".join(f"{name} {'[N, C]' if rank > 1 else '[N]'}" for name, rank in expected.items())
            received = ", ".join(f"{name} {list(a.shape)} of {_kind(a)}" for name, a in arrays.items())
            raise InputError(f"{NAME} takes strings in N rows, one or more: {taken}. Received: {received}")
        texts = {name: map_strings(lambda text: text.decode("utf-8", "replace"), a) for name, a in arrays.items()}
        outputs = self._serve(**{name: values.tolist() for name, values in texts.items()})
        return {name: _as_array(outputs[name], tensor.dtype) for name, tensor in self.output_tensors.items()}


def _kind(array: np.ndarray) -> str:
    return "strings" if array.dtype == object else str(array.dtype)


def _as_array(values: Any, dtype: str) -> np.ndarray:
    array = np.asarray(values, _NUMPY_TYPES[dtype])
    return map_strings(lambda text: text.encode("utf-8"), array) if dtype == "string" else array
