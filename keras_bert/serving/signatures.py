"""What an exported model can be asked: the functions behind its signatures.

Every model has two. `serving_default` takes text, of which the graph makes tokens. `tokens` takes ids, and the number
of tokens in each row instead of a mask: a server that pads a batch repeats the first number of a row, which makes ones
of a padded mask. Both call one function, so the encoder is in the graph once. Outputs are float32, int32 or strings;
all have a name, and their first axis is the batch.
"""

import tensorflow as tf

from keras_bert import features
from keras_bert.serving.masked_text import mask_positions, tokenize_with_masks
from keras_bert.tokenization.segments import pack_segments
from keras_bert.tokenization.vocabulary import MASK

_IDS = tf.TensorSpec([None, None], tf.int32)


def classifier_signatures(model, tokenizer, *, max_seq_length: int, text_pairs: bool) -> dict:
    """Returns the signatures of a `BertSequenceClassifier`.

    Inputs: `text`, strings `[B]`, and for pairs `text_b`, strings `[B]`, where an empty one means a single text. Or
    `input_ids`, for pairs `segment_ids`, int32 `[B, S]`, and `lengths`, int32 `[B]`.

    Outputs: `label`, strings `[B]`, and its `probability`, float32 `[B]`; `labels`, strings `[B, L]`, the same in every
    row, and their `probabilities`, float32 `[B, L]`.
    """

    @tf.function(input_signature=[_IDS, _IDS, _IDS], autograph=False)
    def classify(input_ids, input_mask, segment_ids):
        logits = model(_model_inputs(input_ids, input_mask, segment_ids), training=False)
        probabilities = tf.nn.softmax(tf.cast(logits, tf.float32))
        labels = tf.constant(model.labels)
        return {
            "label": tf.gather(labels, tf.argmax(probabilities, axis=1)),
            "probability": tf.reduce_max(probabilities, axis=1),
            "labels": tf.tile(labels[tf.newaxis], [tf.shape(input_ids)[0], 1]),
            "probabilities": probabilities,
        }

    pack = _packer(model.vocabulary, max_seq_length)

    @_signature(text=([None], tf.string))
    def classify_text(text):
        return classify(*_trim(*pack([tokenizer.tokenize(text)])))

    @_signature(text=([None], tf.string), text_b=([None], tf.string))
    def classify_text_pair(text, text_b):
        first, second = tokenizer.tokenize(text), tokenizer.tokenize(text_b)
        is_pair = second.row_lengths() > 0
        return classify(*_trim(*_choose_rows(is_pair, pack([first, second]), pack([first]))))

    @_signature(input_ids=([None, None], tf.int32), lengths=([None], tf.int32))
    def classify_tokens(input_ids, lengths):
        return classify(*_cut(input_ids, tf.zeros_like(input_ids), lengths, max_seq_length))

    @_signature(input_ids=([None, None], tf.int32), segment_ids=([None, None], tf.int32), lengths=([None], tf.int32))
    def classify_token_pair(input_ids, segment_ids, lengths):
        return classify(*_cut(input_ids, segment_ids, lengths, max_seq_length))

    if text_pairs:
        return {"serving_default": classify_text_pair, "tokens": classify_token_pair}
    return {"serving_default": classify_text, "tokens": classify_tokens}


