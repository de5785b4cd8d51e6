"""Texts in which a literal [MASK] stands for a token to be filled in, as TensorFlow graphs."""

import tensorflow as tf


def tokenize_with_masks(tokenizer, text, mask_token: str, mask_id: int):
    """Tokenises texts; every literal `mask_token` becomes the one token `mask_id`.

    The tokenizer alone would make `[ mask ]` of it, three tokens.

    Args:
        tokenizer: a `GraphTokenizer`.
        text: strings `[B]`.
        mask_token: such as `[MASK]`.
        mask_id: the id of the token that the model was trained to fill.

    Returns:
        int32 RaggedTensor `[B, None]`.

    Example:
        ["the [MASK] fox", "the"] -> [[the, mask_id, fox], [the]]
    """
    # P = pieces of text between the masks, of all rows together
    pieces = tf.strings.split(text, sep=mask_token)  # [B, None]
    return _with_masks(pieces, tokenizer.tokenize(pieces.flat_values), mask_id)


def tokenize_with_masks_and_offsets(tokenizer, text, mask_token: str, mask_id: int):
    """Is `tokenize_with_masks` with byte offsets: ids, starts and ends, int32 RaggedTensors `[B, None]`.

    Example:
        ["the [MASK] fox"] -> [[the, mask_id, fox]], [[0, 4, 11]], [[3, 10, 14]]
    """
    pieces = tf.strings.split(text, sep=mask_token)  # [B, None]
    ids, starts, ends = tokenizer.tokenize_with_offsets(pieces.flat_values)  # [P, None]
    # Where the pieces begin in their texts, and so where the masks behind them begin.
    lengths = pieces.with_flat_values(tf.strings.length(pieces.flat_values))
    behind = tf.ragged.map_flat_values(tf.add, lengths, len(mask_token))
    piece_ends = tf.cumsum(behind.flat_values) - len(mask_token)  # counted through all texts
    before_row = tf.gather(tf.concat([[0], tf.cumsum(behind.flat_values)], 0), behind.row_splits[:-1])
    mask_starts = piece_ends - tf.repeat(before_row, pieces.row_lengths())  # [P]
    piece_starts = (mask_starts - lengths.flat_values)[:, tf.newaxis]
    return (
        _with_masks(pieces, ids, mask_id),
        _with_masks(pieces, starts + tf.cast(piece_starts, starts.dtype), mask_starts),
        _with_masks(pieces, ends + tf.cast(piece_starts, ends.dtype), mask_starts + len(mask_token)),
    )


def _with_masks(pieces, of_tokens, of_masks):
    """Joins what belongs to the tokens of the pieces, `[P, None]`, with what belongs to the masks behind them, `[P]`.

    The last piece of a row has no mask behind it.
    """
    in_row = pieces.row_lengths()
    number_in_row = tf.ragged.range(in_row).flat_values
    has_mask = number_in_row + 1 < tf.repeat(in_row, in_row)  # [P]
    of_masks = tf.broadcast_to(tf.cast(of_masks, of_tokens.dtype), tf.shape(has_mask))
    masks = tf.RaggedTensor.from_row_lengths(
        tf.boolean_mask(of_masks, has_mask), tf.cast(has_mask, tf.int64), validate=False
    )
    return pieces.with_flat_values(tf.concat([of_tokens, masks], axis=1)).merge_dims(1, 2)


def mask_positions(input_ids, input_mask, mask_id: int):
    """Finds the masked tokens of every row.

    Args:
        input_ids, input_mask: int32 `[B, S]`.

    Returns:
        int32 `[B, M]`, where M is the most masks in a row; the places that a row does not need hold -1.

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
