"""A `MultipleChoice` as ONNX operations; see `Task.onnx` in `registry.py`."""

from keras_bert.records import features
from keras_bert.serving.graph.onnx_encoders import onnx_encoder
from keras_bert.serving.graph.onnx_heads import BATCH, CHOICES, LENGTH, OUTPUT
from keras_bert.serving.graph.onnx_layers import dense


def multiple_choice(graph, model):
    shape = graph.node("Shape", features.INPUT_IDS)
    length = graph.node("Slice", shape, graph.integers(2), graph.integers(3), graph.integers(0))
    rows = graph.node("Concat", graph.integers(-1), length, axis=0)
    inputs = {name: graph.node("Reshape", name, rows) for name in model.feature_names}
    for value in inputs.values():
        graph.state_axes(value, ["rows", LENGTH], "int32")
    encoder = onnx_encoder(graph, model.encoder, inputs, rows="rows")
    scores = dense(graph, model.choice_scorer, encoder.pooled_at()[0], exact=True)
    batch_and_choices = graph.node("Slice", shape, graph.integers(0), graph.integers(2), graph.integers(0))
    return {OUTPUT: (graph.node("Reshape", scores, batch_and_choices), [BATCH, CHOICES])}