def fill_mask_signatures(model, tokenizer, *, max_seq_length: int, top_k: int) -> dict:
    """Returns the signatures of a `BertMaskedLM` or `BertPretrainer`: what could stand where a text says [MASK].

    Inputs: `text`, strings `[B]`, with any number of literal [MASK]. Or `input_ids`, int32 `[B, S]`, which hold the id
    of [MASK], and `lengths`, int32 `[B]`.

    Outputs, where M is the most masks in a text of the batch: `tokens`, strings `[B, M, top_k]`, the likeliest first,
    as they are in the vocabulary; their `probabilities`, float32 `[B, M, top_k]`; and `positions`, int32 `[B, M]`, the
    number of each masked token in its row, [CLS] being 0. A text with fewer masks has "", 0 and -1 in the places that
    it does not need. A mask that is cut off, because the text is longer than the model, has no place.
    """
    vocabulary = model.vocabulary

    @tf.function(input_signature=[_IDS, _IDS, _IDS], autograph=False)
    def fill(input_ids, input_mask, segment_ids):
        positions = mask_positions(input_ids, input_mask, vocabulary.mask_id)  # [B, M]
        inputs = _model_inputs(input_ids, input_mask, segment_ids)
        inputs[features.MASKED_LM_POSITIONS] = tf.maximum(positions, 0)
        logits = model(inputs, training=False)["masked_lm_logits"]  # [B, M, V]
        probabilities, ids = tf.math.top_k(tf.nn.softmax(tf.cast(logits, tf.float32)), top_k)
        is_mask = positions[:, :, tf.newaxis] >= 0
        return {
            "tokens": tf.where(is_mask, tf.gather(tf.constant(vocabulary.tokens), ids), ""),
            "probabilities": tf.where(is_mask, probabilities, 0.0),
            "positions": positions,
        }

    pack = _packer(vocabulary, max_seq_length)

    @_signature(text=([None], tf.string))
    def fill_text(text):
        return fill(*_trim(*pack([tokenize_with_masks(tokenizer, text, MASK, vocabulary.mask_id)])))

    @_signature(input_ids=([None, None], tf.int32), lengths=([None], tf.int32))
    def fill_tokens(input_ids, lengths):
        return fill(*_cut(input_ids, tf.zeros_like(input_ids), lengths, max_seq_length))

    return {"serving_default": fill_text, "tokens": fill_tokens}


def _signature(**inputs):
    """Makes a graph of a function with the inputs name=(shape, dtype); each has its name on the wire too."""
    specs = [tf.TensorSpec(shape, dtype, name=name) for name, (shape, dtype) in inputs.items()]
    # Never compiled by XLA: stock servers have that switched off, and every request would fail.
    return tf.function(input_signature=specs, autograph=False, jit_compile=False)


def _packer(vocabulary, max_seq_length: int):
    """Returns a function from ragged segments to ids, mask and segment numbers, int32 `[B, max_seq_length]`."""

    def pack(segments):
        packed = pack_segments(segments, max_seq_length, vocabulary)
        return packed[features.INPUT_IDS], packed[features.INPUT_MASK], packed[features.SEGMENT_IDS]

    return pack


def _model_inputs(input_ids, input_mask, segment_ids) -> dict:
    return {features.INPUT_IDS: input_ids, features.INPUT_MASK: input_mask, features.SEGMENT_IDS: segment_ids}


def _choose_rows(condition, if_true, if_false):
    """Returns, row by row, the tensors `[B, S]` of `if_true` or of `if_false`; `condition` is bool `[B]`."""
    return [tf.where(condition[:, tf.newaxis], one, other) for one, other in zip(if_true, if_false, strict=True)]


def _trim(input_ids, input_mask, segment_ids):
    """Cuts off the columns that are padding in every row: a batch of short texts costs little.

    One column stays in a batch without rows, since there is no model of no tokens.
    """
    longest = tf.reduce_max(tf.concat([tf.reduce_sum(input_mask, axis=1), [1]], 0))
    return input_ids[:, :longest], input_mask[:, :longest], segment_ids[:, :longest]


def _cut(input_ids, segment_ids, lengths, max_seq_length: int):
    """Returns ids, mask and segment numbers of rows of which the first `lengths` tokens count."""
    input_ids, segment_ids = input_ids[:, :max_seq_length], segment_ids[:, :max_seq_length]
    # What stands behind the length of a row is whatever the client or the server filled it with.
    input_mask = tf.sequence_mask(lengths, tf.shape(input_ids)[1], tf.int32)
    return input_ids * input_mask, input_mask, segment_ids * input_mask
