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
    tokens = tokenizer.tokenize(pieces.flat_values)  # [P, None]
    in_row = pieces.row_lengths()
    # Every piece but the last of its row is followed by one mask.
    number_in_row = tf.ragged.range(in_row).flat_values
    masks_behind = tf.cast(number_in_row + 1 < tf.repeat(in_row, in_row), tf.int64)  # [P]
    masks = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.reduce_sum(masks_behind)], tf.constant(mask_id, tokens.dtype)), masks_behind, validate=False
    )
    return pieces.with_flat_values(tf.concat([tokens, masks], axis=1)).merge_dims(1, 2)


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
