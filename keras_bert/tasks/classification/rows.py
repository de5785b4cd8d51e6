"""Encodes texts and pairs of texts as token rows."""

from collections.abc import Sequence

import numpy as np

from keras_bert.records.segment_rows import cut_overlapping, join_segments
from keras_bert.tokenization.token_lists import TokenLists


def encode_texts(
    texts: Sequence[str], second_texts: Sequence[str] | None, tokenizer, max_seq_length: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Encodes texts as rows [CLS] a [SEP], or pairs as rows [CLS] a [SEP] b [SEP].

    Args:
        texts: N strings.
        second_texts: N strings, or None.
        tokenizer: a `GraphForm` or a `PythonForm`.
        max_seq_length: longer rows are cut, see `join_segments`.

    Returns:
        dict of `input_ids`, `input_mask`, `segment_ids`, int32 (N, max_seq_length); and bool (N,), true for cut rows.
    """
    columns = [texts] if second_texts is None else [texts, second_texts]
    segments = [TokenLists.of(tokenizer.tokenize(list(column))) for column in columns]
    return join_segments(segments, max_seq_length, tokenizer.vocabulary)


def encode_windows(
    texts: Sequence[str], tokenizer, max_seq_length: int, stride: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Encodes texts as rows [CLS] a [SEP]; a text that is too long becomes several rows that overlap.

    Args:
        texts: N strings.
        tokenizer: a `GraphForm` or a `PythonForm`.
        max_seq_length: the largest number of tokens in a row.
        stride: the number of tokens between the beginnings of two windows of a text.

    Returns:
        dict of `input_ids`, `input_mask`, `segment_ids`, int32 (V, max_seq_length); and int (V,), the text of each row.
    """
    room = max_seq_length - tokenizer.vocabulary.special_tokens.num_special(1)
    windows, text = cut_overlapping(TokenLists.of(tokenizer.tokenize(list(texts))), room, stride)
    return join_segments([windows], max_seq_length, tokenizer.vocabulary)[0], text
