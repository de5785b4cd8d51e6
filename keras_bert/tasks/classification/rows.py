"""Encodes texts and pairs of texts as token rows."""

from collections.abc import Sequence

import numpy as np

from keras_bert.records.segments import cut_windows, pack_segments


def encode_texts(
    texts: Sequence[str], second_texts: Sequence[str] | None, tokenizer, max_seq_length: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Encodes texts as rows [CLS] a [SEP], or pairs as rows [CLS] a [SEP] b [SEP].

    Args:
        texts: N strings.
        second_texts: N strings, or None.
        tokenizer: a `GraphForm`.
        max_seq_length: longer rows are cut, see `pack_segments`.

    Returns:
        dict of `input_ids`, `input_mask`, `segment_ids`, int32 (N, max_seq_length); and bool (N,), true for cut rows.
    """
    columns = [texts] if second_texts is None else [texts, second_texts]
    segments = [tokenizer.tokenize(list(column)) for column in columns]
    packed = pack_segments(segments, max_seq_length, tokenizer.vocabulary)
    num_special = tokenizer.vocabulary.special_tokens.num_special(len(segments))
    lengths = sum(segment.row_lengths().numpy() for segment in segments) + num_special
    return {name: values.numpy() for name, values in packed.items()}, lengths > max_seq_length


def encode_windows(
    texts: Sequence[str], tokenizer, max_seq_length: int, stride: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Encodes texts as rows [CLS] a [SEP]; a text that is too long becomes several rows that overlap.

    Args:
        texts: N strings.
        tokenizer: a `GraphForm`.
        max_seq_length: the largest number of tokens in a row.
        stride: the number of tokens between the beginnings of two windows of a text.

    Returns:
        dict of `input_ids`, `input_mask`, `segment_ids`, int32 (V, max_seq_length); and int (V,), the text of each row.
    """
    room = max_seq_length - tokenizer.vocabulary.special_tokens.num_special(1)
    windows, text = cut_windows(tokenizer.tokenize(list(texts)), room, stride)
    packed = pack_segments([windows], max_seq_length, tokenizer.vocabulary)
    return {name: values.numpy() for name, values in packed.items()}, text.numpy()
