"""Classifiers as ONNX operations; see `Task.onnx` in `registry.py`."""

from keras_bert.serving.graph.onnx_heads import BATCH, OUTPUT, encoder_of_rows
from keras_bert.serving.graph.onnx_layers import dense
from keras_bert.tasks.embedding.onnx import text_vectors


def classifier(graph, model):
    encoder = encoder_of_rows(graph, model)
    logits = dense(graph, model.classifier, encoder.pooled_at()[0], exact=True)
    return {OUTPUT: (logits, [BATCH, len(model.labels)])}


def sentence_classifier(graph, model):
    vectors = text_vectors(graph, model)
    return {OUTPUT: (dense(graph, model.classifier, vectors, exact=True), [BATCH, len(model.labels)])}
