"""The signatures of an exported `BertEncoder`."""

import tensorflow as tf

from keras_bert.embeddings.text_vectors import check_pooling
from keras_bert.serving.signatures.row_groups import run_rows
from keras_bert.serving.signatures.signature_inputs import (
    IDS,
    SignatureOptions,
    check_pairs,
    check_room,
    model_inputs,
    packer,
    signature,
    text_signature,
    tokens_signature,
)
from keras_bert.serving.signatures.tokenize import token_rows

_SHORTEST_VECTOR = 1e-12  # keeps the zero vector zero


def embedding_signatures(model, tokenizer, options: SignatureOptions) -> dict:
    """Returns the signatures of a `BertEncoder`: vectors of texts and of their tokens.

    Inputs: `text`, strings `[B]`, and for pairs `text_b`, strings `[B]`; an empty `text_b` means a single text. Or
    `input_ids`, for pairs `segment_ids`, int32 `[B, S]`, and `lengths`, int32 `[B]`.

    Output: `embedding`, float32 `[B, H]`, as computed by `text_vectors.sentence_embeddings`.

    `features` takes `text` and returns `vectors`, float32 `[B, S, H]`, one for each token; `lengths`, int32 `[B]`, the
    number of tokens of each text, including [CLS] and [SEP]; and `starts` and `ends`, int32 `[B, S]`, the bytes of the
    text that each token came from, -1 for [CLS], [SEP] and padding. Vectors of padding are 0.
    """
    check_room(options, 1 + options.text_pairs, model.vocabulary)
    if options.text_pairs:
        check_pairs(model)
    check_pooling(model.config, options.pooling)

    hidden_size = model.config.hidden_size

    @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
    def vectors_of(input_ids, input_mask, segment_ids):
        hidden = model(model_inputs(input_ids, input_mask, segment_ids), training=False)["sequence_output"]
        return tf.where(input_mask[:, :, tf.newaxis] > 0, tf.cast(hidden, tf.float32), 0.0)

    def pool(input_ids, input_mask, segment_ids):
        vectors = vectors_of(input_ids, input_mask, segment_ids)  # [B, S, H]
        if options.pooling == "first":
            pooled = vectors[:, 0]
        else:
            counts = tf.cast(tf.reduce_sum(input_mask, axis=1, keepdims=True), tf.float32)
            pooled = tf.math.divide_no_nan(tf.reduce_sum(vectors, axis=1), counts)
        if options.normalize:
            pooled /= tf.maximum(tf.norm(pooled, axis=1, keepdims=True), _SHORTEST_VECTOR)
        return pooled

    @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
    def embed(*rows):
        return {"embedding": run_rows(pool, rows, hidden_size)}

    @signature(text=([None], tf.string))
    def features(text):
        rows = tokenizer.tokenize_with_offsets(text)
        # The model cannot run on rows without columns.
        found = token_rows(*rows, model.vocabulary, options.max_seq_length, shortest=1)
        input_ids = found.pop("input_ids")
        mask = tf.sequence_mask(found["lengths"], tf.shape(input_ids)[1], tf.int32)
        rows = input_ids, mask, tf.zeros_like(mask)
        return {"vectors": run_rows(vectors_of, rows, None, hidden_size), **found}

    pack = packer(model.vocabulary, options.max_seq_length)
    return {
        "serving_default": text_signature(pack, tokenizer.tokenize, embed, options.text_pairs),
        "tokens": tokens_signature(embed, options.max_seq_length, options.text_pairs),
        "features": features,
    }
