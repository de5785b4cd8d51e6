"""The tokenizer of an exported model as a separate signature, with byte offsets."""

import tensorflow as tf

from keras_bert.serving.graph.signature_inputs import signature


def tokenize_signature(tokenize_with_offsets, vocabulary, max_seq_length: int):
    """Returns a signature from `text`, strings `[B]`, to the row of tokens that a model makes of each single text.

    The outputs are `input_ids`, `starts` and `ends`, int32 `[B, S]`, and `lengths`, int32 `[B]`. Token i came from the
    bytes `starts[i]:ends[i]` of the text; [CLS], [SEP] and padding have -1. `input_ids` and `lengths` are the inputs of
    a model's `tokens`.

    Args:
        tokenize_with_offsets: strings `[B]` -> ids, starts and ends, RaggedTensors `[B, None]`.
        max_seq_length: the largest number of tokens in a row; further tokens are cut off.
    """

    @signature(text=([None], tf.string))
    def tokenize(text):
        return token_rows(*tokenize_with_offsets(text), vocabulary, max_seq_length)

    return tokenize


def token_rows(ids, starts, ends, vocabulary, max_seq_length: int, shortest: int = 0) -> dict[str, tf.Tensor]:
    """Cuts tokens to the length of a row, adds [CLS] and [SEP], and pads rows to one length.

    Rows have at least `shortest` columns.

    Example, with [CLS] = 2, [SEP] = 3 and rows of 4:
        ids [[5, 6, 7]], starts [[0, 4, 8]], ends [[3, 7, 9]] ->
        input_ids [[2, 5, 6, 3]], lengths [4], starts [[-1, 0, 4, -1]], ends [[-1, 3, 7, -1]]
    """
    kept = tf.minimum(tf.cast(ids.row_lengths(), tf.int32), max_seq_length - 2)
    lengths = kept + 2
    columns = tf.range(tf.reduce_max(tf.concat([lengths, [shortest]], 0)))
    is_piece = (columns > 0) & (columns <= kept[:, tf.newaxis])
    # The values of other tokens are looked up after those of all pieces.
    first = tf.cast(ids.row_starts(), tf.int32)[:, tf.newaxis]
    indices = tf.where(is_piece, first + columns - 1, tf.size(ids.values))

    def rows(values, elsewhere: int):
        return tf.gather(tf.concat([values.values, [elsewhere]], 0), indices)

    is_end = tf.equal(columns, lengths[:, tf.newaxis] - 1)
    input_ids = tf.where(is_end, vocabulary.sep_id, rows(ids, vocabulary.pad_id))
    return {
        "input_ids": tf.where(tf.equal(columns, 0), vocabulary.cls_id, input_ids),
        "lengths": lengths,
        "starts": rows(starts, -1),
        "ends": rows(ends, -1),
    }
