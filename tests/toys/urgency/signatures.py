"""The signatures of an exported `UrgencyModel`."""

import tensorflow as tf

from keras_bert.serving.graph import RAW_OUTPUTS
from keras_bert.serving.graph.row_groups import run_rows
from keras_bert.serving.graph.signature_inputs import (
    IDS,
    check_room,
    model_inputs,
    packer,
    text_signature,
    tokens_signature,
)


def urgency_signatures(model, tokenizer, options):
    """Returns `serving_default` of `text`, strings `[B]`, and `tokens` of ids: `urgency`, float32 `[B]`. `raw_outputs`
    has the inputs of `tokens`, and the model's `outputs`."""
    check_room(options, 1, model.vocabulary)

    @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
    def run(*rows):
        return run_rows(lambda *part: model(model_inputs(*part), training=False), rows, 1)

    def answer(*rows):
        return {"urgency": tf.sigmoid(run(*rows)[:, 0])}

    def raw_outputs(*rows):
        return {"outputs": run(*rows)}

    length = options.max_seq_length
    return {
        "serving_default": text_signature(packer(model.vocabulary, length), tokenizer.tokenize, answer, False),
        "tokens": tokens_signature(answer, length, False),
        RAW_OUTPUTS: tokens_signature(raw_outputs, length, False),
    }
