"""What an exported `BertMaskedLM` or `BertPretrainer` can be asked."""

import tensorflow as tf

from keras_bert import features
from keras_bert.serving.signatures.masked_text import mask_positions, tokenize_with_masks
from keras_bert.serving.signatures.rows import IDS, SignatureOptions, cut, model_inputs, packer, signature, trim
from keras_bert.tokenization.vocabulary import MASK


def fill_mask_signatures(model, tokenizer, options: SignatureOptions) -> dict:
    """Returns the signatures of a `BertMaskedLM` or `BertPretrainer`: what could stand where a text says [MASK].

    Inputs: `text`, strings `[B]`, with any number of literal [MASK]. Or `input_ids`, int32 `[B, S]`, which hold the id
    of [MASK], and `lengths`, int32 `[B]`.

    Outputs, where M is the most masks in a text of the batch: `tokens`, strings `[B, M, top_k]`, the likeliest first,
    as they are in the vocabulary; their `probabilities`, float32 `[B, M, top_k]`; and `positions`, int32 `[B, M]`, the
    number of each masked token in its row, [CLS] being 0. A text with fewer masks has "", 0 and -1 in the places that
    it does not need. A mask that is cut off, because the text is longer than the model, has no place.
    """
    vocabulary = model.vocabulary

    @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
    def fill(input_ids, input_mask, segment_ids):
        positions = mask_positions(input_ids, input_mask, vocabulary.mask_id)  # [B, M]
        inputs = model_inputs(input_ids, input_mask, segment_ids)
        inputs[features.MASKED_LM_POSITIONS] = tf.maximum(positions, 0)
        logits = model(inputs, training=False)["masked_lm_logits"]  # [B, M, V]
        probabilities, ids = tf.math.top_k(tf.nn.softmax(tf.cast(logits, tf.float32)), options.top_k)
        is_mask = positions[:, :, tf.newaxis] >= 0
        return {
            "tokens": tf.where(is_mask, tf.gather(tf.constant(vocabulary.tokens), ids), ""),
            "probabilities": tf.where(is_mask, probabilities, 0.0),
            "positions": positions,
        }

    pack = packer(vocabulary, options.max_seq_length)

    @signature(text=([None], tf.string))
    def fill_text(text):
        return fill(*trim(*pack([tokenize_with_masks(tokenizer, text, MASK, vocabulary.mask_id)])))

    @signature(input_ids=([None, None], tf.int32), lengths=([None], tf.int32))
    def fill_tokens(input_ids, lengths):
        return fill(*cut(input_ids, tf.zeros_like(input_ids), lengths, options.max_seq_length))

    return {"serving_default": fill_text, "tokens": fill_tokens}
