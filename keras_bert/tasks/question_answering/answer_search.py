"""Cuts contexts into windows, and finds the best answers from two logits per token, as a TensorFlow graph.

Windows are those of `make_windows` in `rows.py`, spans those of `answer_spans.py`: scores are float64, and equal ones
have its order.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.serving.graph import answer_operations
from keras_bert.serving.graph.words import spell
from keras_bert.tasks.question_answering.answer_spans import AnswerOptions
from keras_bert.tasks.question_answering.answers import answer_arrays
from keras_bert.tasks.question_answering.rows import WindowOptions

# Spans per question whose texts are made together. Spans with the same text are rarely as many as this.
_SPANS_AT_ONCE = 32


class GraphWindows(NamedTuple):
    """The V windows of Q questions, ordered by question."""

    rows: tf.RaggedTensor  # int32 `[V, None]`: [CLS] question [SEP] part of the context [SEP]
    question: tf.Tensor  # int64 `[V]`, the question of each window
    first_columns: tf.Tensor  # int64 `[V]`, the column of the first context token
    first_tokens: tf.Tensor  # int64 `[V]`, the number of this token, counted through all contexts
    num_tokens: tf.Tensor  # int64 `[V]`, the number of context tokens in the window
    num_context_tokens: tf.Tensor  # int64, the number of tokens of all contexts


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


class ContextTokens(NamedTuple):
    """The positions of the tokens of Q contexts: the bytes `start:end` of every token."""

    contexts: tf.Tensor  # strings `[Q]`
    starts: tf.RaggedTensor  # int32 `[Q, None]`
    ends: tf.RaggedTensor  # int32 `[Q, None]`


class _Spans(NamedTuple):
    """n possible answers to Q questions: int64 `[n]`, and the logits, whose sum is the score, float64 `[n]`."""

    question: tf.Tensor
    first: tf.Tensor  # the first token, numbered through all contexts
    last: tf.Tensor
    start_logit: tf.Tensor
    end_logit: tf.Tensor


def find_answers(
    windows: GraphWindows, tokens: ContextTokens, start_logits, end_logits, options: AnswerOptions
) -> dict:
    """Returns what `answer_arrays` returns for Q questions; places are bytes, int32, and other numbers float32.

    The logits are float32 `[T]`, for the T tokens of `windows.rows`.
    """
    num_questions = tf.size(tokens.contexts, tf.int64)
    spans = _spans(windows, num_questions, start_logits, end_logits, options)
    # By question, and then by score.
    order = tf.argsort(spans.start_logit + spans.end_logit, direction="DESCENDING", stable=True)
    order = tf.gather(order, tf.argsort(tf.gather(spans.question, order), stable=True))
    spans = _take(spans, order)
    spans, texts = _distinct(spans, tokens, options.n_best_size)
    splits = tf.searchsorted(spans.question, tf.range(num_questions + 1), out_type=tf.int64)
    shape = tf.stack([num_questions, tf.reduce_max(tf.concat([splits[1:] - splits[:-1], [0]], 0)) + 1])

    def rows(values, nothing):
        return tf.RaggedTensor.from_row_splits(values, splits, validate=False).to_tensor(nothing, shape=shape)

    starts, ends = (tf.cast(values.values, tf.int32) for values in (tokens.starts, tokens.ends))
    columns = {
        "answers": rows(texts, ""),
        "starts": rows(tf.gather(starts, spans.first), -1),
        "ends": rows(tf.gather(ends, spans.last), -1),
        "score": rows(spans.start_logit + spans.end_logit, tf.constant(-np.inf, tf.float64)),
    }
    nulls = tf.fill([num_questions], tf.constant(-np.inf, tf.float64))
    if options.null_threshold is not None:
        # The lowest sum of the logits of [CLS] over the windows of each question.
        of_cls = (tf.cast(tf.gather(one, windows.rows.row_starts()), tf.float64) for one in (start_logits, end_logits))
        nulls = tf.math.unsorted_segment_min(tf.add(*of_cls), windows.question, num_questions)
    found = answer_arrays(columns, {"score": nulls}, options, answer_operations)
    return {name: tf.cast(one, tf.float32) if one.dtype.is_floating else one for name, one in found.items()}


def _spans(windows: GraphWindows, num_questions, start_logits, end_logits, options: AnswerOptions) -> _Spans:
    """Returns the possible combinations of the best starts and ends of every window; of a question without one, the
    best possible span, if its context has any token."""
    logits = [windows.rows.with_values(values).to_tensor(-np.inf) for values in (start_logits, end_logits)]  # [V, S]
    in_context, may_begin = (flags.to_tensor(False) for flags in context_tokens(windows))
    num_best = tf.minimum(options.n_best_size, tf.shape(logits[0])[1])
    starts, ends = (tf.math.top_k(values, num_best).indices for values in logits)  # [V, n best]
    length = ends[:, tf.newaxis, :] - starts[:, :, tf.newaxis] + 1
    is_possible = (
        tf.gather(may_begin, starts, batch_dims=1)[:, :, tf.newaxis]
        & tf.gather(in_context, ends, batch_dims=1)[:, tf.newaxis, :]
        & (length >= 1)
        & (length <= options.max_answer_length)
    )
    # Ordered by window, then by start, then by end.
    window, start_rank, end_rank = tf.unstack(tf.where(is_possible), axis=1)
    start = tf.gather_nd(starts, tf.stack([window, start_rank], 1))
    end = tf.gather_nd(ends, tf.stack([window, end_rank], 1))
    has_spans = tf.math.unsorted_segment_max(
        tf.ones_like(window, tf.int32), tf.gather(windows.question, window), num_questions
    )
    is_lacking = tf.gather(has_spans < 1, windows.question) & (windows.num_tokens > 0)
    further = tf.cond(
        tf.reduce_any(is_lacking),
        lambda: _best_of_all(windows, num_questions, is_lacking, logits, in_context, may_begin, options),
        lambda: (window[:0], start[:0], end[:0]),
    )
    window, start, end = (tf.concat(pair, 0) for pair in zip((window, start, end), further, strict=True))
    question = tf.gather(windows.question, window)
    offsets = tf.gather(windows.first_tokens - windows.first_columns, window)
    start_logit, end_logit = (
        tf.cast(tf.gather_nd(values, tf.stack([window, tf.cast(columns, tf.int64)], 1)), tf.float64)
        for values, columns in zip(logits, (start, end), strict=True)
    )
    return _Spans(
        question, offsets + tf.cast(start, tf.int64), offsets + tf.cast(end, tf.int64), start_logit, end_logit
    )


def _best_of_all(windows, num_questions, is_lacking, logits, in_context, may_begin, options: AnswerOptions):
    """Returns window, first and last column of the best possible answer to each question that lacks one."""
    window = tf.where(is_lacking)[:, 0]
    starts, ends = (
        tf.cast(tf.gather(tf.where(flags, values, -np.inf), window), tf.float64)
        for flags, values in zip((may_begin, in_context), logits, strict=True)
    )
    width = tf.shape(starts)[1]
    # The last column of each answer that has `more` tokens after its first: [more, S].
    lasts = tf.range(tf.minimum(options.max_answer_length, width))[:, tf.newaxis] + tf.range(width)
    ends = tf.pad(ends, [[0, 0], [0, width]], constant_values=tf.constant(-np.inf, tf.float64))
    scores = starts[:, tf.newaxis] + tf.gather(ends, lasts, axis=1)
    scores = tf.reshape(scores, [tf.size(window), tf.size(lasts)])
    # Of equal scores, the first one wins: that of the shortest answer.
    score, place = tf.reduce_max(scores, axis=1), tf.argmax(scores, axis=1, output_type=tf.int32)
    start, end = place % width, place // width + place % width
    question = tf.gather(windows.question, window)
    best_score = tf.math.unsorted_segment_max(score, question, num_questions)
    number = tf.range(tf.size(window))
    is_best = tf.equal(score, tf.gather(best_score, question)) & (score > -np.inf)
    first_best = tf.math.unsorted_segment_min(tf.where(is_best, number, number.dtype.max), question, num_questions)
    chosen = tf.boolean_mask(number, tf.equal(tf.gather(first_best, question), number))
    return tf.gather(window, chosen), tf.gather(start, chosen), tf.gather(end, chosen)


def _take(spans: _Spans, indices) -> _Spans:
    return _Spans(*(tf.gather(values, indices) for values in spans))


def _distinct(spans: _Spans, tokens: ContextTokens, most: int) -> tuple[_Spans, tf.Tensor]:
    """Returns the best spans of each question with different texts, at most `most`; and these texts, strings.

    The texts of a few spans per question are made at a time, until there are enough different ones.
    """
    num_questions = tf.size(tokens.contexts, tf.int64)
    splits = tf.searchsorted(spans.question, tf.range(num_questions + 1), out_type=tf.int64)
    texts_of = _speller(tokens)

    def count(indices):
        questions = tf.gather(spans.question, indices)
        return tf.math.unsorted_segment_sum(tf.ones_like(questions), questions, num_questions)

    def needs_more(seen, indices, texts):
        return tf.reduce_any((count(indices) < most) & (splits[:-1] + seen < splits[1:]))

    def see_more(seen, indices, texts):
        firsts = tf.minimum(splits[:-1] + seen, splits[1:])
        lasts = tf.where(count(indices) < most, tf.minimum(firsts + _SPANS_AT_ONCE, splits[1:]), firsts)
        new = tf.ragged.range(firsts, lasts).values
        # The spans of a question are sorted, best first, so the first of equal texts is the best.
        indices = tf.concat([indices, new], 0)
        texts = tf.concat([texts, texts_of(_take(spans, new))], 0)
        question = tf.gather(spans.question, indices)
        names = tf.strings.join([tf.strings.as_string(question), texts], separator=" ")
        different, number = tf.unique(names)
        kept = tf.math.unsorted_segment_min(tf.range(tf.size(names)), number, tf.size(different))
        kept = tf.gather(kept, tf.argsort(tf.gather(question, kept), stable=True))
        # The number of preceding spans of the same question.
        firsts = tf.searchsorted(tf.gather(question, kept), tf.gather(question, kept), out_type=tf.int64)
        kept = tf.boolean_mask(kept, tf.range(tf.size(kept, tf.int64)) - firsts < most)
        return seen + _SPANS_AT_ONCE, tf.gather(indices, kept), tf.gather(texts, kept)

    none = tf.zeros([0], tf.int64)
    _, indices, texts = tf.while_loop(
        needs_more,
        see_more,
        (tf.constant(0, tf.int64), none, tf.zeros([0], tf.string)),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None]), tf.TensorShape([None])),
    )
    return _take(spans, indices), texts


def _speller(tokens: ContextTokens):
    """Returns a function that maps spans to their texts, without copying whole contexts."""
    decoded, byte_starts = tf.strings.unicode_decode_with_offsets(tokens.contexts, "UTF-8", errors="ignore")
    text_starts = tf.cumsum(tf.cast(tf.strings.length(tokens.contexts), tf.int64), exclusive=True)
    # The concatenation of all contexts.
    starts_of_points = byte_starts.values + tf.gather(text_starts, byte_starts.value_rowids())

    def texts_of(spans: _Spans):
        offsets = tf.gather(text_starts, spans.question)
        firsts, ends = (
            tf.searchsorted(
                starts_of_points, offsets + tf.cast(tf.gather(ends.values, token), tf.int64), out_type=tf.int64
            )
            for ends, token in ((tokens.starts, spans.first), (tokens.ends, spans.last))
        )
        return spell(decoded.values, firsts, ends)

    return texts_of
