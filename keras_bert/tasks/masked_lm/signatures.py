"""`MaskedLM` and `BertPretrainer` as signatures of a SavedModel, and `MaskedLM` as ONNX operations."""

import functools

import numpy as np
import tensorflow as tf

from keras_bert.config.signature_options import SignatureOptions
from keras_bert.program.options import check_whole
from keras_bert.records import features
from keras_bert.serving.graph import RAW_OUTPUTS, answer_operations
from keras_bert.serving.graph.onnx_heads import BATCH, LENGTH, OUTPUT, PREDICTIONS, inputs_of, onnx_encoder
from keras_bert.serving.graph.onnx_layers import array, dense, layer_norm, stored_name
from keras_bert.serving.graph.row_groups import compute_in_groups
from keras_bert.serving.graph.signature_inputs import IDS, cut, model_inputs, row_signatures, signature
from keras_bert.serving.graph.tokenize import tokenize_signature
from keras_bert.tasks.masked_lm.answers import best_tokens


def fill_mask_signatures(model, tokenizer, options: SignatureOptions) -> dict:
    """Returns the signatures of a `MaskedLM` or `BertPretrainer`, which propose tokens for [MASK].

    The mask is the mask token of the vocabulary, whatever its name. Inputs: `text`, strings `[B]`, with any number of
    literal [MASK]. Or `input_ids`, int32 `[B, S]`, with the ids of the masks, and `lengths`, int32 `[B]`. `tokenize`
    makes these from texts with [MASK].

    Outputs, where M is the largest number of masks in a text of the batch: `tokens`, strings `[B, M, top_k]`, the most
    probable first, as in the vocabulary; their `probabilities`, float32 `[B, M, top_k]`; and `positions`, int32 `[B,
    M]`, the column of each mask in its row, where [CLS] is 0. Unused entries are "", 0 and -1. Masks that are cut off,
    because the text is longer than the model, have no entry.

    `raw_outputs` takes also `masked_lm_positions`, int32 `[B, M]`, the columns of masks, and returns
    `masked_lm_logits`, float32 `[B, M, V]`, the logits of all tokens there.
    """
    vocabulary = model.vocabulary
    check_whole("top_k", options.top_k, at_least=1, at_most=model.config.vocab_size)

    @tf.function(input_signature=[IDS, IDS, IDS, IDS], autograph=False)
    def logits_of(input_ids, input_mask, segment_ids, positions):  # float32 [r, M, V]
        inputs = model_inputs(input_ids, input_mask, segment_ids)
        inputs[features.MASKED_LM_POSITIONS] = tf.maximum(positions, 0)
        return tf.cast(model(inputs, training=False)["masked_lm_logits"], tf.float32)

    def best(*rows):
        return list(best_tokens(tf.nn.log_softmax(logits_of(*rows)), options.top_k, answer_operations))

    # The logits of a mask take as much memory as this many tokens in a layer.
    mask_tokens = -(-model.config.vocab_size // model.config.intermediate_size)
    of_masks = [tf.TensorSpec([None, None, options.top_k], dtype) for dtype in (tf.float32, tf.int32)]

    def in_groups(compute, rows, outputs):
        row_tokens = tf.shape(rows[0])[1] + mask_tokens * tf.shape(rows[3])[1]
        return compute_in_groups(compute, rows, row_tokens, outputs)

    @tf.function(input_signature=[IDS, IDS, IDS], autograph=False)
    def fill(input_ids, input_mask, segment_ids):
        positions = mask_positions(input_ids, input_mask, vocabulary.mask_id)  # [B, M]
        probabilities, ids = in_groups(best, [input_ids, input_mask, segment_ids, positions], of_masks)
        is_mask, tokens = positions[:, :, tf.newaxis] >= 0, tf.gather(tf.constant(vocabulary.tokens), ids)
        found = {"tokens": tf.where(is_mask, tokens, ""), "probabilities": tf.where(is_mask, probabilities, 0.0)}
        return {**found, "positions": positions}

    # The shapes of the others are checked against the first: ids and positions have the batch in common only.
    @signature(
        lengths=([None], tf.int32), input_ids=([None, None], tf.int32), masked_lm_positions=([None, None], tf.int32)
    )
    def raw_outputs(lengths, input_ids, masked_lm_positions):
        rows = cut(input_ids, tf.zeros_like(input_ids), lengths, options.max_seq_length)
        outputs = [tf.TensorSpec([None, None, model.config.vocab_size], tf.float32)]
        [logits] = in_groups(lambda *group: [logits_of(*group)], [*rows, masked_lm_positions], outputs)
        return {"masked_lm_logits": logits}

    tokenize = functools.partial(tokenize_with_masks, tokenizer)
    with_offsets = functools.partial(tokenize_with_masks_and_offsets, tokenizer)
    made = row_signatures(model, tokenize, options, fill, lambda answers: answers)
    of_tokens = tokenize_signature(with_offsets, vocabulary, options.max_seq_length)
    return {**made, RAW_OUTPUTS: raw_outputs, "tokenize": of_tokens}


def masked_lm(graph, model):
    encoder = onnx_encoder(graph, model.encoder, inputs_of(model))
    _, masked = encoder.vectors_at(graph.to_int64(features.MASKED_LM_POSITIONS))
    return {"masked_lm_logits": masked_lm_logits(graph, model, masked)}


def token_logits(graph, model):
    """Returns the logits of all tokens, as `ForMaskedLM` of transformers does."""
    tokens = onnx_encoder(graph, model.encoder, inputs_of(model)).sequence_output()
    logits, _ = masked_lm_logits(graph, model, tokens, features.INPUT_IDS)
    return {OUTPUT: (logits, [BATCH, LENGTH, model.config.vocab_size])}


def masked_lm_logits(graph, model, masked: str, columns: str = features.MASKED_LM_POSITIONS) -> tuple[str, list]:
    """Returns the logits `[B, P, vocabulary]` for vectors `[B, P, H]` of masked tokens `columns`, and their axes."""
    head = model.masked_lm_head
    masked = graph.node("Reshape", masked, graph.integers(-1, model.config.hidden_size))
    if head.has_transform:
        masked = graph.activation(head.activation, dense(graph, head.dense, masked))
        masked = layer_norm(graph, head.layer_norm, masked)
    table = model.encoder.embeddings.token_embeddings if head.tied else head.output_embeddings
    bias = array(head.output_bias) if head.has_bias else np.zeros(model.config.vocab_size, "float32")
    bias_name = f"{stored_name(head)}/output_bias"
    logits = graph.product_with_rows(stored_name(table), masked, array(table), bias_name, bias)
    shape = graph.node("Shape", columns)
    shape = graph.node("Concat", shape, graph.integers(model.config.vocab_size), axis=0)
    return graph.node("Reshape", logits, shape), [BATCH, PREDICTIONS, model.config.vocab_size]


def tokenize_with_masks(tokenizer, text):
    """Tokenises texts, strings `[B]`, to a RaggedTensor, int32 `[B, None]`; a literal [MASK] becomes the mask token.

    The tokenizer, a `GraphForm`, would split it into three tokens, `[ mask ]`.

    Example:
        ["the [MASK] fox", "the"] -> [[the, mask_id, fox], [the]]
    """
    # P = pieces of text between the masks, of all rows together
    special_tokens = tokenizer.vocabulary.special_tokens
    pieces = tf.strings.split(text, sep=special_tokens.mask)  # [B, None]
    return _with_masks(pieces, tokenizer.tokenize(_texts_of(pieces, special_tokens)), tokenizer.vocabulary.mask_id)


def tokenize_with_masks_and_offsets(tokenizer, text):
    """Like `tokenize_with_masks`, with byte offsets: ids, starts and ends, int32 RaggedTensors `[B, None]`.

    Example:
        ["the [MASK] fox"] -> [[the, mask_id, fox]], [[0, 4, 11]], [[3, 10, 14]]
    """
    special_tokens, mask_id = tokenizer.vocabulary.special_tokens, tokenizer.vocabulary.mask_id
    num_mask_bytes = len(special_tokens.mask.encode())
    pieces = tf.strings.split(text, sep=special_tokens.mask)  # [B, None]
    ids, starts, ends = tokenizer.tokenize_with_offsets(_texts_of(pieces, special_tokens))  # [P, None]
    # The start of each piece in its text, and so the start of the mask after it.
    lengths = pieces.with_flat_values(tf.strings.length(pieces.flat_values))
    behind = tf.ragged.map_flat_values(tf.add, lengths, num_mask_bytes)
    piece_ends = tf.cumsum(behind.flat_values) - num_mask_bytes  # in the concatenation of all texts
    before_row = tf.gather(tf.concat([[0], tf.cumsum(behind.flat_values)], 0), behind.row_splits[:-1])
    mask_starts = piece_ends - tf.repeat(before_row, pieces.row_lengths())  # [P]
    piece_starts = (mask_starts - lengths.flat_values)[:, tf.newaxis]
    return (
        _with_masks(pieces, ids, mask_id),
        _with_masks(pieces, starts + tf.cast(piece_starts, starts.dtype), mask_starts),
        _with_masks(pieces, ends + tf.cast(piece_starts, ends.dtype), mask_starts + num_mask_bytes),
    )


def _texts_of(pieces, special_tokens):
    """Returns the texts of all pieces, `[P]`, without the white space that belongs to the following masks."""
    texts = pieces.flat_values
    if not special_tokens.mask_takes_space:
        return texts
    return tf.where(_has_mask(pieces), tf.strings.regex_replace(texts, r"\s+$", ""), texts)


def _has_mask(pieces):
    """Returns whether a mask follows each piece, bool `[P]`: true for all pieces except for the last of a row."""
    in_row = pieces.row_lengths()
    return tf.ragged.range(in_row).flat_values + 1 < tf.repeat(in_row, in_row)


def _with_masks(pieces, of_tokens, of_masks):
    """Joins the values of the pieces' tokens, `[P, None]`, with the values of the masks that follow them, `[P]`."""
    has_mask = _has_mask(pieces)
    of_masks = tf.broadcast_to(tf.cast(of_masks, of_tokens.dtype), tf.shape(has_mask))
    masks = tf.RaggedTensor.from_row_lengths(
        tf.boolean_mask(of_masks, has_mask), tf.cast(has_mask, tf.int64), validate=False
    )
    return pieces.with_flat_values(tf.concat([of_tokens, masks], axis=1)).merge_dims(1, 2)


def mask_positions(input_ids, input_mask, mask_id: int):
    """Finds the masks of every row: int32 `[B, S]` -> int32 `[B, M]`.

    M is the largest number of masks in a row; unused entries are -1.

    Example (9 is the mask):
        [[2, 9, 5, 9, 3],      [[1,  3],
         [2, 9, 3, 0, 0],  ->   [1, -1],
         [2, 3, 0, 0, 0]]       [-1, -1]]
    """
    is_mask = tf.logical_and(tf.equal(input_ids, mask_id), input_mask > 0)
    found = tf.where(is_mask)  # [number of masks, 2]: row, column
    positions = tf.RaggedTensor.from_value_rowids(
        tf.cast(found[:, 1], tf.int32), found[:, 0], nrows=tf.shape(input_ids, tf.int64)[0], validate=False
    )
    return positions.to_tensor(default_value=-1)
