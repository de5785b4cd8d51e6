"""A `TokenClassifier` as ONNX operations; see `Task.onnx` in `registry.py`."""

from keras_bert.serving.graph.onnx_heads import BATCH, LENGTH, OUTPUT, token_features
from keras_bert.serving.graph.onnx_layers import dense


def token_classifier(graph, model):
    tokens = token_features(graph, model)
    return {OUTPUT: (dense(graph, model.token_classifier, tokens, exact=True), [BATCH, LENGTH, len(model.labels)])}
