"""Cuts contexts of any length into windows, in the graph: `make_windows` of `tasks/question_answering/rows.py`."""

from typing import NamedTuple

import tensorflow as tf

from keras_bert.tasks.question_answering.rows import WindowOptions


class GraphWindows(NamedTuple):
    """The V windows of Q questions, ordered by question.

    Attributes:
        rows: int32 RaggedTensor `[V, None]`: [CLS] question [SEP] part of the context [SEP].
        question: int64 `[V]`, the question of each window.
        first_columns: int64 `[V]`, the column of the first context token.
        first_tokens: int64 `[V]`, the number of this token, counted through all contexts.
        num_tokens: int64 `[V]`, the number of context tokens in the window.
        num_context_tokens: int64, the number of tokens of all contexts.
    """

    rows: tf.RaggedTensor
    question: tf.Tensor
    first_columns: tf.Tensor
    first_tokens: tf.Tensor
    num_tokens: tf.Tensor
    num_context_tokens: tf.Tensor


def graph_windows(questions: tf.RaggedTensor, contexts: tf.RaggedTensor, vocabulary, options: WindowOptions):
    """Returns the `GraphWindows` of the ids of questions and contexts, int32 RaggedTensors `[Q, None]`."""
    questions = questions[:, : options.max_query_length]
    asked_lengths, lengths = questions.row_lengths(), contexts.row_lengths()
    room = options.max_seq_length - asked_lengths - options.num_special
    step = tf.minimum(room, options.doc_stride)
    num_windows = 1 + tf.maximum(-((room - lengths) // step), 0)
    question = tf.repeat(tf.range(contexts.nrows()), num_windows)
    number = tf.range(tf.size(question, tf.int64)) - tf.gather(tf.cumsum(num_windows, exclusive=True), question)
    begins = number * tf.gather(step, question)
    num_tokens = tf.minimum(tf.gather(lengths, question) - begins, tf.gather(room, question))
    first_tokens = tf.gather(contexts.row_starts(), question) + begins
    shown = tf.ragged.range(first_tokens, first_tokens + num_tokens)
    of_windows = tf.stack([tf.size(question), 1])
    separators = [tf.fill(of_windows, vocabulary.sep_id)]
    rows = [
        tf.fill(of_windows, vocabulary.cls_id),
        tf.gather(questions, question),
        *separators * vocabulary.special_tokens.num_between,
        shown.with_values(tf.gather(contexts.values, shown.values)),
        *separators,
    ]
    first_columns = tf.gather(asked_lengths, question) + options.num_special - 1
    num_context_tokens = tf.size(contexts.values, tf.int64)
    return GraphWindows(tf.concat(rows, 1), question, first_columns, first_tokens, num_tokens, num_context_tokens)


def context_tokens(windows: GraphWindows) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Returns for every token of `rows`, bool `[V, None]` each: whether it is of the context, and whether an answer may
    begin there.

    An answer may begin in the window where the smaller side of the token's context is largest, the first of equal ones.
    """
    num_tokens = windows.num_tokens
    window = tf.repeat(tf.range(tf.size(num_tokens, tf.int64)), num_tokens)
    left = tf.range(tf.size(window, tf.int64)) - tf.gather(tf.cumsum(num_tokens, exclusive=True), window)
    in_window = tf.gather(num_tokens, window)
    token = tf.gather(windows.first_tokens, window) + left
    # The formula of `Windows.best_window`, with its rounding.
    score = tf.cast(tf.minimum(left, in_window - 1 - left), tf.float64) + 0.01 * tf.cast(in_window, tf.float64)
    best_score = tf.math.unsorted_segment_max(score, token, windows.num_context_tokens)
    is_best = tf.equal(score, tf.gather(best_score, token))
    best = tf.math.unsorted_segment_min(tf.where(is_best, window, window.dtype.max), token, windows.num_context_tokens)
    indices = tf.gather(windows.rows.row_starts() + windows.first_columns, window) + left
    shape = tf.cast(tf.shape(windows.rows.values), tf.int64)

    def marked(indices):
        values = tf.scatter_nd(indices[:, tf.newaxis], tf.ones_like(indices, tf.bool), shape)
        return windows.rows.with_values(values)

    return marked(indices), marked(tf.boolean_mask(indices, tf.equal(tf.gather(best, token), window)))
