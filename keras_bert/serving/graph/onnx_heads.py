"""What the tasks share of their ONNX operations: names of axes and outputs, inputs, and the encoder."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert import registry
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.registry import BERT_ENCODER, BERT_ONNX, Family, families, imported

# Names of the axes of inputs and outputs.
BATCH, LENGTH, CHOICES, PREDICTIONS = "batch", "length", "choices", "predictions"
# Of packed rows: the sequences of a row, and those of all rows.
SEQUENCES, TEXTS = "sequences", "texts"
# The name of the output of models that return one array.
OUTPUT = "output"


def inputs_and_outputs(graph, model) -> tuple[dict[str, Sequence], dict[str, tuple]]:
    """Adds the network of a model to a graph, and returns the inputs and outputs of `OnnxGraph.model`."""
    outputs = imported(registry.task_of(model).onnx)(graph, model)
    inputs = {name: model.feature_axes for name in model.feature_names}
    if features.MASKED_LM_POSITIONS in inputs:
        inputs[features.MASKED_LM_POSITIONS] = (model.feature_axes[0], PREDICTIONS)
    if features.CLS_POSITIONS in graph.packed_inputs:
        outputs = {name: (value, [TEXTS, *axes[1:]]) for name, (value, axes) in outputs.items()}
    return inputs | graph.packed_inputs, outputs


def inputs_of(model) -> dict[str, str]:
    return {name: name for name in model.feature_names}


def encoder_of_rows(graph, model, per_sequence: bool = True):
    """Returns `onnx_encoder` of a model. In a packed graph, its rows are packed if the encoder allows it.

    Args:
        per_sequence: whether the outputs of the model are one for each sequence, and not for each token.
    """
    encoder = onnx_encoder(graph, model.encoder, inputs_of(model))
    if not graph.packed or not encoder.can_pack():
        return encoder
    graph.packed_inputs = {features.POSITION_IDS: (BATCH, LENGTH)}
    if per_sequence:
        graph.packed_inputs[features.CLS_POSITIONS] = (BATCH, SEQUENCES)
    return onnx_encoder(graph, model.encoder, inputs_of(model) | {name: name for name in graph.packed_inputs})


def token_features(graph, model) -> str:
    encoder = encoder_of_rows(graph, model, per_sequence=False)
    return encoder.token_features(encoder.sequence_output())


def is_token(graph) -> str:
    """Returns whether a column is no padding, bool `[B, S, 1]`."""
    mask = graph.node("Unsqueeze", features.INPUT_MASK, axes=[2])
    return graph.node("Greater", mask, graph.weight("no token", np.int32(0)))


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
