"""`MultipleChoice` as signatures of a SavedModel, and as ONNX operations."""

import tensorflow as tf

from keras_bert.config.signature_options import SignatureOptions
from keras_bert.records import features
from keras_bert.serving.graph import RAW_OUTPUTS, answer_operations
from keras_bert.serving.graph.onnx_heads import BATCH, CHOICES, LENGTH, OUTPUT, onnx_encoder
from keras_bert.serving.graph.onnx_layers import dense
from keras_bert.serving.graph.row_groups import run_rows
from keras_bert.serving.graph.signature_inputs import (
    IDS,
    check_pairs,
    check_room,
    cut,
    model_inputs,
    packer,
    signature,
    trim,
)
from keras_bert.tasks.multiple_choice.answers import choice_arrays

_IS_CHOICE = tf.TensorSpec([None, None], tf.bool)
_TOKENS = {
    "input_ids": ([None, None, None], tf.int32),
    "segment_ids": ([None, None, None], tf.int32),
    "lengths": ([None, None], tf.int32),
}


def multiple_choice_signatures(model, tokenizer, options: SignatureOptions) -> dict:
    """Returns the signatures of a `MultipleChoice`.

    Inputs: `prompt`, strings `[B]`, and `choices`, strings `[B, C]`. Prompts with fewer choices have "" at the end.
    Final choices of a row that repeat its first one do not count either, since servers pad batches with them. Or
    `input_ids` and `segment_ids`, int32 `[B, C, S]`, and `lengths`, int32 `[B, C]`; choices of length 0 or with
    repeated [CLS] only do not count.

    Outputs: `choice`, int32 `[B]`, the number of the most probable choice, -1 if there is none; `text`, strings `[B]`,
    the choice itself (for texts only); its `probability`, float32 `[B]`; and `probabilities`, float32 `[B, C]`, 0 for
    choices that do not count. `raw_outputs` has the inputs of `tokens`, and returns the logits, `outputs`, float32
    `[B, C]`.
    """
    check_pairs(model)
    check_room(options, 2, model.vocabulary)

    def logits_of(*rows):
        """Returns the logits of single choices, `[r, 1]`."""
        return model(model_inputs(*(row[:, tf.newaxis] for row in rows)), training=False)

    @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
    def run(*rows):
        return run_rows(logits_of, rows, 1)

    @tf.function(input_signature=[IDS, IDS, IDS, _IS_CHOICE], autograph=False)
    def choose(input_ids, input_mask, segment_ids, is_choice):
        """Answers questions from the rows of their choices, int32 `[B * C, S]`; `is_choice` is bool `[B, C]`."""
        logits = tf.reshape(run(input_ids, input_mask, segment_ids), tf.shape(is_choice))
        # One more column, which does not count, so that a row without choices has one.
        padded = (tf.pad(values, [[0, 0], [0, 1]]) for values in (logits, is_choice))
        answer = choice_arrays(*padded, answer_operations)
        return {**answer, "probabilities": answer["probabilities"][:, :-1]}

    pack = packer(model.vocabulary, options.max_seq_length)

    @signature(prompt=([None], tf.string), choices=([None, None], tf.string))
    def choose_text(prompt, choices):
        shape = tf.shape(choices)
        prompts = tf.gather(tokenizer.tokenize(prompt), tf.repeat(tf.range(shape[0]), shape[1]))
        rows = trim(*pack([prompts, tokenizer.tokenize(tf.reshape(choices, [-1]))]))
        answer = choose(*rows, _counted(choices))
        # An additional column of "" is the text of no choice.
        texts = tf.concat([choices, tf.fill([shape[0], 1], "")], axis=1)
        number = tf.where(answer["choice"] < 0, shape[1], answer["choice"])
        return {**answer, "text": tf.gather(texts, number, batch_dims=1)}

    return {"serving_default": choose_text, **_of_tokens(run, choose, options.max_seq_length, model.vocabulary.cls_id)}


def _of_tokens(run, choose, max_seq_length: int, cls_id: int) -> dict:
    """Returns the signatures `tokens` and `raw_outputs`."""

    def flat_rows(input_ids, segment_ids, lengths):
        shape = tf.shape(input_ids)
        flat = [tf.reshape(value, [shape[0] * shape[1], shape[2]]) for value in (input_ids, segment_ids)]
        return cut(*flat, tf.reshape(lengths, [-1]), max_seq_length)

    @signature(**_TOKENS)
    def choose_tokens(input_ids, segment_ids, lengths):
        rows = flat_rows(input_ids, segment_ids, lengths)
        is_real = tf.sequence_mask(lengths, tf.shape(input_ids)[2]) & (input_ids != cls_id)
        return choose(*rows, tf.reduce_any(is_real, axis=2))

    @signature(**_TOKENS)
    def raw_outputs(input_ids, segment_ids, lengths):
        logits = run(*flat_rows(input_ids, segment_ids, lengths))
        return {"outputs": tf.reshape(logits, tf.shape(lengths))}

    return {"tokens": choose_tokens, RAW_OUTPUTS: raw_outputs}


def _counted(choices):
    """Returns which choices count, bool `[B, C]`: not "", and not a repetition of the first one at the end.

    Example:
        [["a", "b", ""], ["a", "b", "a"], ["a", "a", "a"]] -> [[yes, yes, no], [yes, yes, no], [yes, no, no]]
    """
    is_filling = (choices == "") | ((choices == choices[:, :1]) & (tf.range(tf.shape(choices)[1]) > 0))
    # A repetition is padding only if nothing but padding follows it.
    is_tail = tf.math.cumprod(tf.cast(is_filling, tf.int32), axis=1, reverse=True)
    return tf.equal(is_tail, 0)


def multiple_choice(graph, model):
    shape = graph.node("Shape", features.INPUT_IDS)
    length = graph.node("Slice", shape, graph.integers(2), graph.integers(3), graph.integers(0))
    rows = graph.node("Concat", graph.integers(-1), length, axis=0)
    inputs = {name: graph.node("Reshape", name, rows) for name in model.feature_names}
    for value in inputs.values():
        graph.state_axes(value, ["rows", LENGTH], "int32")
    encoder = onnx_encoder(graph, model.encoder, inputs, rows="rows")
    scores = dense(graph, model.choice_scorer, encoder.pooled_at()[0], exact=True)
    batch_and_choices = graph.node("Slice", shape, graph.integers(0), graph.integers(2), graph.integers(0))
    return {OUTPUT: (graph.node("Reshape", scores, batch_and_choices), [BATCH, CHOICES])}
