"""The signatures of an exported `TextToText`."""

import tensorflow as tf

from keras_bert.program.errors import InputError
from keras_bert.serving.graph import RAW_OUTPUTS
from keras_bert.serving.graph.eight_bit_weights import EightBitModel
from keras_bert.serving.graph.signature_inputs import (
    IDS,
    check_room,
    model_inputs,
    packer,
    text_signature,
    tokens_signature,
)
from keras_bert.serving.graph.signature_options import SignatureOptions
from keras_bert.tasks.text_to_text.search_options import SearchOptions
from keras_bert.tokenization.vocabulary import Vocabulary


def text_to_text_signatures(model, tokenizer, options: SignatureOptions) -> dict:
    """Returns the signatures of a `TextToText`, which writes texts with a cache, in fixed shapes.

    Inputs: `text`, strings `[B]`; or `input_ids`, int32 `[B, S]`, and `lengths`, int32 `[B]`.

    Outputs: `written`, strings `[B]`, the best text, and its `score`, float32 `[B]`; and `target_ids`, int32
    `[B, max_new_tokens]`. With `num_answers` above 1, also `alternatives`, strings `[B, num_answers]`, the best first,
    and their `alternative_scores`. The options of the search are fixed in the export.

    `raw_outputs` has the inputs of `tokens`, and returns all texts and scores: `texts`, strings `[B, num_answers]`, and
    `scores`, float32 `[B, num_answers]`.
    """
    if isinstance(model, EightBitModel):
        raise InputError("A TextToText is exported without 8 bits. Leave out weights.")
    check_room(options, 1, model.vocabulary)
    if not isinstance(model.vocabulary, Vocabulary):
        raise InputError(
            "Only models with a WordPiece vocabulary can write texts in an export. Received: "
            f"{type(model.vocabulary).__name__}. Use model.predict."
        )
    search = SearchOptions(
        options.num_beams,
        options.max_new_tokens,
        length_penalty=options.length_penalty,
        num_answers=options.num_answers,
    )
    model.check_target_length(search.max_new_tokens)
    pieces = tf.constant(model.vocabulary.tokens)

    @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
    def search_texts(input_ids, input_mask, segment_ids):
        """Returns texts and scores, `[B, num_answers]`, and ids, int32 `[B, num_answers, max_new_tokens]`."""
        found = model.generate(model_inputs(input_ids, input_mask, segment_ids), search)
        texts = tf.reshape(
            _text_of(tf.reshape(found.ids, [-1, search.max_new_tokens]), pieces, model.vocabulary),
            tf.shape(found.scores),
        )
        return texts, found.scores, found.ids

    @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
    def write(*rows):
        texts, scores, ids = search_texts(*rows)
        best = {"written": texts[:, 0], "score": scores[:, 0], "target_ids": ids[:, 0]}
        return best if search.num_answers == 1 else best | {"alternatives": texts, "alternative_scores": scores}

    def raw_outputs(*rows):
        texts, scores, _ = search_texts(*rows)
        return {"texts": texts, "scores": scores}

    pack = packer(model.vocabulary, options.max_seq_length)
    return {
        "serving_default": text_signature(pack, tokenizer.tokenize, write, text_pairs=False),
        "tokens": tokens_signature(write, options.max_seq_length, text_pairs=False),
        RAW_OUTPUTS: tokens_signature(raw_outputs, options.max_seq_length, text_pairs=False),
    }


def _text_of(ids, pieces, table: Vocabulary):
    """Returns the texts of ids without special tokens, as `TextToTextTask.text_of`: int32 `[B, L]` -> strings `[B]`."""
    is_text = tf.reduce_all(ids[:, :, tf.newaxis] != [table.pad_id, table.cls_id, table.sep_id, table.mask_id], axis=2)
    words = tf.where(is_text, tf.strings.join([" ", tf.gather(pieces, ids)]), "")
    joined = tf.strings.reduce_join(words, axis=1)
    return tf.strings.regex_replace(tf.strings.strip(joined), " ##", "")
