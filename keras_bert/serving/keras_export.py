"""`model.export(path, format=...)` of Keras: writes a network that takes features, in the formats of our exports."""

import os

import keras

from keras_bert.program.errors import InputError
from keras_bert.serving.portable.litert_model import write_litert
from keras_bert.serving.portable.onnx_model import write_onnx
from keras_bert.serving.portable.portable_models import padded


def export(model, filepath: str | os.PathLike, format: str = "tf_saved_model", verbose: bool | None = None) -> None:
    """Writes a model for features of any number of rows and any length.

    Args:
        model: a `BertModel`.
        filepath: the folder of a SavedModel, or the file of another format.
        format: Keras' name of the format: `tf_saved_model`, `litert` or `onnx`.
        verbose: whether Keras says what it wrote; by default it does not.

    Raises:
        InputError: the format is another one, or cannot hold the model.
    """
    if format not in ("tf_saved_model", "litert", "onnx"):
        raise InputError(
            f"{type(model).__name__}.export has the formats tf_saved_model, litert and onnx. Received: {format!r}. "
            "Pass input_signature to use Keras' own exporter, or call export_for_serving for a model that takes texts."
        )
    if format == "onnx":
        return write_onnx(model, filepath)
    with padded(model):
        if format == "litert":
            return write_litert(model, filepath)
        axes = [None] * len(model.feature_axes)
        features = {name: keras.InputSpec(shape=axes, dtype="int32", name=name) for name in model.feature_names}
        return keras.Model.export(model, filepath, verbose=bool(verbose), input_signature=[features])
