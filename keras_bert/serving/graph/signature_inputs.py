"""The shared parts of all signatures: named inputs, and token rows from texts or ids.

`serving_default` takes texts, which the graph tokenises. `tokens` takes ids, and the number of tokens of each row
instead of a mask: servers pad batches by repeating the first value of a row, which would turn padding in a mask into
ones. Both call the same function, so the graph contains the encoder once. Outputs are float32, int32, bool or strings;
each has a name, and the batch is its first axis.
"""

import functools
import inspect
from collections.abc import Mapping

import tensorflow as tf

from keras_bert.config.signature_options import SignatureOptions
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.records import features
from keras_bert.records.segments import cut_windows, pack_segments
from keras_bert.serving.graph import RAW_OUTPUTS
from keras_bert.tokenization.tokenizer import TokenTable

# Ids, mask or segment numbers of a batch.
IDS = tf.TensorSpec([None, None], tf.int32)
# The feature that a serialised example may lack.
_OPTIONAL = {"text_b"}


def signature(**inputs):
    """Traces a function with the inputs name=(shape, dtype). The names are also those of the signature.

    The graph checks that the inputs have equal shapes, as far as they have the same axes: TensorFlow would repeat a
    single row for all rows of another input.
    """
    specs = [tf.TensorSpec(shape, dtype, name=name) for name, (shape, dtype) in inputs.items()]

    def traced(function):
        arguments = inspect.signature(function)

        @functools.wraps(function)
        def checked(*values, **named):
            values = list(map(tf.convert_to_tensor, arguments.bind(*values, **named).args))
            with tf.control_dependencies(check_shapes(dict(zip(inputs, values, strict=True)))):
                return function(*map(tf.identity, values))

        checked.__signature__ = arguments
        # Without XLA: stock servers have it switched off, so every request would fail.
        return tf.function(checked, input_signature=specs, autograph=False, jit_compile=False)

    return traced


def check_shapes(inputs: Mapping) -> list:
    """Returns operations that fail where an input has other sizes than the first one, on the axes that both have."""
    (first_name, first), *others = inputs.items()
    checks = []
    for name, values in others:
        shared = min(len(first.shape), len(values.shape))
        one, other = tf.shape(first)[:shared], tf.shape(values)[:shared]
        message = f"{first_name} and {name} must have equally many rows. Received the shapes:"
        checks.append(tf.debugging.Assert(tf.reduce_all(one == other), [message, one, other]))
    return checks


def packer(vocabulary, max_seq_length: int):
    """Returns a function from ragged segments to ids, mask and segment numbers, int32 `[B, max_seq_length]`."""

    def pack(segments):
        packed = pack_segments(segments, max_seq_length, vocabulary)
        return packed[features.INPUT_IDS], packed[features.INPUT_MASK], packed[features.SEGMENT_IDS]

    return pack


def model_inputs(input_ids, input_mask, segment_ids) -> dict:
    return {features.INPUT_IDS: input_ids, features.INPUT_MASK: input_mask, features.SEGMENT_IDS: segment_ids}


def row_signatures(
    model, tokenize, options: SignatureOptions, run, arrays, raw=lambda outputs: {"outputs": outputs}, prompt: str = ""
) -> dict:
    """Returns the signatures of a model with a row for each text: `serving_default`, `tokens` and `raw_outputs`.

    With `text_pairs` they take pairs; an empty `text_b` means a single text. If the model has a `doc_stride`, single
    texts may be of any length: a text that is too long is cut into overlapping windows, and its outputs are the means
    over the windows, weighted by their numbers of tokens.

    Args:
        tokenize: strings `[B]` -> RaggedTensor `[B, None]` of ids.
        run: ids, mask and segment numbers, int32 `[B, S]` -> outputs of the model, float32 `[B, D]` with a
            `doc_stride`. It is a `tf.function`, so that all signatures share one graph of the model.
        arrays, raw: outputs -> arrays by name, which texts and ids get, and which `raw_outputs` returns.
        prompt: is put before each `text`.

    Raises:
        InputError: rows are too short, or the model cannot take pairs.
    """
    pairs, length, special_tokens = options.text_pairs, options.max_seq_length, model.vocabulary.special_tokens
    check_room(options, 1 + pairs, model.vocabulary)
    if pairs:
        check_pairs(model)
    pack, stride = packer(model.vocabulary, length), getattr(model, "doc_stride", None)

    def answer(*rows):
        return arrays(run(*rows))

    @signature(text=([None], tf.string))
    def of_text(text):
        tokens = tokenize(with_prompt(prompt, text))
        if not stride:
            return answer(*trim(*pack([tokens])))
        windows, owner = cut_windows(tokens, length - special_tokens.num_special(1), stride)
        rows = trim(*pack([windows]))
        weights = tf.cast(tf.reduce_sum(rows[1], axis=1, keepdims=True), tf.float32)
        number = tf.size(text, tf.int64)
        totals = tf.math.unsorted_segment_sum(run(*rows) * weights, owner, number)
        return arrays(totals / tf.math.unsorted_segment_sum(weights, owner, number))

    @signature(text=([None], tf.string), text_b=([None], tf.string))
    def of_text_pair(text, text_b):
        first, second = tokenize(with_prompt(prompt, text)), tokenize(text_b)
        is_pair = second.row_lengths()[:, tf.newaxis] > 0
        rows = zip(pack([first, second]), pack([first]), strict=True)
        return answer(*trim(*(tf.where(is_pair, one, other) for one, other in rows)))

    return {
        "serving_default": of_text_pair if pairs else of_text,
        "tokens": tokens_signature(answer, length, pairs),
        RAW_OUTPUTS: tokens_signature(lambda *rows: raw(run(*rows)), length, pairs),
    }


