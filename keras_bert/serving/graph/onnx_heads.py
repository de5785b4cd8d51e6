"""What the tasks share of their ONNX operations: names of axes and outputs, inputs, and the vectors of tokens."""

from collections.abc import Sequence

import numpy as np

from keras_bert import registry
from keras_bert.records import features
from keras_bert.serving.graph.onnx_encoders import onnx_encoder

# Names of the axes of inputs and outputs.
BATCH, LENGTH, CHOICES, PREDICTIONS = "batch", "length", "choices", "predictions"
# Of packed rows: the sequences of a row, and those of all rows.
SEQUENCES, TEXTS = "sequences", "texts"
# The name of the output of models that return one array.
OUTPUT = "output"


def inputs_and_outputs(graph, model) -> tuple[dict[str, Sequence], dict[str, tuple]]:
    """Adds the network of a model to a graph, and returns the inputs and outputs of `OnnxGraph.model`."""
    outputs = registry.imported(registry.task_of(model).onnx)(graph, model)
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
