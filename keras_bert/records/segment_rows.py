"""Cuts texts into windows and joins them to rows, as `segments.py` does in the graph, but without TensorFlow."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records.features import INPUT_IDS, SEGMENT_IDS
from keras_bert.records.token_rows import TokenRows
from keras_bert.tokenization.token_lists import TokenLists
from keras_bert.tokenization.tokenizer import TokenTable

# The number of ranges that are copied together; it limits the memory for indices.
_RANGES_AT_ONCE = 4096


class TokenRanges(NamedTuple):
    """Ranges of tokens, which may overlap: range n is `values[firsts[n] : firsts[n] + lengths[n]]`."""

    values: np.ndarray
    firsts: np.ndarray
    lengths: np.ndarray


def join_segments(
    segments: Sequence[TokenLists | TokenRanges], max_seq_length: int, vocabulary: TokenTable
) -> tuple[TokenRows, np.ndarray]:
    """Joins one or two segments per row, and shortens rows that are too long.

    Args:
        segments: the tokens of N first texts, and of N second texts if there are any.
        max_seq_length, vocabulary: as for `segments.pack_segments`.

    Returns:
        N rows of `input_ids` and `segment_ids`; and bool `(N,)`, true for rows that were shortened.

    Raises:
        InputError: there is no room for [CLS] and [SEP], or nothing divides the two texts of a row.

    Example, with [CLS] = 2 and [SEP] = 3:
        segments [[5, 6, 7]], [[8]] and max_seq_length 6 -> input_ids [[2, 5, 6, 3, 8, 3]]

    Reference: google-research/bert `convert_single_example` and `_truncate_seq_pair`; huggingface/tokenizers,
    `truncate_encodings` with `LongestFirst`.
    """
    special_tokens = vocabulary.special_tokens
    if len(segments) > 1:
        special_tokens.check_pairs()
    separators, num_special = special_tokens.separators(len(segments)), special_tokens.num_special(len(segments))
    room = max_seq_length - num_special
    if room < 0:
        raise InputError(
            f"max_seq_length must be at least {num_special}, for [CLS] and {num_special - 1} [SEP]. Received: "
            f"{max_seq_length}"
        )
    lengths = _shortened([segment.lengths for segment in segments], room, special_tokens.longer_keeps_more)
    row_lengths = sum(lengths) + num_special
    splits = np.concatenate([[0], np.cumsum(row_lengths, dtype=np.int64)])
    ids = np.full(splits[-1], vocabulary.sep_id, np.int32)
    ids[splits[:-1]] = vocabulary.cls_id
    begin = splits[:-1] + 1
    for segment, length, num_separators in zip(segments, lengths, separators, strict=True):
        copy_ranges(ids, begin, segment.values, segment.firsts, length)
        begin = begin + length + num_separators
    num_first = lengths[0] + 1 + separators[0]
    of_texts = np.array([0, special_tokens.second_segment], np.int32)
    segment_ids = np.repeat(np.tile(of_texts, len(row_lengths)), _interleaved(num_first, row_lengths))
    rows = TokenRows({INPUT_IDS: ids, SEGMENT_IDS: segment_ids}, splits, padding={INPUT_IDS: vocabulary.pad_id})
    return rows, sum(segment.lengths for segment in segments) > room


def _interleaved(num_first: np.ndarray, row_lengths: np.ndarray) -> np.ndarray:
    """Returns how many tokens of each row are in the first and in the second segment: [2, 3], [4, 3] -> [2, 2, 3, 0]"""
    return np.stack([num_first, row_lengths - num_first], axis=1).reshape(-1)


def _shortened(lengths: list[np.ndarray], room: int, longer_keeps_more: bool) -> list[np.ndarray]:
    """Shortens lengths to a sum of at most `room`: [9], 4 -> [4]; [9, 2], 7 -> [5, 2]; [9, 9], 7 -> [4, 3].

    With `longer_keeps_more` [9, 9], 7 -> [3, 4]; and [9, 8], 7 -> [4, 3].
    """
    if len(lengths) == 1:
        return [np.minimum(lengths[0], room)]
    # The second segment gets the room that the first leaves, but at least half. If both are cut, one has the odd token.
    half = (room + (longer_keeps_more and lengths[1] >= lengths[0])) // 2
    second = np.minimum(lengths[1], np.maximum(room - lengths[0], half))
    return [np.minimum(lengths[0], room - second), second]


def cut_overlapping(
    tokens: TokenLists | TokenRanges, room: int | np.ndarray, stride: int
) -> tuple[TokenRanges, np.ndarray]:
    """Cuts texts into windows that overlap; a text that fits is one window.

    Args:
        tokens: the tokens of N texts.
        room: the largest number of tokens in a window, one for all texts or int `(N,)`.
        stride: the number of tokens between the beginnings of two windows; at most `room` is used.

    Returns:
        the tokens of W windows; and int64 `(W,)`, the text of each window.

    Example, with room 4 and stride 2:
        [[1, 2, 3, 4, 5, 6], [7]] -> [[1, 2, 3, 4], [3, 4, 5, 6], [7]] and [0, 0, 1]
    """
    room = np.broadcast_to(room, tokens.lengths.shape)
    stride = np.minimum(stride, room)
    num_windows = 1 + np.maximum(-((room - tokens.lengths) // stride), 0)
    text = np.repeat(np.arange(len(num_windows)), num_windows)
    number = np.arange(len(text)) - np.repeat(np.cumsum(num_windows) - num_windows, num_windows)
    first = number * stride[text]
    lengths = np.minimum(tokens.lengths[text] - first, room[text])
    return TokenRanges(tokens.values, tokens.firsts[text] + first, lengths), text


def copy_ranges(target: np.ndarray, target_firsts, source: np.ndarray, source_firsts, lengths) -> None:
    """Copies ranges of a flat array: for each n, `lengths[n]` values from `source_firsts[n]` to `target_firsts[n]`.

    >>> target = np.zeros(5, int)
    >>> copy_ranges(target, np.array([3, 0]), np.array([7, 8, 9]), np.array([1, 0]), np.array([2, 1]))
    >>> target
    array([7, 0, 0, 8, 9])
    """
    for first in range(0, len(lengths), _RANGES_AT_ONCE):
        part = slice(first, first + _RANGES_AT_ONCE)
        counts = lengths[part]
        inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        target[np.repeat(target_firsts[part], counts) + inside] = source[
            np.repeat(source_firsts[part], counts) + inside
        ]
