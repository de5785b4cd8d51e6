"""A `MaskedLM` as ONNX operations; see `Task.onnx` in `registry.py`."""

import numpy as np

from keras_bert.records import features
from keras_bert.serving.graph.onnx_encoders import onnx_encoder
from keras_bert.serving.graph.onnx_heads import BATCH, PREDICTIONS, inputs_of
from keras_bert.serving.graph.onnx_layers import array, dense, layer_norm, stored_name


def masked_lm(graph, model):
    encoder = onnx_encoder(graph, model.encoder, inputs_of(model))
    _, masked = encoder.vectors_at(graph.to_int64(features.MASKED_LM_POSITIONS))
    return {"masked_lm_logits": masked_lm_logits(graph, model, masked)}


def masked_lm_logits(graph, model, masked: str) -> tuple[str, list]:
    """Returns the logits for the vectors of masked tokens, `[B, P, H]`: the value `[B, P, vocabulary]` and its axes."""
    head = model.masked_lm_head
    masked = graph.node("Reshape", masked, graph.integers(-1, model.config.hidden_size))
    if head.has_transform:
        masked = graph.activation(head.activation, dense(graph, head.dense, masked))
        masked = layer_norm(graph, head.layer_norm, masked)
    table = model.encoder.embeddings.token_embeddings if head.tied else head.output_embeddings
    bias = array(head.output_bias) if head.has_bias else np.zeros(model.config.vocab_size, "float32")
    bias_name = f"{stored_name(head)}/output_bias"
    logits = graph.product_with_rows(stored_name(table), masked, array(table), bias_name, bias)
    shape = graph.node("Shape", features.MASKED_LM_POSITIONS)
    shape = graph.node("Concat", shape, graph.integers(model.config.vocab_size), axis=0)
    return graph.node("Reshape", logits, shape), [BATCH, PREDICTIONS, model.config.vocab_size]
