"""Documents -> sequences of full sentences, without pairs, for pre-training without a sentence task."""

import numpy as np

from data_prep.pretraining.token_sequences import TokenSequences
from keras_bert.records.masked_positions import concatenated_ranges


def draw_full_sentences(
    sentence_offsets: np.ndarray, document_offsets: np.ndarray, *, max_seq_length: int, rng: np.random.Generator
) -> TokenSequences:
    """Reads the documents in random order and fills sequences with whole sentences, as RoBERTa does.

    A sequence ends before the first sentence that does not fit into `max_seq_length`. It may continue in the next
    document, after a [SEP]. A sentence that is too long for a sequence is cut into pieces. Every token is used once.

    Args:
        sentence_offsets, document_offsets: as in `DocumentBlock`.

    Example:
        sentences of 4, 2 | 3 tokens in two documents, length 8 -> `[CLS] 4 tokens, 2 tokens [SEP]` and
        `[CLS] 3 tokens [SEP]`; length 16 -> `[CLS] 4 tokens, 2 tokens [SEP] 3 tokens [SEP]`; documents in any order.

    Reference: Liu et al., 2019 (RoBERTa), section 4.2, FULL-SENTENCES.
    """
    room = max_seq_length - 2  # [CLS] and the last [SEP]
    order = np.argsort(rng.random(len(document_offsets) - 1), kind="stable")
    num_sentences = np.diff(document_offsets)[order]
    sentences = concatenated_ranges(document_offsets[order], num_sentences)
    starts = sentence_offsets[sentences]
    lengths = sentence_offsets[sentences + 1] - starts
    document = np.repeat(np.arange(len(order)), num_sentences)

    num_pieces = -(-lengths // room)
    if (num_pieces > 1).any():
        piece = concatenated_ranges(np.zeros(len(lengths), np.int64), num_pieces)
        starts = np.repeat(starts, num_pieces) + room * piece
        lengths = np.minimum(np.repeat(lengths, num_pieces) - room * piece, room)
        document = np.repeat(document, num_pieces)

    # A sequence from sentence s to before sentence e has `before[e] - before[s]` tokens, plus a [SEP] for each document
    # that begins in between.
    before = np.concatenate([[0], np.cumsum(lengths)])
    last_that_fits = np.searchsorted(before[1:] + document, before[:-1] + document + room, side="right")
    begins = _chain(last_that_fits)
    is_range_start = np.zeros(len(lengths), bool)
    is_range_start[begins] = True
    is_range_start[1:] |= document[1:] != document[:-1]
    range_firsts = np.flatnonzero(is_range_start)
    return TokenSequences(
        starts[range_firsts],
        np.diff(before[np.append(range_firsts, len(lengths))]),
        np.searchsorted(range_firsts, np.append(begins, len(lengths))),
        np.zeros(len(begins), np.int64),
        are_pairs=False,
    )


def _chain(following: np.ndarray) -> np.ndarray:
    """Follows links from 0 to the end of the array, int64: [2, 3, 3, 5, 5] -> [0, 2, 3], as 0 leads to 2, 2 to 3."""
    numbers, current, view = [], 0, memoryview(following)
    while current < len(following):
        numbers.append(current)
        current = view[current]
    return np.array(numbers, np.int64)
