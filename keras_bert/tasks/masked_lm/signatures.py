"""The signatures of an exported `MaskedLM` or `BertPretrainer`."""

import tensorflow as tf

from keras_bert.program.options import check_whole
from keras_bert.records import features
from keras_bert.serving.graph import RAW_OUTPUTS, answer_operations
from keras_bert.serving.graph.row_groups import compute_in_groups
from keras_bert.serving.graph.signature_inputs import (
    IDS,
    check_room,
    cut,
    model_inputs,
    packer,
    signature,
    text_signature,
    tokens_signature,
)
from keras_bert.serving.graph.signature_options import SignatureOptions
from keras_bert.serving.graph.tokenize import tokenize_signature
from keras_bert.tasks.masked_lm.answers import best_tokens
from keras_bert.tasks.masked_lm.graph_masks import (
    mask_positions,
    tokenize_with_masks,
    tokenize_with_masks_and_offsets,
)


def fill_mask_signatures(model, tokenizer, options: SignatureOptions) -> dict:
    """Returns the signatures of a `MaskedLM` or `BertPretrainer`, which propose tokens for [MASK].

    The mask is the mask token of the vocabulary, whatever its name. Inputs: `text`, strings `[B]`, with any number of
    literal [MASK]. Or `input_ids`, int32 `[B, S]`, with the ids of the masks, and `lengths`, int32 `[B]`. `tokenize`
    makes these from texts with [MASK].

    Outputs, where M is the largest number of masks in a text of the batch: `tokens`, strings `[B, M, top_k]`, the most
    probable first, as in the vocabulary; their `probabilities`, float32 `[B, M, top_k]`; and `positions`, int32 `[B,
    M]`, the column of each mask in its row, where [CLS] is 0. Unused entries are "", 0 and -1. Masks that are cut off,
    because the text is longer than the model, have no entry.

    `raw_outputs` takes also `masked_lm_positions`, int32 `[B, M]`, the columns of masks, and returns
    `masked_lm_logits`, float32 `[B, M, V]`, the logits of all tokens there.
    """
    vocabulary = model.vocabulary
    check_room(options, 1, model.vocabulary)
    check_whole("top_k", options.top_k, at_least=1, at_most=model.config.vocab_size)

    @tf.function(input_signature=[IDS, IDS, IDS, IDS], autograph=False)
    def logits_of(input_ids, input_mask, segment_ids, positions):
        """Returns the logits of all tokens at `positions`, float32 `[r, M, V]`."""
        inputs = model_inputs(input_ids, input_mask, segment_ids)
        inputs[features.MASKED_LM_POSITIONS] = tf.maximum(positions, 0)
        return tf.cast(model(inputs, training=False)["masked_lm_logits"], tf.float32)

    def best(*rows):
        """Returns probabilities and ids of the most probable tokens, float32 and int32 `[r, M, top_k]`."""
        return list(best_tokens(tf.nn.log_softmax(logits_of(*rows)), options.top_k, answer_operations))

    # The logits of a mask take as much memory as this many tokens in a layer.
    mask_tokens = -(-model.config.vocab_size // model.config.intermediate_size)
    found = [tf.TensorSpec([None, None, options.top_k], dtype) for dtype in (tf.float32, tf.int32)]

    def in_groups(compute, rows, outputs):
        row_tokens = tf.shape(rows[0])[1] + mask_tokens * tf.shape(rows[3])[1]
        return compute_in_groups(compute, rows, row_tokens, outputs)

    @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
    def fill(input_ids, input_mask, segment_ids):
        positions = mask_positions(input_ids, input_mask, vocabulary.mask_id)  # [B, M]
        probabilities, ids = in_groups(best, [input_ids, input_mask, segment_ids, positions], found)
        is_mask = positions[:, :, tf.newaxis] >= 0
        return {
            "tokens": tf.where(is_mask, tf.gather(tf.constant(vocabulary.tokens), ids), ""),
            "probabilities": tf.where(is_mask, probabilities, 0.0),
            "positions": positions,
        }

    # The shapes of the others are checked against the first: ids and positions have the batch in common only.
    @signature(
        lengths=([None], tf.int32), input_ids=([None, None], tf.int32), masked_lm_positions=([None, None], tf.int32)
    )
    def raw_outputs(lengths, input_ids, masked_lm_positions):
        rows = cut(input_ids, tf.zeros_like(input_ids), lengths, options.max_seq_length)
        outputs = [tf.TensorSpec([None, None, model.config.vocab_size], tf.float32)]
        [logits] = in_groups(lambda *group: [logits_of(*group)], [*rows, masked_lm_positions], outputs)
        return {"masked_lm_logits": logits}

    def tokenize(text):
        return tokenize_with_masks(tokenizer, text)

    def with_offsets(text):
        return tokenize_with_masks_and_offsets(tokenizer, text)

    pack = packer(vocabulary, options.max_seq_length)
    return {
        "serving_default": text_signature(pack, tokenize, fill, text_pairs=False),
        "tokens": tokens_signature(fill, options.max_seq_length, text_pairs=False),
        RAW_OUTPUTS: raw_outputs,
        "tokenize": tokenize_signature(with_offsets, vocabulary, options.max_seq_length),
    }
