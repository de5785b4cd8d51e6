"""What an exported `BertSequenceClassifier` can be asked."""

import tensorflow as tf

from keras_bert.serving.signatures.rows import (
    IDS,
    SignatureOptions,
    choose_rows,
    cut,
    model_inputs,
    packer,
    signature,
    trim,
)


def classifier_signatures(model, tokenizer, options: SignatureOptions) -> dict:
    """Returns the signatures of a `BertSequenceClassifier`.

    Inputs: `text`, strings `[B]`, and for pairs `text_b`, strings `[B]`, where an empty one means a single text. Or
    `input_ids`, for pairs `segment_ids`, int32 `[B, S]`, and `lengths`, int32 `[B]`.

    Outputs: `label`, strings `[B]`, and its `probability`, float32 `[B]`; `labels`, strings `[B, L]`, the same in every
    row, and their `probabilities`, float32 `[B, L]`.
    """

    @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
    def classify(input_ids, input_mask, segment_ids):
        logits = model(model_inputs(input_ids, input_mask, segment_ids), training=False)
        probabilities = tf.nn.softmax(tf.cast(logits, tf.float32))
        labels = tf.constant(model.labels)
        return {
            "label": tf.gather(labels, tf.argmax(probabilities, axis=1)),
            "probability": tf.reduce_max(probabilities, axis=1),
            "labels": tf.tile(labels[tf.newaxis], [tf.shape(input_ids)[0], 1]),
            "probabilities": probabilities,
        }

    pack = packer(model.vocabulary, options.max_seq_length)

    @signature(text=([None], tf.string))
    def classify_text(text):
        return classify(*trim(*pack([tokenizer.tokenize(text)])))

    @signature(text=([None], tf.string), text_b=([None], tf.string))
    def classify_text_pair(text, text_b):
        first, second = tokenizer.tokenize(text), tokenizer.tokenize(text_b)
        is_pair = second.row_lengths() > 0
        return classify(*trim(*choose_rows(is_pair, pack([first, second]), pack([first]))))

    @signature(input_ids=([None, None], tf.int32), lengths=([None], tf.int32))
    def classify_tokens(input_ids, lengths):
        return classify(*cut(input_ids, tf.zeros_like(input_ids), lengths, options.max_seq_length))

    @signature(input_ids=([None, None], tf.int32), segment_ids=([None, None], tf.int32), lengths=([None], tf.int32))
    def classify_token_pair(input_ids, segment_ids, lengths):
        return classify(*cut(input_ids, segment_ids, lengths, options.max_seq_length))

    if options.text_pairs:
        return {"serving_default": classify_text_pair, "tokens": classify_token_pair}
    return {"serving_default": classify_text, "tokens": classify_tokens}
