"""`UrgencyModel` as signatures of a SavedModel, and as ONNX operations."""

import tensorflow as tf

from keras_bert.serving.graph import answer_operations
from keras_bert.serving.graph.onnx_heads import BATCH, OUTPUT, inputs_of, onnx_encoder
from keras_bert.serving.graph.onnx_layers import dense
from keras_bert.serving.graph.row_groups import run_rows
from keras_bert.serving.graph.signature_inputs import IDS, model_inputs, row_signatures
from toys.urgency.answers import urgency_arrays


def urgency_signatures(model, tokenizer, options):
    """Returns `serving_default` of `text`, strings `[B]`, and `tokens` of ids: `urgency`, float32 `[B]`. `raw_outputs`
    has the inputs of `tokens`, and the model's `outputs`."""

    @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
    def run(*rows):
        return run_rows(lambda *part: model(model_inputs(*part), training=False), rows, 1)

    def arrays(outputs):
        return urgency_arrays(outputs, answer_operations)

    return row_signatures(model, tokenizer.tokenize, options, run, arrays)


def urgency_model(graph, model):
    pooled, _ = onnx_encoder(graph, model.encoder, inputs_of(model)).pooled_at()
    return {OUTPUT: (dense(graph, model.urgency_head, pooled, exact=True), [BATCH, 1])}
