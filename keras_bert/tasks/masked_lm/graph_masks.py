"""Tokenises texts in which a literal [MASK] is a token to predict, as TensorFlow graphs."""

import tensorflow as tf


def tokenize_with_masks(tokenizer, text):
    """Tokenises texts; every literal mask, such as `[MASK]`, becomes the mask token.

    The tokenizer alone would split it into three tokens, `[ mask ]`.

    Args:
        tokenizer: a `GraphForm`.
        text: strings `[B]`.

    Returns:
        int32 RaggedTensor `[B, None]`.

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
    """Finds the masks of every row.

    Args:
        input_ids, input_mask: int32 `[B, S]`.

    Returns:
        int32 `[B, M]`, where M is the largest number of masks in a row; unused entries are -1.

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
