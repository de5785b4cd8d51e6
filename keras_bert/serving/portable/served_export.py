"""An exported folder on the development server: its answers as the outputs of `serving_default`, without TensorFlow."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.serving.portable.answer_signature import AnswerSignature
from keras_bert.serving.portable.loading import load
from keras_bert.tf_serving.server.loaded_model import DEFAULT_SIGNATURE, Arrays, ServedSignature, TensorSpec
from keras_bert.tf_serving.server.status import Code, StatusError, invalid_argument
from keras_bert.tf_serving.wire import messages

_DTYPES = {"string": 7, "float": 1, "int32": 3, "bool": 10}  # their numbers in messages


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
        StatusError: the folder cannot be loaded, or has a model of a kind that cannot be served.
    """

    def __init__(self, folder: str, **options: Any):
        self.folder = folder
        try:
            model = load(folder, **options)
        except InputError as error:
            raise StatusError(Code.FAILED_PRECONDITION, str(error)) from None
        if DEFAULT_SIGNATURE not in model.signatures:
            raise StatusError(
                Code.UNIMPLEMENTED,
                f"{folder} is the export of a {model.kind}, which the server takes as a SavedModel only. Write "
                "one with export_model, without --format.",
            )
        self._answer = model.signatures[DEFAULT_SIGNATURE]
        self.signatures = {DEFAULT_SIGNATURE: _described(self._answer)}

    def run(self, signature_name: str, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Returns output -> array. Strings are object arrays of bytes. Several threads may call it at once.

        Raises:
            StatusError: INVALID_ARGUMENT: an input has another shape, or the model cannot take the texts.
        """
        try:
            return self._answer(**inputs)
        except InputError as error:
            raise invalid_argument(error) from None

    def close(self) -> None:
        """Frees the memory. No `run` may be in progress."""
        del self._answer


def _described(answer: AnswerSignature) -> _Signature:
    definition = messages.SignatureDef(method_name="tensorflow/serving/predict")
    specs = []
    for named, infos in ((answer.input_specs, definition.inputs), (answer.output_specs, definition.outputs)):
        specs.append({name: TensorSpec(name, dtype, (None, *axes)) for name, (dtype, *axes) in named.items()})
        for name, (dtype, *axes) in named.items():
            infos[name].name, infos[name].dtype = name, _DTYPES[dtype]
            for size in (None, *axes):
                infos[name].tensor_shape.dim.add(size=-1 if size is None else size)
    return _Signature(DEFAULT_SIGNATURE, definition, *specs, {})
