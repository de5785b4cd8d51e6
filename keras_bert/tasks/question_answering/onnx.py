"""A `SpanClassifier` as ONNX operations; see `Task.onnx` in `registry.py`."""

from keras_bert.serving.graph.onnx_heads import BATCH, LENGTH, is_token, token_features
from keras_bert.serving.graph.onnx_layers import dense
from keras_bert.tasks.question_answering.model import PADDING_LOGIT


def span_classifier(graph, model):
    logits = dense(graph, model.span_classifier, token_features(graph, model), exact=True)
    logits = graph.node("Where", is_token(graph), logits, graph.number(PADDING_LOGIT))
    parts = graph.node("Split", logits, num_outputs=2, axis=2, split=[1, 1])
    start, end = (graph.node("Squeeze", part, axes=[2]) for part in parts)
    return {"start_logits": (start, [BATCH, LENGTH]), "end_logits": (end, [BATCH, LENGTH])}
