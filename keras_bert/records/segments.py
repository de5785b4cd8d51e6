"""Joins tokenised segments into rows in the graph: [CLS] a [SEP], or [CLS] a [SEP] b [SEP].

[CLS], [SEP] and [PAD] stand for the special tokens of the vocabulary, whatever their names.

TensorFlow is imported when the first row is joined.
"""

from collections.abc import Sequence

from keras_bert.records.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from keras_bert.tokenization.tokenizer import TokenTable


def pack_segments(segments: Sequence, max_seq_length: int, vocabulary: TokenTable) -> dict[str, "tf.Tensor"]:  # noqa: F821
    """Joins one or two segments per row, shortens rows that are too long, and pads the others.

    Args:
        segments: one or two RaggedTensors of ids, shape `(rows, None)`.
        max_seq_length: the largest number of tokens in a row, [CLS] and [SEP] included. Of two segments the longer one
            is cut at its end until they fit or have equal lengths, and then both in turn; the vocabulary says which one
            keeps the odd token. It may be an int32 scalar in the graph, which is not checked.
        vocabulary: has the ids of [CLS], [SEP] and [PAD], and says how many [SEP] stand between two segments.

    Returns:
        dict of `input_ids`, `input_mask`, `segment_ids`, int32 `(rows, max_seq_length)`.

    Raises:
        ValueError: there are no segments or more than two, or there is no room for [CLS] and [SEP].

    Example, with [CLS] = 2 and [SEP] = 3:
        segments [[5, 6, 7]], [[8]] and max_seq_length 6 ->
        input_ids   [[2, 5, 6, 3, 8, 3]]
        input_mask  [[1, 1, 1, 1, 1, 1]]
        segment_ids [[0, 0, 0, 0, 1, 1]]

    Reference: as `token_rows.join_segments`.
    """
    import tensorflow as tf

    if len(segments) not in (1, 2):
        raise ValueError(f"A row holds one or two segments. Received: {len(segments)}")
    separators = vocabulary.special_tokens.separators(len(segments))
    num_special = 1 + sum(separators)
    room = max_seq_length - num_special
    if not tf.is_tensor(room) and room < 0:
        raise ValueError(
            f"max_seq_length must be at least {num_special}, for [CLS] and {num_special - 1} [SEP]. Received: "
            f"{max_seq_length}"
        )
    lengths = [segment.row_lengths() for segment in segments]
    lengths = _truncated_lengths(lengths, tf.cast(room, tf.int64), vocabulary.special_tokens.longer_keeps_more)
    row_lengths = tf.add_n(lengths) + num_special
    columns = tf.range(max_seq_length, dtype=tf.int64)
    ids = _joined(segments, lengths, columns, separators, vocabulary)
    is_real = columns < row_lengths[:, tf.newaxis]
    is_first = columns < lengths[0][:, tf.newaxis] + 1 + separators[0]
    return {
        INPUT_IDS: ids,
        INPUT_MASK: tf.cast(is_real, tf.int32),
        SEGMENT_IDS: tf.cast(is_real & ~is_first, tf.int32) * vocabulary.special_tokens.second_segment,
    }


def _truncated_lengths(lengths: list, room: int, longer_keeps_more: bool) -> list:
    """Shortens lengths to a sum of at most `room`, as `_shortened` of token_rows.py."""
    import tensorflow as tf

    if len(lengths) == 1:
        return [tf.minimum(lengths[0], room)]
    odd = tf.cast(lengths[1] >= lengths[0], tf.int64) if longer_keeps_more else 0
    second = tf.minimum(lengths[1], tf.maximum(room - lengths[0], (room + odd) // 2))
    return [tf.minimum(lengths[0], room - second), second]


def _joined(segments: Sequence, lengths: list, columns, separators: Sequence[int], vocabulary: TokenTable):
    """Returns int32 `(rows, columns)`: [CLS], the first `length` ids of each segment and its separators, then padding.

    All ids are in one list, and every position of the result is looked up in it. This takes few TensorFlow operations.
    """
    import tensorflow as tf

    values = [tf.cast(segment.values, tf.int32) for segment in segments]
    offsets = [0, *(tf.size(ids, tf.int64) for ids in values)]
    cls_index = tf.add_n(offsets[1:])
    sep_index, pad_index = cls_index + 1, cls_index + 2
    values = tf.concat([*values, [vocabulary.cls_id, vocabulary.sep_id, vocabulary.pad_id]], 0)
    sources, begin = tf.where(tf.equal(columns, 0), cls_index, pad_index), tf.ones_like(lengths[0])[:, tf.newaxis]
    for segment, length, offset, num_separators in zip(segments, lengths, offsets, separators, strict=False):
        end = begin + length[:, tf.newaxis]
        index = offset + segment.row_starts()[:, tf.newaxis] + columns - begin
        sources = tf.where((columns >= begin) & (columns < end), index, sources)
        begin = end + num_separators
        sources = tf.where((columns >= end) & (columns < begin), sep_index, sources)
    return tf.gather(values, sources)


def cut_windows(tokens, room: int, stride: int):
    """Cuts rows into windows that overlap, as `token_rows.cut_overlapping` does with NumPy.

    Returns:
        RaggedTensor of ids, `(windows, None)`, and int64 `(windows,)`, the row of each window.
    """
    import tensorflow as tf

    stride = min(stride, room)
    lengths = tokens.row_lengths()
    num_windows = 1 + tf.maximum(-((room - lengths) // stride), 0)
    row = tf.repeat(tf.range(tokens.nrows()), num_windows)
    number = tf.range(tf.size(row, tf.int64)) - tf.gather(tf.cumsum(num_windows, exclusive=True), row)
    begins = tf.gather(tokens.row_starts(), row) + number * stride
    ends = tf.minimum(begins + room, tf.gather(tokens.row_limits(), row))
    places = tf.ragged.range(begins, ends)
    return places.with_values(tf.gather(tokens.values, places.values)), row
