"""Statistics of records, taken in one pass and in bounded memory."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from data_prep.inspection.bert_rows import BertRows, to_bert_rows
from data_prep.inspection.parsed_records import Column
from data_prep.inspection.record_faults import find_faults
from keras_bert.tokenization.tokenizer import TokenTable

# A feature with at most so many different numbers is shown by their counts, as labels are.
_MOST_VALUES = 24
_MOST_BARS = 16
# Hashes of texts that are kept: 200 MB.
_MOST_HASHES = 1 << 21


class RecordStatistics:
    """Counts over batches of records that have the same features.

    Args:
        vocabulary: without it, kinds of predicted tokens and unknown tokens are not counted.
    """

    def __init__(self, vocabulary: TokenTable | None = None):
        self.vocabulary = vocabulary
        self.records_by_file: Counter[str] = Counter()
        self.features: dict[str, FeatureStatistics] = {}
        # Description of a fault -> the number of records that have it, and the first of them.
        self.num_faulty: Counter[str] = Counter()
        self.first_faulty: dict[str, str] = {}
        self.num_columns = self.num_tokens = self.num_unknown = self.num_sequences = 0
        self.num_predicted = self.num_masked = self.num_kept = self.num_replaced = 0
        # Number of tokens or predictions in a record, or label -> how often.
        self.lengths: Counter[int] = Counter()
        self.predictions: Counter[int] = Counter()
        self.next_labels: Counter[int] = Counter()
        self.identical_records, self.same_texts = RepetitionCounter(), RepetitionCounter()

    def add(self, columns: Mapping[str, Column], path: str) -> None:
        """Takes the next batch of records of a file."""
        num_records = len(next(iter(columns.values())).lengths)
        for name, column in columns.items():
            self.features.setdefault(name, FeatureStatistics()).add(column)
        rows = to_bert_rows({name: column.values for name, column in columns.items()})
        faults: dict[str, np.ndarray] = {}
        for description, is_wrong in find_faults(columns, rows, self.vocabulary):
            in_record = is_wrong.reshape(num_records, -1).any(axis=1)
            faults[description] = faults.get(description, False) | in_record
        for description, in_record in faults.items():
            if in_record.any():
                number = self.records_by_file[path] + 1 + int(in_record.argmax())
                self.first_faulty.setdefault(description, f"{path}: record {number}")
                self.num_faulty[description] += int(in_record.sum())
        self.records_by_file[path] += num_records
        if rows is not None:
            self._add_rows(rows)
            numbers = [column for column in columns.values() if column.values.dtype != object]
            self.identical_records.add(
                b"|".join(column.values[row, : column.lengths[row]].tobytes() for column in numbers)
                for row in range(num_records)
            )

    def _add_rows(self, rows: BertRows) -> None:
        is_real = rows.input_mask > 0
        self.num_columns += is_real.size
        self.num_tokens += int(is_real.sum())
        self.lengths.update(is_real.sum(axis=1).tolist())
        is_predicted = rows.weights != 0
        self.num_predicted += int(is_predicted.sum())
        self.predictions.update(is_predicted.sum(axis=1).tolist())
        is_predicted &= (rows.positions >= 0) & (rows.positions < is_real.shape[1])
        row, place = np.nonzero(is_predicted)
        column, labels = rows.positions[row, place], rows.labels[row, place]
        found = rows.input_ids[row, column]
        original_ids = rows.input_ids.copy()
        original_ids[row, column] = labels
        if self.vocabulary is not None:
            is_masked, is_kept = found == self.vocabulary.mask_id, found == labels
            self.num_masked += int((is_masked & ~is_kept).sum())
            self.num_kept += int(is_kept.sum())
            self.num_replaced += int((~is_masked & ~is_kept).sum())
            self.num_unknown += int((original_ids[is_real] == self.vocabulary.unk_id).sum())
        # A sequence begins where the row changes, or its number in the mask.
        row_steps = np.diff(np.nonzero(is_real)[0], prepend=-1)
        starts = np.flatnonzero(row_steps | np.diff(rows.input_mask[is_real], prepend=0))
        self.num_sequences += len(starts)
        self.same_texts.add(text.tobytes() for text in np.split(original_ids[is_real], starts)[1:])
        self.next_labels.update(label for label in rows.next_labels[rows.next_weights > 0].tolist() if label in (0, 1))


class FeatureStatistics:
    """What one feature holds: number type, lengths, range, and counts of its numbers where these are few."""

    def __init__(self):
        self.dtype = ""
        self.shortest, self.longest = math.inf, 0
        self.lowest, self.highest = math.inf, -math.inf
        self.counts: Counter[float] | None = Counter()

    def add(self, column: Column) -> None:
        self.shortest = min(self.shortest, int(column.lengths.min()))
        self.longest = max(self.longest, int(column.lengths.max()))
        values = column.values[np.arange(column.values.shape[1]) < column.lengths[:, None]]
        self.dtype = "string" if values.dtype == object else str(values.dtype)
        if self.dtype == "string" or not values.size:
            return
        self.lowest, self.highest = min(self.lowest, values.min().item()), max(self.highest, values.max().item())
        # The first thousand show that ids have too many, at a fraction of the time.
        if self.counts is not None and len(np.unique(values[:1000])) <= _MOST_VALUES:
            numbers, counts = np.unique(values, return_counts=True)
            self.counts.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
            self.counts = self.counts if len(self.counts) <= _MOST_VALUES else None
        else:
            self.counts = None

    def summary(self) -> dict[str, Any]:
        """Returns what was found, ready for JSON. Strings have no range and no counts."""
        result = {"dtype": self.dtype, "length": [self.shortest, self.longest]}
        if self.lowest <= self.highest:
            result["range"] = [self.lowest, self.highest]
        if self.counts:
            result["counts"] = {f"{value:g}": count for value, count in sorted(self.counts.items())}
        return result


class RepetitionCounter:
    """Counts distinct values by 64-bit hashes.

    When there are more than `most_hashes`, only those are kept whose lowest bits are 0: one in 2, 4, 8, ... Every copy
    of a value has the same hash, so the shares among the kept ones are those among all.
    """

    def __init__(self, most_hashes: int = _MOST_HASHES):
        self._most_hashes = most_hashes
        self._sampled_one_in = 1
        self.copies: Counter[int] = Counter()

    def add(self, values: Iterable[bytes]) -> None:
        hashes = (int.from_bytes(hashlib.blake2b(value, digest_size=8).digest()) for value in values)
        self.copies.update(number for number in hashes if number % self._sampled_one_in == 0)
        while len(self.copies) > self._most_hashes:
            self._sampled_one_in *= 2
            kept = {number: count for number, count in self.copies.items() if number % self._sampled_one_in == 0}
            self.copies = Counter(kept)

    def share_repeated(self) -> float:
        """Returns the share of values that came before."""
        return 1 - len(self.copies) / self.copies.total() if self.copies else 0.0


def spread(counts: Mapping[int, int]) -> dict[str, Any]:
    """Returns minimum, median, mean, maximum and a histogram of numbers that are given by their counts.

    >>> spread({0: 1, 3: 2})
    {'min': 0, 'median': 3, 'mean': 2.0, 'max': 3, 'histogram': {'0': 1, '1': 0, '2': 0, '3': 2}}
    """
    low, high = min(counts), max(counts)
    by_number = np.array([counts.get(number, 0) for number in range(low, high + 1)])
    step = -(-len(by_number) // _MOST_BARS)
    histogram = {}
    for start in range(low, high + 1, step):
        end = min(start + step - 1, high)
        name = str(start) if start == end else f"{start}-{end}"
        histogram[name] = int(by_number[start - low : end + 1 - low].sum())
    return {
        "min": low,
        "median": low + int(np.searchsorted(np.cumsum(by_number), by_number.sum() / 2)),
        "mean": float(by_number @ np.arange(low, high + 1) / by_number.sum()),
        "max": high,
        "histogram": histogram,
    }
