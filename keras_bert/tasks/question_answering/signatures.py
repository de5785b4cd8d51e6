"""The signatures of an exported `SpanClassifier`."""

import numpy as np
import tensorflow as tf

from keras_bert.serving.graph import RAW_OUTPUTS
from keras_bert.serving.graph.row_groups import padded_rows, run_ragged_rows, run_rows
from keras_bert.serving.graph.signature_inputs import IDS, check_pairs, check_room, cut, model_inputs, signature
from keras_bert.serving.graph.signature_options import SignatureOptions
from keras_bert.tasks.explanation.signatures import ExplainedRows, explain_rows, first_best
from keras_bert.tasks.question_answering.answer_search import ContextTokens, find_answers
from keras_bert.tasks.question_answering.answer_spans import AnswerOptions
from keras_bert.tasks.question_answering.answer_windows import GraphWindows, graph_windows
from keras_bert.tasks.question_answering.model import PADDING_LOGIT
from keras_bert.tasks.question_answering.rows import WindowOptions


def question_answering_signatures(model, tokenizer, options: SignatureOptions) -> dict:
    """Returns the signatures of a `SpanClassifier`. Contexts of any length are read, in overlapping windows.

    Inputs: `question` and `context`, strings `[B]`.

    Outputs: `answer`, strings `[B]`, "" if there is none; `start` and `end`, int32 `[B]`, its bytes in the context, -1
    if there is none; its `probability`, float32 `[B]`. For the at most N best answers with different texts: `answers`,
    strings `[B, N]`, `starts`, `ends` and `probabilities`, and `is_null`, bool `[B, N]`, which marks the entry for no
    answer. Unused entries are "", -1, 0 and false. Models that may give no answer also return `null_score_difference`,
    float32 `[B]`; there is no answer if it exceeds the model's threshold. An empty question or context has no answer.

    `tokens` takes `input_ids` and `segment_ids`, int32 `[B, S]`, one window per row, and `lengths`, int32 `[B]`. It
    returns `start_logits` and `end_logits`, float32 `[B, S]`, which are far below all others for padding. `raw_outputs`
    is the same. With `options.explain` also `explain`, for `question` and `context`: it explains the answer, see
    `explain_rows`.
    """
    check_pairs(model)
    check_room(options, 2, model.vocabulary)
    window_options = WindowOptions.of_model(model, options.max_seq_length)
    answer_options = AnswerOptions(null_threshold=model.null_threshold)
    vocabulary = model.vocabulary

    @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
    def logits_of(input_ids, input_mask, segment_ids):
        """Returns the logits of start and end, float32 `[r, S, 2]`."""
        outputs = model(model_inputs(input_ids, input_mask, segment_ids), training=False)
        return tf.cast(tf.stack([outputs["start_logits"], outputs["end_logits"]], axis=2), tf.float32)

    def second_columns(windows):
        """Returns the columns where the contexts begin, or None if they are in the same segment as the questions."""
        return windows.first_columns if vocabulary.special_tokens.second_segment else None

    def read(question, context):
        """Returns windows, and those of the starts and ends of tokens; context tokens, logits, and the answers."""
        asked = [tf.cast(values, tf.int32) for values in tokenizer.tokenize_with_offsets(question)]
        # An empty question has no answer.
        context = tf.where(asked[0].row_lengths() > 0, context, "")
        told = [tf.cast(values, tf.int32) for values in tokenizer.tokenize_with_offsets(context)]
        # Offsets take the same way as ids, so they stand in the same columns.
        windows, *offsets = (graph_windows(*pair, vocabulary, window_options) for pair in zip(asked, told, strict=True))
        logits = run_ragged_rows(logits_of, windows.rows, second_columns(windows), vocabulary.pad_id, 2)
        logits = tf.debugging.check_numerics(
            logits, "The model returns scores that are not finite numbers (NaN or infinite)"
        )
        tokens = ContextTokens(context, *told[1:])
        answers = find_answers(windows, tokens, logits[:, 0], logits[:, 1], answer_options)
        return windows, offsets, tokens, logits, answers

    @signature(question=([None], tf.string), context=([None], tf.string))
    def answer(question, context):
        return read(question, context)[-1]

    @signature(question=([None], tf.string), context=([None], tf.string))
    def explain(question, context):
        windows, offsets, tokens, logits, answers = read(question, context)
        best, columns = _explained_columns(windows, tokens, logits, answers)
        columns_of_all = second_columns(windows)
        begins = None if columns_of_all is None else tf.gather(columns_of_all, best)
        rows = padded_rows(tf.gather(windows.rows, best), vocabulary.pad_id, begins)
        length = tf.shape(rows[0])[1]
        starts, ends = (padded_rows(tf.gather(values.rows, best), vocabulary.pad_id)[0] for values in offsets)
        labels = tf.where(answers["start"] < 0, "no answer", answers["answer"])
        # The end logits of a row come after its start logits.
        return explain_rows(model, ExplainedRows(rows, starts, ends, columns + [0, length], labels))

    @signature(input_ids=([None, None], tf.int32), segment_ids=([None, None], tf.int32), lengths=([None], tf.int32))
    def token_logits(input_ids, segment_ids, lengths):
        rows = cut(input_ids, segment_ids, lengths, options.max_seq_length)
        logits = run_rows(logits_of, rows, None, 2)
        missing = tf.maximum(tf.shape(input_ids)[1] - tf.shape(logits)[1], 0)
        padded = tf.pad(logits, [[0, 0], [0, missing], [0, 0]], constant_values=PADDING_LOGIT)
        return {"start_logits": padded[:, :, 0], "end_logits": padded[:, :, 1]}

    explained = {"explain": explain} if options.explain else {}
    return {"serving_default": answer, "tokens": token_logits, RAW_OUTPUTS: token_logits, **explained}


def _explained_columns(windows: GraphWindows, tokens: ContextTokens, logits, answers: dict):
    """Returns the window that explains each answer, int64 `[Q]`, and its columns of start and end, int32 `[Q, 2]`.

    It is the window where the sum of their logits is greatest. Without an answer, it is that of [CLS] where it is
    least. The rule of `explained_rows` in `tasks/question_answering/task.py`.
    """
    context = tokens.starts.value_rowids()
    has_answer = answers["start"] >= 0

    def count(flags):
        return tf.math.unsorted_segment_sum(tf.cast(flags, tf.int64), context, tokens.starts.nrows())

    before = count(tokens.ends.values <= tf.gather(answers["start"], context))
    until = count(tokens.starts.values < tf.gather(answers["end"], context))
    first, last = (tf.gather(tokens.starts.row_starts() + numbers, windows.question) for numbers in (before, until - 1))
    is_asked = tf.gather(has_answer, windows.question)
    is_seen = is_asked & (first >= windows.first_tokens) & (last < windows.first_tokens + windows.num_tokens)
    shift = windows.first_columns - windows.first_tokens
    columns = tf.where(is_seen[:, tf.newaxis], tf.stack([first + shift, last + shift], 1), 0)
    places = columns + windows.rows.row_starts()[:, tf.newaxis]
    totals = tf.gather(logits[:, 0], places[:, 0]) + tf.gather(logits[:, 1], places[:, 1])
    totals = tf.where(is_asked, tf.where(is_seen, totals, -np.inf), -totals)
    best = first_best(totals, windows.question, tokens.starts.nrows())
    return best, tf.cast(tf.gather(columns, best), tf.int32)
