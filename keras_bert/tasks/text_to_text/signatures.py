"""The signatures of an exported `TextToText`."""

import tensorflow as tf

from keras_bert.config.signature_options import SignatureOptions
from keras_bert.program.errors import InputError
from keras_bert.serving.graph.eight_bit_weights import EightBitModel
from keras_bert.serving.graph.signature_inputs import IDS, model_inputs, row_signatures
from keras_bert.tasks.text_to_text.answers import writing_arrays
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
        texts = _text_of(tf.reshape(found.ids, [-1, search.max_new_tokens]), pieces, model.vocabulary)
        return tf.reshape(texts, [-1, search.num_answers]), found.scores, found.ids

    def write(found):
        texts, scores, ids = found
        return {**writing_arrays(texts, scores), "target_ids": ids[:, 0]}

    def raw(found):
        return {"texts": found[0], "scores": found[1]}

    return row_signatures(model, tokenizer.tokenize, options, search_texts, write, raw)


def _text_of(ids, pieces, table: Vocabulary):
    """Returns the texts of ids without special tokens, as `TextToTextTask.text_of`: int32 `[B, L]` -> strings `[B]`."""
    is_text = tf.reduce_all(ids[:, :, tf.newaxis] != [table.pad_id, table.cls_id, table.sep_id, table.mask_id], axis=2)
    words = tf.where(is_text, tf.strings.join([" ", tf.gather(pieces, ids)]), "")
    joined = tf.strings.reduce_join(words, axis=1)
    return tf.strings.regex_replace(tf.strings.strip(joined), " ##", "")
