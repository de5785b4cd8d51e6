"""`SpanClassifier` as signatures of a SavedModel, and as ONNX operations."""

import tensorflow as tf

from keras_bert.config.signature_options import SignatureOptions
from keras_bert.serving.graph import RAW_OUTPUTS
from keras_bert.serving.graph.onnx_heads import BATCH, LENGTH, is_token, token_features
from keras_bert.serving.graph.onnx_layers import dense
from keras_bert.serving.graph.row_groups import run_ragged_rows, run_rows
from keras_bert.serving.graph.signature_inputs import IDS, check_pairs, check_room, cut, model_inputs, signature
from keras_bert.tasks.question_answering.answer_search import ContextTokens, find_answers, graph_windows
from keras_bert.tasks.question_answering.answer_spans import AnswerOptions
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
    is the same.
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

    @signature(question=([None], tf.string), context=([None], tf.string))
    def answer(question, context):
        asked = tf.cast(tokenizer.tokenize(question), tf.int32)
        # An empty question has no answer.
        context = tf.where(asked.row_lengths() > 0, context, "")
        told, starts, ends = (tf.cast(values, tf.int32) for values in tokenizer.tokenize_with_offsets(context))
        windows = graph_windows(asked, told, vocabulary, window_options)
        # The columns where the contexts begin, if they are in another segment than the questions.
        second_columns = windows.first_columns if vocabulary.special_tokens.second_segment else None
        logits = run_ragged_rows(logits_of, windows.rows, second_columns, vocabulary.pad_id, 2)
        logits = tf.debugging.check_numerics(
            logits, "The model returns scores that are not finite numbers (NaN or infinite)"
        )
        tokens = ContextTokens(context, starts, ends)
        return find_answers(windows, tokens, logits[:, 0], logits[:, 1], answer_options)

    @signature(input_ids=([None, None], tf.int32), segment_ids=([None, None], tf.int32), lengths=([None], tf.int32))
    def token_logits(input_ids, segment_ids, lengths):
        rows = cut(input_ids, segment_ids, lengths, options.max_seq_length)
        logits = run_rows(logits_of, rows, None, 2)
        missing = tf.maximum(tf.shape(input_ids)[1] - tf.shape(logits)[1], 0)
        padded = tf.pad(logits, [[0, 0], [0, missing], [0, 0]], constant_values=PADDING_LOGIT)
        return {"start_logits": padded[:, :, 0], "end_logits": padded[:, :, 1]}

    return {"serving_default": answer, "tokens": token_logits, RAW_OUTPUTS: token_logits}


def span_classifier(graph, model):
    logits = dense(graph, model.span_classifier, token_features(graph, model), exact=True)
    logits = graph.node("Where", is_token(graph), logits, graph.number(PADDING_LOGIT))
    parts = graph.node("Split", logits, num_outputs=2, axis=2, split=[1, 1])
    start, end = (graph.node("Squeeze", part, axes=[2]) for part in parts)
    return {"start_logits": (start, [BATCH, LENGTH]), "end_logits": (end, [BATCH, LENGTH])}
