"""The tokenizer of an exported model as a signature of its own, with byte offsets."""

import tensorflow as tf

from keras_bert.serving.signatures.rows import signature


def tokenize_signature(tokenize_with_offsets, vocabulary, max_seq_length: int):
    """Returns the signature `text`, strings `[B]`, -> the row of tokens that a model makes of each text alone.

    Its outputs are `input_ids`, `starts` and `ends`, int32 `[B, S]`, and `lengths`, int32 `[B]`. Token i came from the
    bytes `starts[i]:ends[i]` of the text as sent; [CLS], [SEP] and padding have -1. A model's `tokens` takes
    `input_ids` and `lengths`.

    Args:
        tokenize_with_offsets: strings `[B]` -> ids, starts and ends, RaggedTensors `[B, None]`.
        max_seq_length: the most tokens of a row; what is behind them is cut off.
    """

    @signature(text=([None], tf.string))
    def tokenize(text):
        ids, starts, ends = token_rows(*tokenize_with_offsets(text), vocabulary, max_seq_length)
        return {
            "input_ids": ids.to_tensor(vocabulary.pad_id),
            "lengths": tf.cast(ids.row_lengths(), tf.int32),
            "starts": starts.to_tensor(-1),
            "ends": ends.to_tensor(-1),
        }

    return tokenize


def token_rows(ids, starts, ends, vocabulary, max_seq_length: int) -> list[tf.RaggedTensor]:
    """Cuts tokens to what a row has room for, and puts [CLS] before and [SEP] behind them.

    Example, with [CLS] = 2, [SEP] = 3 and rows of 4:
        ids [[5, 6, 7]], starts [[0, 4, 8]], ends [[3, 7, 9]] -> [[2, 5, 6, 3]], [[-1, 0, 4, -1]], [[-1, 3, 7, -1]]
    """

    def row(values, first: int, last: int):
        of_rows = [values.nrows(), 1]
        return tf.concat([tf.fill(of_rows, first), values[:, : max_seq_length - 2], tf.fill(of_rows, last)], axis=1)

    return [row(ids, vocabulary.cls_id, vocabulary.sep_id), row(starts, -1, -1), row(ends, -1, -1)]
