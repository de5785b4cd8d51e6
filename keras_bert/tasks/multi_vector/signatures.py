"""The signatures of an exported `MultiVectorEncoder`."""

import tensorflow as tf

from keras_bert.config.signature_options import SignatureOptions
from keras_bert.serving.graph import RAW_OUTPUTS
from keras_bert.serving.graph.row_groups import run_rows
from keras_bert.serving.graph.signature_inputs import (
    IDS,
    check_room,
    model_inputs,
    packer,
    signature,
    tokens_signature,
    trim,
    with_prompt,
)
from keras_bert.tasks.multi_vector.encoding import DOCUMENT, QUERY


def multi_vector_signatures(model, tokenizer, options: SignatureOptions) -> dict:
    """Returns the signatures of a `MultiVectorEncoder`.

    `encode_query` and `encode_document`, which is `serving_default`, take `text`, strings `[B]`, and return `vectors`,
    float32 `[B, S, D]`, and `mask`, int32 `[B, S]`, 1 where there is a vector; the others are zeros. `tokens` takes
    `input_ids`, int32 `[B, S]`, and `lengths`, int32 `[B]`, of documents.

    `raw_outputs` has the inputs of `tokens` and returns `outputs`, float32 `[B, S, D]`, with a vector for each column.
    Tokens beyond a length are those to which no other one attends.
    """
    check_room(options, 1, model.vocabulary)
    longest = min(options.max_seq_length, model.longest(DOCUMENT))

    def runner(computes_padding: bool):
        def vectors_of(*rows):
            return model.token_vectors(model_inputs(*rows), computes_padding)

        @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
        def run(*rows):
            return run_rows(vectors_of, rows, None, model.vector_size)

        return run

    run_queries = runner(model.computes_padding)
    run_documents = runner(False) if model.computes_padding else run_queries

    def scored(role, input_ids, mask):
        skipped = tf.constant(model.skipped_ids(role), tf.int32)
        return tf.where(tf.reduce_any(tf.equal(input_ids[:, :, tf.newaxis], skipped), axis=-1), 0, mask)

    def documents(input_ids, input_mask, segment_ids):
        mask = scored(DOCUMENT, input_ids, input_mask)
        return _masked(run_documents(input_ids, input_mask, segment_ids), mask)

    @signature(text=([None], tf.string))
    def encode_query(text):
        pack = packer(model.vocabulary, model.longest(QUERY))
        input_ids, input_mask, mask = _expanded(model, *pack([tokenize(QUERY, text)]))
        mask = scored(QUERY, input_ids, mask)
        return _masked(run_queries(input_ids, input_mask, tf.zeros_like(input_ids)), mask)

    @signature(text=([None], tf.string))
    def encode_document(text):
        return documents(*trim(*packer(model.vocabulary, longest)([tokenize(DOCUMENT, text)])))

    @signature(input_ids=([None, None], tf.int32), lengths=([None], tf.int32))
    def raw_outputs(input_ids, lengths):
        input_mask = tf.sequence_mask(lengths, tf.shape(input_ids)[1], tf.int32)
        return {"outputs": run_queries(input_ids, input_mask, tf.zeros_like(input_ids))}

    def tokenize(role, text):
        return tokenizer.tokenize(with_prompt(model.prompt(model.prompt_for(role)), text))

    return {
        "serving_default": encode_document,
        "encode_query": encode_query,
        "encode_document": encode_document,
        "tokens": tokens_signature(documents, longest, False),
        RAW_OUTPUTS: raw_outputs,
    }


def _expanded(model, input_ids, input_mask, segment_ids):
    """Returns ids, mask and scored tokens, int32 `[B, S]`, of queries that are filled up with masks."""
    expansion = model.query_expansion
    if expansion is None:
        input_ids, input_mask, _ = trim(input_ids, input_mask, segment_ids)
        return input_ids, input_mask, input_mask
    floor = expansion["length"]
    width = tf.reduce_max(tf.concat([tf.reduce_sum(input_mask, axis=1), [floor]], 0))
    input_ids, input_mask = input_ids[:, :width], input_mask[:, :width]
    is_added = tf.equal(input_mask, 0) & (tf.range(width) < floor)
    input_ids = tf.where(is_added, model.expansion_id(), input_ids)
    scored = tf.where(is_added, 1, input_mask)
    return input_ids, scored if expansion["attend"] else input_mask, scored


def _masked(vectors, mask) -> dict:
    return {"vectors": vectors * tf.cast(mask[:, :, tf.newaxis], tf.float32), "mask": mask}
