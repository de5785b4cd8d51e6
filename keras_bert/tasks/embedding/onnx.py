"""Encoders, and the vectors of texts, as ONNX operations; see `Task.onnx` in `registry.py`."""

import numpy as np

from keras_bert.serving.graph.onnx_encoders import onnx_encoder
from keras_bert.serving.graph.onnx_heads import BATCH, LENGTH, OUTPUT, inputs_of, is_token
from keras_bert.serving.graph.onnx_layers import array, dense, stored_name

_HIDDEN = -1e9  # replaces the vectors of padding before a maximum is taken
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
    """Returns the vectors of texts, `[B, D]`; see `TextPooling.text_vectors`."""
    head = model.sentence_head
    encoder = onnx_encoder(graph, model.encoder, inputs_of(model))
    if head.pooling == ("cls",):
        vectors = graph.node("Squeeze", encoder.vectors_at()[0], axes=[1])
    else:
        hidden = encoder.sequence_output()
        vectors = [_POOL[name](graph, hidden) for name in head.pooling]
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


def _mask(graph) -> str:
    return graph.to_float(is_token(graph))


def _sum(graph, values: str) -> str:
    return graph.node("ReduceSum", values, axes=[1], keepdims=0)


def _count(graph) -> str:
    """Returns the number of tokens of each row, `[B, 1]`; 1 for a row without tokens."""
    return graph.node("Max", _sum(graph, _mask(graph)), graph.number(1))


def _first(graph, hidden):
    first = graph.node("Slice", hidden, graph.integers(0), graph.integers(1), graph.integers(1))
    return graph.node("Squeeze", first, axes=[1])


def _maximum(graph, hidden):
    kept = graph.node("Where", is_token(graph), hidden, graph.number(_HIDDEN))
    return graph.node("ReduceMax", kept, axes=[1], keepdims=0)


def _token_sum(graph, hidden):
    return _sum(graph, graph.node("Mul", hidden, _mask(graph)))


def _mean(graph, hidden):
    return graph.node("Div", _token_sum(graph, hidden), _count(graph))


def _mean_by_root(graph, hidden):
    return graph.node("Div", _token_sum(graph, hidden), graph.node("Sqrt", _count(graph)))


def _position_weighted_mean(graph, hidden):
    # Positions count padding on the left too, so they are sums of ones, not of the mask.
    ones = graph.node("Exp", graph.node("Mul", _mask(graph), graph.number(0)))
    positions = graph.node("CumSum", ones, graph.weight("one", np.int64(1)))
    weights = graph.node("Mul", _mask(graph), positions)
    total = graph.node("Max", _sum(graph, weights), graph.number(1))
    return graph.node("Div", _sum(graph, graph.node("Mul", hidden, weights)), total)


def _last(graph, hidden):
    last = graph.node("Sub", graph.to_int64(_count(graph)), graph.integers(1))
    return graph.node("GatherND", hidden, last, batch_dims=1)


# The poolings of `layers/text_pooling.py`, in the order in which it joins several.
_POOL = {
    "cls": _first,
    "max": _maximum,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_by_root,
    "weightedmean": _position_weighted_mean,
    "lasttoken": _last,
}
