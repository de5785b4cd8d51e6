"""Finds the class that writes an encoder as ONNX operations."""

from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.registry import BERT_ENCODER, BERT_ONNX, Family, families, imported


def check_encoder(encoder) -> None:
    """Raises `InputError` if ONNX files cannot hold the layers of this encoder."""
    # The class of the family: a subclass of BertEncoder may have another attention.
    if _onnx_path(encoder.config.family) is None:
        paths = dict.fromkeys(entry.encoder for entry in families(has=_onnx_path).values())
        names = ", ".join(path.rpartition(".")[2] for path in paths)
        raise InputError(
            f"ONNX files can hold the layers of {names}. {type(encoder).__name__} has others, such as its attention. "
            "Use another format, such as saved_model."
        )


def onnx_encoder(graph, encoder, inputs: dict[str, str], rows: str = "batch") -> Any:
    """Adds an encoder to a graph; see `OnnxEncoder` in `encoders/bert/onnx.py`, which it returns."""
    return imported(_onnx_path(encoder.config.family))(graph, encoder, inputs, rows)


def _onnx_path(family: Family) -> str | None:
    return BERT_ONNX if family.encoder == BERT_ENCODER else family.onnx
