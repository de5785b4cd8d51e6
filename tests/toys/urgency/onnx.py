"""`UrgencyModel` as ONNX operations."""

from keras_bert.serving.graph.onnx_encoders import onnx_encoder
from keras_bert.serving.graph.onnx_heads import BATCH, OUTPUT, inputs_of
from keras_bert.serving.graph.onnx_layers import dense


def urgency_model(graph, model):
    pooled, _ = onnx_encoder(graph, model.encoder, inputs_of(model)).pooled_at()
    return {OUTPUT: (dense(graph, model.urgency_head, pooled, exact=True), [BATCH, 1])}
