"""Statistics of records of any tool, taken in one pass and in bounded memory, and what in them is suspicious."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from data_prep.inspection.bert_features import OTHER_NAMES, BertRows, to_bert_rows
from data_prep.inspection.parsed_records import Column, ParsedBatch
from data_prep.inspection.repeated_texts import RepetitionCounter
from keras_bert.records import features
from keras_bert.records.values import find_wrong_types, find_wrong_values, value_ranges
from keras_bert.tokenization.tokenizer import TokenTable

# Ids above this are counted, but not each by itself; no BERT vocabulary has a tenth of it.
_MOST_IDS = 1 << 21
_TOKEN_FEATURES = [feature.name for feature in features.token_features(1)]
# A feature with at most so many different numbers is shown by their counts, as labels are.
_MOST_VALUES = 24


class Histogram:
    """Counts of numbers from 0 on."""

    def __init__(self):
        self.counts = np.zeros(0, np.int64)

    def add(self, numbers: np.ndarray) -> None:
        self.add_counts(np.bincount(numbers.ravel(), minlength=len(self.counts)))

    def add_counts(self, counts: np.ndarray) -> None:
        if len(counts) > len(self.counts):
            self.counts = np.pad(self.counts, (0, len(counts) - len(self.counts)))
        self.counts[: len(counts)] += counts

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @property
    def sum(self) -> int:
        return int(self.counts @ np.arange(len(self.counts)))

    def percentile(self, share: float) -> int:
        """The smallest number that has at least this share of all at or below it."""
        return int(np.searchsorted(np.cumsum(self.counts), share * self.total))

    def summary(self) -> dict[str, float]:
        """Returns minimum, 5 %, median, mean, 95 % and maximum; empty when nothing was counted."""
        if not self.total:
            return {}
        found = np.flatnonzero(self.counts)
        return {
            "min": int(found[0]),
            "percentile_5": self.percentile(0.05),
            "median": self.percentile(0.5),
            "mean": self.sum / self.total,
            "percentile_95": self.percentile(0.95),
            "max": int(found[-1]),
        }


@dataclasses.dataclass
class FeatureSummary:
    """What one feature holds: number type, lengths, and range and counts of its numbers."""

    dtype: str
    shortest: int
    longest: int
    lowest: float | None = None
    highest: float | None = None
    counts: dict[float, int] | None = dataclasses.field(default_factory=dict)

    def add(self, column: Column) -> None:
        self.shortest = min(self.shortest, int(column.lengths.min()))
        self.longest = max(self.longest, int(column.lengths.max()))
        values = column.values
        if values.dtype == object or not values.size:
            return
        values = values[np.arange(values.shape[1]) < column.lengths[:, None]]
        if not values.size:
            return
        lowest, highest = values.min().item(), values.max().item()
        self.lowest = lowest if self.lowest is None else min(self.lowest, lowest)
        self.highest = highest if self.highest is None else max(self.highest, highest)
        if self.counts is not None:
            self._count(values)

    def _count(self, values: np.ndarray) -> None:
        # The sample settles it for ids at a fraction of the time.
        if len(np.unique(values.ravel()[:1000])) <= _MOST_VALUES:
            for value, count in zip(*np.unique(values, return_counts=True), strict=True):
                self.counts[value.item()] = self.counts.get(value.item(), 0) + int(count)
            if len(self.counts) <= _MOST_VALUES:
                return
        self.counts = None


@dataclasses.dataclass
class Finding:
    """Something suspicious: in how many records, and where first."""

    num_records: int
    first: str


class RecordStatistics:
    """Counts over batches of records that have the same features.

    Args:
        vocabulary: tells special tokens, word pieces and [MASK]; without it these are left out or guessed.
    """

    def __init__(self, vocabulary: TokenTable | None = None):
        self.vocabulary = vocabulary
        self.num_records = self.num_files = self.num_bytes = 0
        self.features: dict[str, FeatureSummary] = {}
        self.findings: dict[str, Finding] = {}
        self.num_columns = 0
        self.lengths, self.sequence_lengths, self.sequences_per_row = Histogram(), Histogram(), Histogram()
        self.tokens, self.tokens_at, self.num_large_ids = Histogram(), Histogram(), 0
        self.predictions, self.predicted_at = Histogram(), Histogram()
        self.num_kept, self.replaced_by = 0, Histogram()
        self.num_words_touched = self.num_words_whole = 0
        self.next_labels = Histogram()
        self.texts, self.records = RepetitionCounter(), RepetitionCounter()
        if vocabulary is not None:
            self._special = np.ones(len(vocabulary), bool)
            self._special[vocabulary.text_ids()] = False
            self._never_predicted = np.zeros(len(vocabulary), bool)
            self._never_predicted[[vocabulary.pad_id, vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id]] = True
            self._continues = np.array([vocabulary.continues_word(token) for token in vocabulary.tokens])

    @property
    def num_tokens(self) -> int:
        return self.lengths.sum

    @property
    def num_predicted(self) -> int:
        return self.predictions.sum

    @property
    def mask_id(self) -> int | None:
        """The id of [MASK]; without a vocabulary, the id at most of the changed positions."""
        if self.vocabulary is not None:
            return self.vocabulary.mask_id
        changed = self.replaced_by.total
        most = int(self.replaced_by.counts.argmax()) if changed else 0
        return most if changed and self.replaced_by.counts[most] > changed / 2 else None

    @property
    def num_masked(self) -> int:
        """Predicted positions that hold [MASK]."""
        mask_id = self.mask_id
        return 0 if mask_id is None else int(self.replaced_by.counts[mask_id : mask_id + 1].sum())

    @property
    def num_replaced(self) -> int:
        """Predicted positions that hold another token."""
        return self.replaced_by.total - self.num_masked

    @property
    def num_special_replacements(self) -> int:
        """Replaced tokens that became [PAD], [unused1] and the like; 0 without a vocabulary."""
        if self.vocabulary is None:
            return 0
        counts = self.replaced_by.counts[: len(self.vocabulary)]
        return int(counts[self._special[: len(counts)]].sum()) - self.num_masked

    def add(self, batch: ParsedBatch, path: str, first_number: int) -> None:
        """Takes a batch of records.

        Args:
            path, first_number: where they come from, for the findings; the first of a file is record 1.
        """
        num_records, columns = batch.num_records, batch.columns
        self.num_records += num_records
        self.num_bytes += batch.num_bytes
        for name, column in columns.items():
            if name not in self.features:
                dtype = "string" if column.values.dtype == object else str(column.values.dtype)
                length = int(column.lengths[0])
                self.features[name] = FeatureSummary(dtype, length, length)
            self.features[name].add(column)

        def found(name: str, is_found: np.ndarray) -> None:
            """Takes bool (B, ...): the records in which something suspicious is found."""
            wrong = is_found.reshape(num_records, -1).any(axis=1)
            if wrong.any():
                first = f"{path}: record {first_number + int(wrong.argmax())}"
                finding = self.findings.setdefault(name, Finding(0, first))
                finding.num_records += int(wrong.sum())

        self._add_values(columns, found)
        rows = to_bert_rows(columns)
        if rows is None:
            return
        real = rows.input_mask > 0
        self._add_lengths(rows, real, found)
        originals, predicted = self._add_predictions(rows, real, found)
        self._add_tokens(originals, real, found)
        self._add_sequences(rows, originals, real, predicted)
        if rows.next_labels is not None:
            self._add_next_sentences(rows, real, found)
        numbers = [column for column in columns.values() if column.values.dtype != object]
        self.records.add(
            b"|".join(column.values[row, : column.lengths[row]].tobytes() for column in numbers)
            for row in range(num_records)
        )

    def _add_values(self, columns: Mapping[str, Column], found) -> None:
        """Finds numbers that training would refuse, at padding and at unused predictions too."""
        arrays = {OTHER_NAMES.get(name, name): column.values for name, column in columns.items()}
        for name, finding in find_wrong_types(arrays):
            found(finding, np.ones(len(arrays[name]), bool))
            if arrays[name].dtype != object:
                found(f"{name} is infinite or NaN", ~np.isfinite(arrays[name]))
        num_columns = max((arrays[name].shape[1] for name in _TOKEN_FEATURES if name in arrays), default=0)
        num_tokens = None if self.vocabulary is None else len(self.vocabulary)
        wrong: dict[str, np.ndarray] = {}
        for one, is_wrong in find_wrong_values(arrays, value_ranges(num_columns, num_tokens, num_segments=2)):
            in_records = is_wrong.any(axis=1)
            wrong[one.finding] = wrong.get(one.finding, False) | in_records
        for finding, in_records in wrong.items():
            found(finding, in_records)

    def _add_lengths(self, rows: BertRows, real: np.ndarray, found) -> None:
        self.num_columns += real.size
        self.lengths.add(real.sum(axis=1))
        self.tokens_at.add_counts(real.sum(axis=0))
        found("there is no token at all", ~real.any(axis=1))
        # Sequences are numbered upwards, and padding lies before or behind them.
        steps = np.diff(rows.input_mask, axis=1)
        padding_ends = (rows.input_mask[:, :-1] == 0) & (rows.input_mask[:, 1:] > 0)
        has_begun = np.logical_or.accumulate(real, axis=1)[:, :-1]
        found("input_mask has padding between tokens", padding_ends & has_begun)
        disorder = ((steps < 0) & real[:, 1:]) | ((steps > 1) & has_begun)
        found("input_mask does not number its sequences 1, 2, 3, ...", disorder)

    def _add_predictions(self, rows: BertRows, real: np.ndarray, found) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids with the predicted tokens put back, and where they were predicted: (B, S) both."""
        predicted = np.zeros_like(real)
        if rows.positions is None:
            return rows.input_ids, predicted
        is_predicted = rows.weights != 0
        inside = is_predicted & (rows.positions >= 0) & (rows.positions < real.shape[1])
        found("nothing is to be predicted", ~is_predicted.any(axis=1))
        found("masked_lm_weights has a 0 before a 1", np.diff(is_predicted.astype(np.int8), axis=1) > 0)
        found("masked_lm_weights are neither 0 nor 1", is_predicted & (rows.weights != 1))
        row, place = np.nonzero(inside)
        column, labels = rows.positions[row, place], rows.labels[row, place]
        found("a predicted position is padding", _scatter(inside, row, place, ~real[row, column]))
        times = np.zeros(real.shape, np.int16)
        np.add.at(times, (row, column), 1)
        found("a position is predicted twice", times > 1)
        predicted = times > 0
        originals = rows.input_ids.copy()
        originals[row, column] = labels
        standing = rows.input_ids[row, column]
        self.num_kept += int((standing == labels).sum())
        self.replaced_by.add(_countable(standing[standing != labels]))
        self.predictions.add(is_predicted.sum(axis=1))
        self.predicted_at.add_counts(predicted.sum(axis=0))
        if self.vocabulary is not None:
            strange = self._lookup(self._never_predicted, labels)
            found("a special token is to be predicted", _scatter(inside, row, place, strange))
            stray = (rows.input_ids == self.vocabulary.mask_id) & real & ~predicted
            found(f"a {self.vocabulary.special_tokens.mask} is not to be predicted", stray)
        return originals, predicted

    def _add_tokens(self, originals: np.ndarray, real: np.ndarray, found) -> None:
        ids = originals[real]
        self.num_large_ids += int((ids >= _MOST_IDS).sum())
        self.tokens.add(_countable(ids))
        if self.vocabulary is not None:
            first = np.take_along_axis(originals, real.argmax(axis=1)[:, None], axis=1)
            found(
                f"the first token is not {self.vocabulary.special_tokens.cls}",
                (first != self.vocabulary.cls_id) & real.any(axis=1)[:, None],
            )

    def _add_next_sentences(self, rows: BertRows, real: np.ndarray, found) -> None:
        counts = rows.next_weights > 0
        labels = rows.next_labels[counts]
        self.next_labels.add(labels[(labels == 0) | (labels == 1)])
        if rows.cls_positions is not None:
            is_start = real & (np.diff(rows.input_mask, axis=1, prepend=0) != 0)
            inside = np.clip(rows.cls_positions, 0, real.shape[1] - 1)
            right = (inside == rows.cls_positions) & np.take_along_axis(is_start, inside, axis=1)
            found("cls_positions are not where sequences begin", counts & ~right)

    def _add_sequences(self, rows: BertRows, originals: np.ndarray, real: np.ndarray, predicted: np.ndarray) -> None:
        """Takes the sequences one behind the other, as one long row of N tokens."""
        row = np.nonzero(real)[0]
        ids, numbers, is_predicted = originals[real], rows.input_mask[real], predicted[real]
        is_start = np.ones(len(ids), bool)
        is_start[1:] = (np.diff(row) != 0) | (np.diff(numbers) != 0)
        starts = np.flatnonzero(is_start)
        self.sequence_lengths.add(np.diff(np.append(starts, len(ids))))
        self.sequences_per_row.add(np.bincount(row[starts], minlength=len(real)))
        ends = np.append(starts, len(ids))[1:]
        self.texts.add(ids[start:end].tobytes() for start, end in zip(starts, ends, strict=True))
        if self.vocabulary is None or not len(ids):
            return
        special = self._lookup(self._special, ids)
        begins_word = ~self._lookup(self._continues, ids) | is_start
        begins_word[1:] |= special[:-1]  # a piece behind [CLS] or [SEP] is the rest of a word that was cut
        word = np.cumsum(begins_word) - 1
        sizes = np.bincount(word)
        num_predicted = np.bincount(word, is_predicted)
        touched = (sizes > 1) & (num_predicted > 0)
        self.num_words_touched += int(touched.sum())
        self.num_words_whole += int((touched & (num_predicted == sizes)).sum())

    def _lookup(self, table: np.ndarray, ids: np.ndarray) -> np.ndarray:
        known = (ids >= 0) & (ids < len(table))
        return table[np.where(known, ids, 0)] & known


def _countable(ids: np.ndarray) -> np.ndarray:
    return ids[(ids >= 0) & (ids < _MOST_IDS)]


def _scatter(like: np.ndarray, row: np.ndarray, place: np.ndarray, values: np.ndarray) -> np.ndarray:
    result = np.zeros(like.shape, bool)
    result[row, place] = values
    return result
