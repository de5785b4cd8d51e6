"""The signatures of an exported `SparseEncoder`."""

import dataclasses

import tensorflow as tf

from keras_bert.config.signature_options import SignatureOptions
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.serving.graph import RAW_OUTPUTS
from keras_bert.serving.graph.eight_bit_weights import EightBitModel
from keras_bert.serving.graph.row_groups import compute_in_groups, run_rows
from keras_bert.serving.graph.signature_inputs import IDS, model_inputs, row_signatures, signature, tokens_signature
from keras_bert.tasks.sparse.encoding import DOCUMENT, QUERY


def sparse_signatures(model, tokenizer, options: SignatureOptions) -> dict:
    """Returns the signatures of a `SparseEncoder`, which return the tokens with the largest weights.

    Inputs: `text`, strings `[B]`; or for `tokens` `input_ids`, int32 `[B, S]`, and `lengths`, int32 `[B]`.

    Outputs: `tokens`, strings `[B, top_k]`, as in the vocabulary, the largest weight first; `token_ids`, int32
    `[B, top_k]`; and `weights`, float32 `[B, top_k]`. Unused entries are "", -1 and 0.

    `encode_query` and `encode_document` are for texts in these roles, with their prompts. `serving_default` takes texts
    as `encode` of the model does, and `tokens` documents.

    `raw_outputs` has the inputs of `tokens`, and returns all weights as `outputs`, float32 `[B, V]`. With static
    queries, `query_weights` takes `input_ids`, int32 `[N]`, and returns the `weights` of these tokens, float32 `[N]`.
    """
    size, vocabulary = model.config.vocab_size, model.vocabulary
    check_whole("top_k", options.top_k, at_least=1, at_most=size)
    if isinstance(model, EightBitModel) and model.static_queries:
        raise InputError("A SparseEncoder with static queries is exported without 8 bits. Leave out weights.")
    top_k = min(options.top_k, model.max_active_dims or size)

    def weights_of(*rows):
        return tf.cast(model(model_inputs(*rows), training=False), tf.float32)

    def static_weights_of(input_ids, input_mask, _):
        return tf.cast(model.query_weights(input_ids, input_mask), tf.float32)

    def best_tokens(compute):
        found = [tf.TensorSpec([None, top_k], dtype) for dtype in (tf.float32, tf.int32)]

        @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
        def best(*rows):
            group = lambda *part: list(tf.math.top_k(compute(*part), top_k))  # noqa: E731
            weights, ids = compute_in_groups(group, list(rows), tf.shape(rows[0])[1], found)
            is_used = weights > 0
            tokens = tf.where(is_used, tf.gather(tf.constant(vocabulary.tokens), ids), "")
            return {"tokens": tokens, "token_ids": tf.where(is_used, ids, -1), "weights": weights}

        return best

    def of_role(role, prompt):
        is_static = role == QUERY and model.static_queries
        room = (model.max_query_length or options.max_seq_length) + vocabulary.special_tokens.num_special(1)
        its_options = dataclasses.replace(options, max_seq_length=room) if is_static else options
        run = best_queries if is_static else best_documents
        return row_signatures(
            model, tokenizer.tokenize, its_options, run, lambda answers: answers, prompt=model.prompt(prompt)
        )

    def raw_outputs(*rows):
        return {"outputs": run_rows(weights_of, list(rows), size)}

    best_documents, best_queries = best_tokens(weights_of), best_tokens(static_weights_of)
    of_queries, of_documents = (of_role(role, model.prompt_for(role)) for role in (QUERY, DOCUMENT))
    made = {
        "serving_default": of_role(model.default_route, options.prompt)["serving_default"],
        "encode_query": of_queries["serving_default"],
        "encode_document": of_documents["serving_default"],
        "tokens": of_documents["tokens"],
        RAW_OUTPUTS: tokens_signature(raw_outputs, options.max_seq_length, False),
    }
    return made | ({"query_weights": _query_weights(model)} if model.static_queries else {})


def _query_weights(model):
    @signature(input_ids=([None], tf.int32))
    def query_weights(input_ids):
        return {"weights": tf.gather(tf.cast(model.query_weights.weight, tf.float32), input_ids)}

    return query_weights
