"""Finds the class that writes an encoder as ONNX operations."""

from keras_bert.models.encoder import BertEncoder
from keras_bert.models.encoders import encoder_class
from keras_bert.models.modern_bert_encoder import ModernBertEncoder
from keras_bert.program.errors import InputError
from keras_bert.serving.portable.onnx_encoder import OnnxEncoder
from keras_bert.serving.portable.onnx_modern_bert import OnnxModernBertEncoder

_CLASSES = {BertEncoder: OnnxEncoder, ModernBertEncoder: OnnxModernBertEncoder}


def check_encoder(encoder) -> None:
    """Raises `InputError` if ONNX files cannot hold the layers of this encoder."""
    # The class of the family: a LongEncoder is a BertEncoder with another attention.
    if encoder_class(encoder.config) not in _CLASSES:
        names = " and ".join(kind.__name__ for kind in _CLASSES)
        raise InputError(
            f"ONNX files can hold the layers of {names}. {type(encoder).__name__} has others, such as its attention. "
            "Use another format, such as saved_model."
        )


def onnx_encoder(graph, encoder, inputs: dict[str, str], rows: str = "batch") -> OnnxEncoder:
    """Adds an encoder to a graph; see `OnnxEncoder`."""
    return _CLASSES[encoder_class(encoder.config)](graph, encoder, inputs, rows)
