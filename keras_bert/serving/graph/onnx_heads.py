"""What the tasks share of their ONNX operations: names of axes and outputs, inputs, and the vectors of tokens."""

from collections.abc import Sequence

import numpy as np

from keras_bert import registry
from keras_bert.records import features
from keras_bert.serving.graph.onnx_encoders import onnx_encoder

# Names of the axes of inputs and outputs.
BATCH, LENGTH, CHOICES, PREDICTIONS = "batch", "length", "choices", "predictions"
# The name of the output of models that return one array.
OUTPUT = "output"


def network(graph, model) -> tuple[dict[str, Sequence], dict[str, tuple]]:
    """Adds the network of a model to a graph, and returns the inputs and outputs of `OnnxGraph.model`."""
    inputs = {name: model.feature_axes for name in model.feature_names}
    if features.MASKED_LM_POSITIONS in inputs:
        inputs[features.MASKED_LM_POSITIONS] = (model.feature_axes[0], PREDICTIONS)
    return inputs, registry.imported(registry.task_of(model).onnx)(graph, model)


def inputs_of(model) -> dict[str, str]:
    return {name: name for name in model.feature_names}


def token_features(graph, model) -> str:
    encoder = onnx_encoder(graph, model.encoder, inputs_of(model))
    return encoder.token_features(encoder.sequence_output())


def is_token(graph) -> str:
    """Returns whether a column is no padding, bool `[B, S, 1]`."""
    mask = graph.node("Unsqueeze", features.INPUT_MASK, axes=[2])
    return graph.node("Greater", mask, graph.weight("no token", np.int32(0)))
