"""Sequences for the model, stored as ranges of tokens, and their layout in rows.

A sequence is `[CLS]`, a range of tokens, `[SEP]`, perhaps another range, `[SEP]`, and so on. The sentences of a block
of documents are concatenated, so a range is two numbers, and no token is copied before rows are made.
"""

import dataclasses

import numpy as np

from keras_bert.records import features
from keras_bert.records.masked_positions import concatenated_ranges
from keras_bert.tokenization.tokenizer import TokenTable


@dataclasses.dataclass(frozen=True)
class TokenSequences:
    """N sequences with R ranges in total.

    Args:
        range_starts, range_lengths: int64 (R,): range r is `tokens[range_starts[r] : range_starts[r] + lengths[r]]`.
        range_offsets: int64 (N + 1,), starting with 0: sequence n has the ranges `offsets[n]` to `offsets[n + 1] - 1`.
        labels: int64 (N,), the labels of the sentence task: 1 for a random or swapped second range.
        are_pairs: whether each sequence is two ranges, with the special tokens of a pair. Otherwise all is segment 0.
        num_between: the number of [SEP] between the two ranges of a pair. If there are several, as in RoBERTa, all is
            segment 0.
    """

    range_starts: np.ndarray
    range_lengths: np.ndarray
    range_offsets: np.ndarray
    labels: np.ndarray
    are_pairs: bool
    num_between: int = 1

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def pairs(
        cls, first_starts, first_lengths, second_starts, second_lengths, labels, num_between: int = 1
    ) -> "TokenSequences":
        """Makes N pairs of segments from five arrays (N,)."""
        return cls(
            np.stack([first_starts, second_starts], axis=1).ravel(),
            np.stack([first_lengths, second_lengths], axis=1).ravel(),
            2 * np.arange(len(labels) + 1),
            np.asarray(labels, np.int64),
            are_pairs=True,
            num_between=num_between,
        )

    @property
    def range_costs(self) -> np.ndarray:
        """The length of every range with the [SEP] after it: int64 (R,)."""
        costs = self.range_lengths + 1
        if self.are_pairs and self.num_between > 1:
            costs[0::2] += self.num_between - 1
        return costs

    def lengths(self) -> np.ndarray:
        """The length of every sequence including its special tokens: int64 (N,)."""
        before = np.concatenate([[0], np.cumsum(self.range_costs)])
        return 1 + np.diff(before[self.range_offsets])

    def take(self, numbers: np.ndarray) -> "TokenSequences":
        """Returns the sequences with these numbers, in the given order."""
        num_ranges = np.diff(self.range_offsets)[numbers]
        ranges = concatenated_ranges(self.range_offsets[numbers], num_ranges)
        return TokenSequences(
            self.range_starts[ranges],
            self.range_lengths[ranges],
            np.concatenate([[0], np.cumsum(num_ranges)]),
            self.labels[numbers],
            self.are_pairs,
            self.num_between,
        )


def lay_out_rows(
    tokens: np.ndarray,
    sequences: TokenSequences,
    row_offsets: np.ndarray,
    max_seq_length: int,
    max_sequences_per_row: int,
    vocabulary: TokenTable,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Lays out sequences in B rows, left-aligned and concatenated. Row b has those from `row_offsets[b]` on, which fit.

    Returns:
        `input_ids`, `input_mask`, which numbers the sequences of a row, and `segment_ids`, int32 (B, S);
        `next_sentence_labels` and `cls_positions`, int32 (B, K), and `next_sentence_weights`, float32 (B, K), where K
        is `max_sequences_per_row`; and bool (B, S), the columns with text tokens instead of special tokens or padding.

    Example:
        segments `em ##bed` and `is fun`, length 8 -> `[CLS] em ##bed [SEP] is fun [SEP] [PAD]`,
        mask 1 1 1 1 1 1 1 0, segments 0 0 0 0 1 1 1 0
    """
    num_rows, num_columns = len(row_offsets) - 1, max_seq_length
    lengths = sequences.lengths()
    row = np.repeat(np.arange(num_rows), np.diff(row_offsets))
    starts = _sequence_starts(lengths, row, row_offsets, num_columns)
    range_begins = _range_begins(sequences, starts)
    range_ends = range_begins + sequences.range_lengths

    is_text = _between(range_begins, range_ends, num_rows * num_columns)
    input_ids = np.full(num_rows * num_columns, vocabulary.pad_id, np.int32)
    input_ids[is_text] = tokens[concatenated_ranges(sequences.range_starts, sequences.range_lengths)]
    input_ids[starts] = vocabulary.cls_id
    input_ids[range_ends] = vocabulary.sep_id
    if sequences.are_pairs:
        for extra in range(1, sequences.num_between):
            input_ids[range_ends[0::2] + extra] = vocabulary.sep_id

    place = np.arange(len(sequences)) - row_offsets[:-1][row]
    input_mask = _fill(starts, starts + lengths, place + 1, num_rows * num_columns)
    if sequences.are_pairs and sequences.num_between == 1:
        segment_ids = _between(range_begins[1::2], range_ends[1::2] + 1, num_rows * num_columns).astype(np.int32)
    else:
        segment_ids = np.zeros(num_rows * num_columns, np.int32)

    shape = (num_rows, num_columns)
    labels, cls_positions = np.zeros((2, num_rows, max_sequences_per_row), np.int32)
    labels[row, place] = sequences.labels
    cls_positions[row, place] = starts - num_columns * row
    weights = np.zeros(labels.shape, np.float32)
    weights[row, place] = sequences.are_pairs
    rows = {
        features.INPUT_IDS: input_ids.reshape(shape),
        features.INPUT_MASK: input_mask.reshape(shape),
        features.SEGMENT_IDS: segment_ids.reshape(shape),
        features.NEXT_SENTENCE_LABELS: labels,
        features.CLS_POSITIONS: cls_positions,
        features.NEXT_SENTENCE_WEIGHTS: weights,
    }
    return rows, is_text.reshape(shape)


def _sequence_starts(lengths: np.ndarray, row: np.ndarray, row_offsets: np.ndarray, num_columns: int) -> np.ndarray:
    """Returns the start of each sequence in the flattened rows, (N,). `row` is the row of each sequence."""
    ends_in_all = np.cumsum(lengths)
    used_before = np.concatenate([[0], ends_in_all])[row_offsets]
    return num_columns * row + ends_in_all - lengths - used_before[row]


def _range_begins(sequences: TokenSequences, starts: np.ndarray) -> np.ndarray:
    """Returns the start of each range, (R,), for sequences whose [CLS] are at `starts`, (N,), with [SEP] after each."""
    range_costs = sequences.range_costs
    costs_before = np.cumsum(range_costs) - range_costs
    num_ranges = np.diff(sequences.range_offsets)
    return costs_before + np.repeat(starts + 1 - costs_before[sequences.range_offsets[:-1]], num_ranges)


def _between(begins: np.ndarray, ends: np.ndarray, size: int) -> np.ndarray:
    """Returns bool (size,), true from each begin to before its end. The ranges ascend and do not overlap."""
    return _fill(begins, ends, np.ones(len(begins), bool), size)


def _fill(begins: np.ndarray, ends: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """Returns (size,): each value from its begin to before its end, 0 elsewhere. Ranges ascend and do not overlap."""
    counts = np.empty(2 * len(begins) + 1, np.int64)
    counts[0::2] = np.append(begins, size) - np.concatenate([[0], ends])
    counts[1::2] = ends - begins
    with_gaps = np.zeros(len(counts), np.int32 if values.dtype != bool else bool)
    with_gaps[1::2] = values
    return np.repeat(with_gaps, counts)
