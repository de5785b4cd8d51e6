"""The models as ONNX operations: what each computes from the vectors of its encoder.

Each function adds a model to a graph, and returns name of the output -> (value, axes), as `OnnxGraph.model` takes them.
"""

import numpy as np
from keras import ops

from keras_bert.encoders.bert.onnx import array, dense, layer_norm, stored_name
from keras_bert.records import features
from keras_bert.serving.portable.onnx_encoders import onnx_encoder
from keras_bert.tasks.question_answering.model import PADDING_LOGIT

# Names of the axes of inputs and outputs.
BATCH, LENGTH, CHOICES, PREDICTIONS = "batch", "length", "choices", "predictions"
# The name of the output of models that return one array.
OUTPUT = "output"
_HIDDEN = -1e9  # replaces the vectors of padding before a maximum is taken
_SMALLEST_SQUARE = 1e-24  # see `text_pooling.unit_length`


def classifier(graph, model):
    encoder = onnx_encoder(graph, model.encoder, _inputs(model))
    logits = dense(graph, model.classifier, encoder.pooled_at()[0], exact=True)
    return {OUTPUT: (logits, [BATCH, len(model.labels)])}


def sentence_classifier(graph, model):
    vectors = _text_vectors(graph, model)
    return {OUTPUT: (dense(graph, model.classifier, vectors, exact=True), [BATCH, len(model.labels)])}


def token_classifier(graph, model):
    tokens = _token_features(graph, model)
    return {OUTPUT: (dense(graph, model.token_classifier, tokens, exact=True), [BATCH, LENGTH, len(model.labels)])}


def span_classifier(graph, model):
    logits = dense(graph, model.span_classifier, _token_features(graph, model), exact=True)
    logits = graph.node("Where", _is_token(graph), logits, graph.number(PADDING_LOGIT))
    parts = graph.node("Split", logits, num_outputs=2, axis=2, split=[1, 1])
    start, end = (graph.node("Squeeze", part, axes=[2]) for part in parts)
    return {"start_logits": (start, [BATCH, LENGTH]), "end_logits": (end, [BATCH, LENGTH])}


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


def masked_lm(graph, model):
    encoder = onnx_encoder(graph, model.encoder, _inputs(model))
    _, masked = encoder.vectors_at(graph.to_int64(features.MASKED_LM_POSITIONS))
    return {"masked_lm_logits": _masked_lm_logits(graph, model, masked)}


def pretrainer(graph, model):
    encoder = onnx_encoder(graph, model.encoder, _inputs(model))
    pooled, masked = encoder.pooled_at(graph.to_int64(features.MASKED_LM_POSITIONS))
    next_sentence = dense(graph, model.next_sentence_head, pooled, exact=True)
    return {
        "masked_lm_logits": _masked_lm_logits(graph, model, masked),
        "next_sentence_logits": (next_sentence, [BATCH, 2]),
    }


def _masked_lm_logits(graph, model, masked: str) -> tuple[str, list]:
    """Returns the logits for the vectors of masked tokens, `[B, P, H]`: the value `[B, P, vocabulary]` and its axes."""
    head = model.masked_lm_head
    masked = graph.node("Reshape", masked, graph.integers(-1, model.config.hidden_size))
    masked = graph.activation(head.activation, dense(graph, head.dense, masked))
    masked = layer_norm(graph, head.layer_norm, masked)
    table = model.encoder.embeddings.token_embeddings if head.tied else head.output_embeddings
    bias = ops.convert_to_numpy(ops.cast(head.output_bias, "float32"))
    numbers = ops.convert_to_numpy(ops.cast(table, "float32"))
    logits = graph.product_with_rows(stored_name(table), masked, numbers, stored_name(head.output_bias), bias)
    shape = graph.node("Shape", features.MASKED_LM_POSITIONS)
    shape = graph.node("Concat", shape, graph.integers(model.config.vocab_size), axis=0)
    return graph.node("Reshape", logits, shape), [BATCH, PREDICTIONS, model.config.vocab_size]


def sentence_encoder(graph, model):
    return {OUTPUT: (_text_vectors(graph, model), [BATCH, model.embedding_size])}


def encoder(graph, model):
    encoder = onnx_encoder(graph, model, _inputs(model))
    tokens = encoder.sequence_output()
    width = model.config.hidden_size
    return {
        "sequence_output": (tokens, [BATCH, LENGTH, width]),
        "pooled_output": (encoder.pooled(tokens), [BATCH, width]),
    }


def replaced_token_detector(graph, model):
    head = model.replaced_token_head
    tokens = onnx_encoder(graph, model.encoder, _inputs(model)).sequence_output()
    inner = graph.activation(head.activation, dense(graph, head.dense, tokens))
    logits = graph.node("Squeeze", dense(graph, head.output_dense, inner, exact=True), axes=[2])
    return {OUTPUT: (logits, [BATCH, LENGTH])}


def _inputs(model) -> dict[str, str]:
    return {name: name for name in model.feature_names}


def _token_features(graph, model) -> str:
    encoder = onnx_encoder(graph, model.encoder, _inputs(model))
    return encoder.token_features(encoder.sequence_output())


def _is_token(graph) -> str:
    """Returns whether a column is no padding, bool `[B, S, 1]`."""
    mask = graph.node("Unsqueeze", features.INPUT_MASK, axes=[2])
    return graph.node("Greater", mask, graph.weight("no token", np.int32(0)))


def _text_vectors(graph, model) -> str:
    """Returns the vectors of texts, `[B, D]`; see `TextPooling.text_vectors`."""
    head = model.sentence_head
    encoder = onnx_encoder(graph, model.encoder, _inputs(model))
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
    return graph.to_float(_is_token(graph))


def _sum(graph, values: str) -> str:
    return graph.node("ReduceSum", values, axes=[1], keepdims=0)


def _count(graph) -> str:
    """Returns the number of tokens of each row, `[B, 1]`; 1 for a row without tokens."""
    return graph.node("Max", _sum(graph, _mask(graph)), graph.number(1))


def _first(graph, hidden):
    first = graph.node("Slice", hidden, graph.integers(0), graph.integers(1), graph.integers(1))
    return graph.node("Squeeze", first, axes=[1])


def _maximum(graph, hidden):
    kept = graph.node("Where", _is_token(graph), hidden, graph.number(_HIDDEN))
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