def with_prompt(prompt: str, text):
    """Returns the texts, strings `[B]`, with a prompt before each."""
    return tf.strings.join([prompt, text]) if prompt else text


def tokens_signature(compute, max_seq_length: int, text_pairs: bool):
    """Returns the signature for `input_ids`, for pairs `segment_ids`, int32 `[B, S]`, and `lengths`, int32 `[B]`."""

    @signature(input_ids=([None, None], tf.int32), lengths=([None], tf.int32))
    def of_tokens(input_ids, lengths):
        return compute(*cut(input_ids, tf.zeros_like(input_ids), lengths, max_seq_length))

    @signature(input_ids=([None, None], tf.int32), segment_ids=([None, None], tf.int32), lengths=([None], tf.int32))
    def of_token_pair(input_ids, segment_ids, lengths):
        return compute(*cut(input_ids, segment_ids, lengths, max_seq_length))

    return of_token_pair if text_pairs else of_tokens


def trim(input_ids, input_mask, segment_ids):
    """Cuts off the columns that are padding in every row, so that batches of short texts are cheap.

    A batch without rows keeps one column, since the model cannot run on rows without columns.
    """
    longest = tf.reduce_max(tf.concat([tf.reduce_sum(input_mask, axis=1), [1]], 0))
    return input_ids[:, :longest], input_mask[:, :longest], segment_ids[:, :longest]


def cut(input_ids, segment_ids, lengths, max_seq_length: int):
    """Returns ids, mask and segment numbers for rows of which only the first `lengths` tokens count."""
    input_ids, segment_ids = input_ids[:, :max_seq_length], segment_ids[:, :max_seq_length]
    # The model cannot run on rows without columns, so these get one column of padding.
    missing = [[0, 0], [0, tf.maximum(1 - tf.shape(input_ids)[1], 0)]]
    input_ids, segment_ids = tf.pad(input_ids, missing), tf.pad(segment_ids, missing)
    # Values beyond the length of a row may be anything that the client or the server filled in.
    input_mask = tf.sequence_mask(lengths, tf.shape(input_ids)[1], tf.int32)
    return trim(input_ids * input_mask, input_mask, segment_ids * input_mask)


def check_room(options: SignatureOptions, segments: int, vocabulary: TokenTable) -> None:
    """Raises `InputError` if rows are too short for the special tokens and one token per segment."""
    shortest = segments + vocabulary.special_tokens.num_special(segments)
    check_whole("max_seq_length", options.max_seq_length, at_least=shortest)


def check_pairs(model) -> None:
    """Raises `InputError` if nothing divides the two texts of a pair."""
    special_tokens = model.vocabulary.special_tokens
    special_tokens.check_pairs()
    if special_tokens.num_between == 1 and not model.config.takes_pairs:
        raise InputError("The model has one segment only (type_vocab_size=1), so it cannot take pairs of texts.")


def of_examples(of_texts, input_name: str = "examples", rename=lambda outputs: outputs):
    """Returns a signature that takes examples, whose bytes features are named as the inputs of another signature.

    A missing second text counts as empty. For an input `[B, C]`, examples may have different numbers of values; missing
    values are filled with "".

    Args:
        of_texts: a signature whose inputs are strings `[B]` or `[B, C]`.
        input_name: the name of the input, the examples, strings `[B]`.
        rename: function from the outputs of `of_texts` to the outputs of the signature.
    """
    features = {spec.name: _feature(spec) for spec in of_texts.input_signature}

    @signature(**{input_name: ([None], tf.string)})
    def answer(serialized):
        return rename(of_texts(**tf.io.parse_example(serialized, features)))

    return answer


def _feature(spec: tf.TensorSpec):
    if spec.shape.rank == 1:
        return tf.io.FixedLenFeature([], tf.string, "" if spec.name in _OPTIONAL else None)
    return tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True, default_value="")
