"""Joins tokenised segments into rows, as `segments.py` does in the graph, but with NumPy and without TensorFlow."""

from collections.abc import Sequence

import numpy as np

from keras_bert.records.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from keras_bert.tokenization.token_lists import TokenLists
from keras_bert.tokenization.tokenizer import TokenTable


def join_segments(
    segments: Sequence[TokenLists], max_seq_length: int, vocabulary: TokenTable
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Joins one or two segments per row, shortens rows that are too long, and pads the others.

    Args:
        segments: one or two `TokenLists` of N texts each.
        max_seq_length, vocabulary: as for `segments.pack_segments`.

    Returns:
        dict of `input_ids`, `input_mask`, `segment_ids`, int32 `(N, max_seq_length)`; and bool `(N,)`, true for rows
        that were shortened.

    Raises:
        ValueError: there is no room for [CLS] and [SEP].

    Example, with [CLS] = 2 and [SEP] = 3:
        segments [[5, 6, 7]], [[8]] and max_seq_length 6 -> input_ids [[2, 5, 6, 3, 8, 3]]

    Reference: google-research/bert `convert_single_example` and `_truncate_seq_pair`.
    """
    special_tokens = vocabulary.special_tokens
    separators, num_special = special_tokens.separators(len(segments)), special_tokens.num_special(len(segments))
    room = max_seq_length - num_special
    if room < 0:
        raise ValueError(
            f"max_seq_length must be at least {num_special}, for [CLS] and {num_special - 1} [SEP]. Received: "
            f"{max_seq_length}"
        )
    lengths = _shortened([segment.lengths for segment in segments], room)
    row_lengths = sum(lengths) + num_special
    columns = np.arange(max_seq_length)
    ids = np.full((len(row_lengths), max_seq_length), vocabulary.pad_id, np.int32)
    ids[:, 0] = vocabulary.cls_id
    begin = np.ones_like(row_lengths)[:, None]
    for segment, length, num_separators in zip(segments, lengths, separators, strict=True):
        end = begin + length[:, None]
        is_inside = (columns >= begin) & (columns < end)
        ids[is_inside] = segment.values[(segment.splits[:-1, None] + columns - begin)[is_inside]]
        begin = end + num_separators
        ids[(columns >= end) & (columns < begin)] = vocabulary.sep_id
    is_real = columns < row_lengths[:, None]
    is_second = is_real & (columns >= lengths[0][:, None] + 1 + separators[0])
    rows = {INPUT_IDS: ids, INPUT_MASK: is_real.astype(np.int32), SEGMENT_IDS: is_second.astype(np.int32)}
    return rows, sum(segment.lengths for segment in segments) > room


def _shortened(lengths: list[np.ndarray], room: int) -> list[np.ndarray]:
    """Shortens lengths to a sum of at most `room`: [9], 4 -> [4]; [9, 2], 7 -> [5, 2]; [9, 9], 7 -> [4, 3]."""
    if len(lengths) == 1:
        return [np.minimum(lengths[0], room)]
    # The second segment gets the room that the first leaves, but at least half, rounded down: it is cut first on a tie.
    second = np.minimum(lengths[1], np.maximum(room - lengths[0], room // 2))
    return [np.minimum(lengths[0], room - second), second]


def cut_overlapping(tokens: TokenLists, room: int, stride: int) -> tuple[TokenLists, np.ndarray]:
    """Cuts texts into windows that overlap; a text that fits is one window.

    Args:
        tokens: the tokens of N texts.
        room: the largest number of tokens in a window.
        stride: the number of tokens between the beginnings of two windows; at most `room` is used.

    Returns:
        the tokens of W windows; and int64 `(W,)`, the text of each window.

    Example, with room 4 and stride 2:
        [[1, 2, 3, 4, 5, 6], [7]] -> [[1, 2, 3, 4], [3, 4, 5, 6], [7]] and [0, 0, 1]
    """
    stride = min(stride, room)
    num_windows = 1 + np.maximum(-((room - tokens.lengths) // stride), 0)
    text = np.repeat(np.arange(len(num_windows)), num_windows)
    number = np.arange(len(text)) - np.repeat(np.cumsum(num_windows) - num_windows, num_windows)
    lengths = np.minimum(tokens.lengths[text] - number * stride, room)
    begins = tokens.splits[text] + number * stride
    inside = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return TokenLists(tokens.values[np.repeat(begins, lengths) + inside], lengths), text
