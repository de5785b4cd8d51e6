"""Encoders, and the vectors of texts, as ONNX operations; see `Task.onnx` in `registry.py`."""

from keras_bert.serving.graph.onnx_encoders import onnx_encoder
from keras_bert.serving.graph.onnx_heads import BATCH, LENGTH, OUTPUT, encoder_of_rows, inputs_of
from keras_bert.serving.graph.onnx_layers import array, dense, stored_name
from keras_bert.serving.graph.onnx_sequences import PackedSequences, RowSequences

_SMALLEST_SQUARE = 1e-24  # see `text_pooling.unit_length`


def sentence_encoder(graph, model):
    return {OUTPUT: (text_vectors(graph, model), [BATCH, model.embedding_size])}


def encoder(graph, model):
    encoder = onnx_encoder(graph, model, inputs_of(model))
    tokens = encoder.sequence_output()
    width = model.config.hidden_size
    return {
        "sequence_output": (tokens, [BATCH, LENGTH, width]),
        "pooled_output": (encoder.pooled(tokens), [BATCH, width]),
    }


def text_vectors(graph, model) -> str:
    """Returns the vectors of texts, `[B, D]`; see `TextPooling.text_vectors`. Of packed rows, `[B * K, D]`."""
    head = model.sentence_head
    encoder = encoder_of_rows(graph, model)
    if head.pooling == ("cls",):
        vectors = encoder.vectors_of_sequences(encoder.vectors_at()[0])
    else:
        hidden = encoder.sequence_output()
        sequences = (PackedSequences if encoder.is_packed else RowSequences)(graph)
        vectors = [sequences.pooled(name, hidden) for name in head.pooling]
        vectors = vectors[0] if len(vectors) == 1 else graph.node("Concat", *vectors, axis=1)
    for layer in head.dense_layers:
        outputs = graph.activation(layer.activation_name, dense(graph, layer, vectors, exact=True))
        vectors = _with_shortcut(graph, layer, vectors, outputs) if hasattr(layer, "residual") else outputs
    if not head.normalize:
        return vectors
    squares = graph.node("ReduceSum", graph.node("Mul", vectors, vectors), axes=[1], keepdims=1)
    return graph.node("Div", vectors, graph.node("Sqrt", graph.node("Max", squares, graph.number(_SMALLEST_SQUARE))))


def _with_shortcut(graph, layer, inputs: str, outputs: str) -> str:
    """Returns the outputs of a `ResidualDense`."""
    if layer.residual is not None:
        inputs = graph.dense(f"{stored_name(layer)}/residual", inputs, array(layer.residual), None, True)
    return graph.node("Add", outputs, inputs)
