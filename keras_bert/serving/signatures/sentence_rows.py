"""Makes token rows from words, in the graph: the rows of `encode_sentences` in `tasks/tagging/rows.py`."""

import tensorflow as tf


def sentence_rows(words, splits, tokenize, vocabulary, max_seq_length: int) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Makes rows [CLS] pieces [SEP]. A sentence that is too long is cut between words into several rows.

    A word without pieces, or with more pieces than fit into a row, becomes one [UNK].

    Args:
        words: strings `[W]`, the words of B sentences.
        splits: int64 `[B + 1]`. The words of sentence n are at `splits[n]:splits[n + 1]`.
        tokenize: strings `[W]` -> RaggedTensor `[W, None]` of ids.

    Returns:
        The R rows, int32 RaggedTensor `[R, None]`; and int64 `[W]`, the index of the first token of each word in the
        concatenation of all rows.

    Example, with one piece per word and rows of 4:
        words a b c d, splits [0, 3, 4] -> [CLS] a b [SEP], [CLS] c [SEP], [CLS] d [SEP]; [1, 2, 5, 8]
    """
    room = max_seq_length - 2
    pieces = _pieces(tokenize(words), room, vocabulary.unk_id)
    firsts = _first_words(pieces.row_splits, splits, room)
    num_words = pieces.nrows()
    row_splits = tf.gather(pieces.row_splits, tf.concat([firsts, [num_words]], 0))
    of_rows = tf.stack([tf.size(firsts), 1])
    rows = tf.concat(
        [
            tf.fill(of_rows, vocabulary.cls_id),
            tf.RaggedTensor.from_row_splits(pieces.values, row_splits, validate=False),
            tf.fill(of_rows, vocabulary.sep_id),
        ],
        axis=1,
    )
    row_of_word = tf.searchsorted(firsts, tf.range(num_words), side="right", out_type=tf.int64) - 1
    # Before a word come the [CLS] of its row, and two special tokens for every row before that.
    return rows, pieces.row_splits[:-1] + 2 * row_of_word + 1


def _pieces(pieces: tf.RaggedTensor, room: int, unk_id: int) -> tf.RaggedTensor:
    """Replaces words without pieces, or with too many, by one [UNK]."""
    lengths = pieces.row_lengths()
    is_replaced = tf.equal(lengths, 0) | (lengths > room)
    values = tf.concat([pieces.values, [unk_id]], 0)
    firsts = tf.where(is_replaced, tf.size(pieces.values, tf.int64), pieces.row_starts())
    indices = tf.ragged.range(firsts, firsts + tf.where(is_replaced, tf.ones_like(lengths), lengths))
    return indices.with_values(tf.gather(values, indices.values))


def _first_words(piece_splits, splits, room: int) -> tf.Tensor:
    """Returns the first word of each row, int64 `[R]`: words are added to a row while their pieces fit.

    For every word, the start of the row after a row that starts there is known. The loop follows these links from the
    first word of each sentence, for all sentences at once.
    """
    num_words = tf.size(piece_splits, tf.int64) - 1
    sentence_ends = tf.repeat(splits[1:], splits[1:] - splits[:-1])
    fitting = tf.searchsorted(piece_splits, piece_splits[:-1] + room, side="right", out_type=tf.int64) - 1
    next_firsts = tf.concat([tf.minimum(fitting, sentence_ends), [num_words]], 0)
    ends = splits[1:]

    def step(words, found):
        # A finished sentence stays at its end.
        words = tf.where(words < ends, tf.gather(next_firsts, words), words)
        return words, tf.concat([found, tf.boolean_mask(words, words < ends)], 0)

    # Not a growing TensorArray: servers before TensorFlow 2.13 do not support it.
    begins = splits[:-1]
    _, found = tf.while_loop(
        lambda words, _: tf.reduce_any(words < ends),
        step,
        (begins, tf.boolean_mask(begins, begins < ends)),
        shape_invariants=(tf.TensorShape([None]), tf.TensorShape([None])),
    )
    return tf.sort(found)
