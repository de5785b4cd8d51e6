"""Models of pre-training as ONNX operations; see `Task.onnx` in `registry.py`."""

from keras_bert.records import features
from keras_bert.serving.graph.onnx_heads import BATCH, LENGTH, OUTPUT, inputs_of, onnx_encoder
from keras_bert.serving.graph.onnx_layers import dense, layer_norm
from keras_bert.tasks.masked_lm.signatures import masked_lm_logits


def pretrainer(graph, model):
    encoder = onnx_encoder(graph, model.encoder, inputs_of(model))
    pooled, masked = encoder.pooled_at(graph.to_int64(features.MASKED_LM_POSITIONS))
    next_sentence = dense(graph, model.next_sentence_head, pooled, exact=True)
    return {
        "masked_lm_logits": masked_lm_logits(graph, model, masked),
        "next_sentence_logits": (next_sentence, [BATCH, 2]),
    }


def replaced_token_detector(graph, model):
    head = model.replaced_token_head
    encoder = onnx_encoder(graph, model.encoder, inputs_of(model))
    tokens = encoder.sequence_output()
    if head.layer_norm:
        tokens = layer_norm(graph, head.layer_norm, graph.node("Add", tokens, encoder.first(tokens)))
    inner = graph.activation(head.activation, dense(graph, head.dense, tokens))
    logits = graph.node("Squeeze", dense(graph, head.output_dense, inner, exact=True), axes=[2])
    return {OUTPUT: (logits, [BATCH, LENGTH])}
