"""Counts of what all records hold, taken in one pass and in bounded memory."""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from data_prep.inspection.record_text import BertRows, to_bert_rows
from keras_bert.program.errors import InputError
from keras_bert.program.record_files import iterate_records
from keras_bert.records.features import numbers_in_record
from keras_bert.tokenization.tokenizer import TokenTable

_BATCH_SIZE = 512
# A feature with at most this many different numbers is shown by their counts, as labels are.
_MOST_VALUES = 24


class RecordCounts:
    """Counts over records of any features.

    Without a vocabulary, kinds of predicted tokens and unknown tokens are not counted. `lengths` and `predictions` are
    the number of tokens, or of predicted tokens, in a record -> number of records; `predicted_tokens` what stands at
    their positions; `next_labels` are without those that do not count; `features` are by name and type. A packed row
    has several sequences.
    """

    def __init__(self, vocabulary: TokenTable | None = None):
        self.vocabulary = vocabulary
        self.num_records = self.num_columns = self.num_tokens = self.num_sequences = self.num_unknown = 0
        self.lengths: Counter[int] = Counter()
        self.predictions: Counter[int] = Counter()
        self.predicted_tokens: Counter[str] = Counter()
        self.next_labels: Counter[int] = Counter()
        self.features: dict[tuple[str, str], FeatureCounts] = {}

    def read(
        self, path: str, most: int | None = None, on_progress: Callable[[int], None] = lambda num_bytes: None
    ) -> None:
        """Counts the first `most` records of a file (all when None).

        Raises `InputError` if a record is damaged or is no `tf.train.Example`. All records before it are counted.
        """
        batch: list[dict[str, np.ndarray]] = []
        try:
            records = itertools.islice(iterate_records(path, on_progress=on_progress), most)
            for number, record in enumerate(records, start=1):
                try:
                    lists = numbers_in_record(record)
                except InputError:
                    raise InputError(f"{path}: record {number} is not a tf.train.Example message.") from None
                if len(batch) == _BATCH_SIZE or (batch and _form(lists) != _form(batch[0])):
                    self._add(batch)
                    batch = []
                batch.append(lists)
        finally:
            self._add(batch)

    def _add(self, batch: list[dict[str, np.ndarray]]) -> None:
        """Counts records with the same features, types and lengths."""
        self.num_records += len(batch)
        arrays = {name: np.stack([lists[name] for lists in batch]) for name in (batch[0] if batch else ())}
        for name, values in arrays.items():
            kind = "string" if values.dtype == object else str(values.dtype)
            self.features.setdefault((name, kind), FeatureCounts()).add(values)
        rows = to_bert_rows(arrays)
        if rows is not None:
            self._add_rows(rows)

    def _add_rows(self, rows: BertRows) -> None:
        is_real, is_predicted = rows.input_mask > 0, rows.weights != 0
        self.num_columns += is_real.size
        self.num_tokens += int(is_real.sum())
        self.lengths.update(is_real.sum(axis=1).tolist())
        # A sequence begins where its number in the mask differs from the column before.
        self.num_sequences += int((is_real & (np.diff(rows.input_mask, axis=1, prepend=0) != 0)).sum())
        if rows.positions.shape[1]:
            self.predictions.update(is_predicted.sum(axis=1).tolist())
        self.next_labels.update(rows.next_labels[rows.next_weights > 0].tolist())
        if self.vocabulary is None:
            return
        is_predicted &= (rows.positions >= 0) & (rows.positions < is_real.shape[1])
        row, place = np.nonzero(is_predicted)
        found, labels = rows.input_ids[row, rows.positions[row, place]], rows.labels[row, place]
        original_ids = rows.input_ids.copy()
        original_ids[row, rows.positions[row, place]] = labels
        self.num_unknown += int((original_ids[is_real] == self.vocabulary.unk_id).sum())
        is_kept = found == labels
        is_masked = (found == self.vocabulary.mask_id) & ~is_kept
        self.predicted_tokens["[MASK]"] += int(is_masked.sum())
        self.predicted_tokens["the token itself"] += int(is_kept.sum())
        self.predicted_tokens["another token"] += int((~is_masked & ~is_kept).sum())

    def text(self) -> str:
        """Returns the counts as the page that the command prints."""
        lines = [f"{self.num_records:,} records", "", *self._feature_table()]
        if self.num_tokens:
            padding = 1 - self.num_tokens / self.num_columns
            lines += ["", f"tokens                {self.num_tokens:,}, {_spread(self.lengths)} in a record"]
            lines.append(f"padding               {padding:.2%} of the columns")
            if self.num_sequences > self.num_records:
                lines.append(f"sequences             {self.num_sequences / self.num_records:.2f} in a record")
            if self.vocabulary is not None:
                lines.append(f"unknown tokens        {self.num_unknown / self.num_tokens:.2%}")
        if self.num_tokens and self.predictions:
            num_predicted = sum(number * count for number, count in self.predictions.items())
            share = num_predicted / self.num_tokens
            lines.append(f"tokens to predict     {share:.2%} of all, {_spread(self.predictions)} in a record")
        if self.predicted_tokens.total():
            lines.append(f"at their positions    {_shares(self.predicted_tokens)}")
        if self.next_labels:
            meaning = "(1: the second segment does not follow the first)"
            lines.append(f"next_sentence_labels  {_shares(dict(sorted(self.next_labels.items())))}   {meaning}")
        return "\n".join(lines)

    def _feature_table(self) -> list[str]:
        width = max((len(name) for name, _ in self.features), default=0)
        lines = [f"  {'feature':{width}}  {'type':7}  {'length':>9}  values"]
        for (name, kind), feature in sorted(self.features.items()):
            shortest, longest = min(feature.lengths), max(feature.lengths)
            length = str(longest) if shortest == longest else f"{shortest}-{longest}"
            lines.append(f"  {name:{width}}  {kind:7}  {length:>9}  {feature.text()}".rstrip())
        return lines


class FeatureCounts:
    """Lengths and range of one feature, and the counts of its numbers where these are few; strings have lengths only.

    `range` is the lowest and the highest number; `counts` is None when there are more than 24 different ones.
    """

    def __init__(self):
        self.lengths: Counter[int] = Counter()
        self.range: tuple[float, float] | None = None
        self.counts: Counter[float] | None = Counter()

    def add(self, values: np.ndarray) -> None:
        """Counts a list for each record, (B, length)."""
        self.lengths[values.shape[1]] += len(values)
        if values.dtype == object or not values.size:
            return
        ends = (values.min().item(), values.max().item(), *(self.range or ()))
        self.range = min(ends), max(ends)
        if self.counts is not None:
            numbers, counts = np.unique(values, return_counts=True)
            self.counts.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
            self.counts = self.counts if len(self.counts) <= _MOST_VALUES else None

    def text(self) -> str:
        """Returns the shares of the numbers, or else their range."""
        if self.counts:
            return _shares({f"{value:g}": count for value, count in sorted(self.counts.items())})
        if self.range is None:
            return ""
        return " to ".join(f"{end:,}" if isinstance(end, int) else f"{end:g}" for end in self.range)


def _form(lists: Mapping[str, np.ndarray]) -> dict[str, tuple]:
    return {name: (values.dtype, len(values)) for name, values in lists.items()}


def _spread(counts: Mapping[int, int]) -> str:
    mean = sum(number * count for number, count in counts.items()) / sum(counts.values())
    return f"{min(counts)} to {max(counts)}, mean {mean:.1f}"


def _shares(counts: Mapping) -> str:
    return "   ".join(f"{name}: {count / sum(counts.values()):.2%}" for name, count in counts.items())
