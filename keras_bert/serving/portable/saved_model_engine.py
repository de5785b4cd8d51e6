"""Runs the signatures of a SavedModel. Its network is the signature `raw_outputs`."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.serving.graph import RAW_OUTPUTS
from keras_bert.serving.portable.folder import EXPORT_FILE
from keras_bert.tf_serving.client.model_info import Tensor
from keras_bert.tf_serving.client.request_batches import as_arrays
from keras_bert.tf_serving.loading import load_saved_model

_decoded = np.frompyfunc(lambda text: text.decode("utf-8", "replace"), 1, 1)


class RunnableSignature:
    """A signature of a loaded SavedModel: a function of arrays or lists by name that returns arrays by name.

    Strings may be `str` or `bytes`; those that it returns are `bytes`.

    Attributes:
        inputs, outputs: their names.
        input_tensors, output_tensors: name -> type and shape.
    """

    def __init__(self, name: str, loaded: Any, as_tensor: Callable, errors: tuple[type[Exception], ...], folder: str):
        # A signature works only as long as the loaded object exists, so keep the object.
        self._loaded, self._function = loaded, loaded.signatures[name]
        self.input_tensors = _described(self._function.structured_input_signature[1])
        self.output_tensors = _described(self._function.structured_outputs)
        self.inputs, self.outputs = tuple(self.input_tensors), tuple(self.output_tensors)
        self._name, self._folder, self._as_tensor, self._errors = name, folder, as_tensor, errors

    def __call__(self, **inputs: Any) -> dict[str, np.ndarray]:
        """Returns the outputs for N rows. Raises `InputError` for inputs of other names or numbers of rows."""
        arrays = as_arrays(inputs)
        if arrays.keys() != set(self.inputs):
            raise InputError(
                f"The signature {self._name} of {self._folder} takes {', '.join(self.inputs)}. Received: "
                f"{', '.join(arrays)}"
            )
        try:
            found = self._function(**{name: self._as_tensor(array) for name, array in arrays.items()})
            return {name: values.numpy() for name, values in found.items()}
        except self._errors as error:
            raise InputError(
                f"The signature {self._name} of {self._folder} cannot answer as its {EXPORT_FILE} says: "
                f"{error!s:.300}. Export the model again."
            ) from error


def _described(specs: Mapping[str, Any]) -> dict[str, Tensor]:
    """Returns name -> type and shape of the inputs or outputs of a loaded function."""
    from tensorflow.core.framework.types_pb2 import DataType

    return {
        name: Tensor(
            DataType.Name(spec.dtype.as_datatype_enum).removeprefix("DT_").lower(),
            None if spec.shape.rank is None else tuple(spec.shape.as_list()),
        )
        for name, spec in sorted(specs.items())
    }


class SavedModelEngine:
    """The network of a SavedModel of `export_for_serving`. It needs TensorFlow, and no Keras.

    Attributes:
        signatures: all signatures of the SavedModel, name -> `RunnableSignature`.
        feature_names: the features that the network takes.

    Raises:
        InputError: the SavedModel is damaged or has no signature `raw_outputs`.
    """

    def __init__(self, folder: str | os.PathLike):
        # Imported here because it takes seconds.
        import tensorflow as tf

        folder = os.fspath(folder)
        loaded = load_saved_model(folder)
        errors = (KeyError, TypeError, ValueError, tf.errors.OpError)
        self.signatures = {
            name: RunnableSignature(name, loaded, tf.constant, errors, folder) for name in loaded.signatures
        }
        if RAW_OUTPUTS not in self.signatures:
            raise InputError(f"{folder} has no signature {RAW_OUTPUTS}. Export the model again.")
        self._network = self.signatures[RAW_OUTPUTS]
        names = [features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS]
        if features.MASKED_LM_POSITIONS in self._network.inputs:
            names.append(features.MASKED_LM_POSITIONS)
        self.feature_names = tuple(names)

    def run(self, given: Mapping[str, np.ndarray]):
        """Returns the outputs of the model for a batch, float32; see `BertModel` of the exported class.

        Raises:
            InputError: a row has two texts, but the SavedModel was exported for single texts; or the signature has
                other inputs or outputs than `export.json` describes.
        """
        lengths = given[features.INPUT_MASK].sum(axis=-1).astype(np.int32)
        inputs = {name: values for name, values in given.items() if name in self._network.inputs}
        if features.SEGMENT_IDS not in inputs and given[features.SEGMENT_IDS].any():
            raise InputError("This SavedModel takes single texts. Export the model with text_pairs=True for pairs.")
        found = self._network(lengths=lengths, **inputs)
        found = {name: _decoded(values) if values.dtype == object else values for name, values in found.items()}
        return found.get("outputs", found)
