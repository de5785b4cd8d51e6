"""Texts with a label, a number or several labels -> batches of records."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from data_prep.finetuning import labelled_text, tables
from data_prep.finetuning.finetuning_task import FinetuningTask, has_labels
from data_prep.finetuning.tables import Column
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.features import Feature
from keras_bert.tasks.classification import examples as classification
from keras_bert.tasks.text_rows import text_rows

# Pairs come first: a table with `sentence1` and `sentence2` may use `text` for something else.
_PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text_a", "text_b"),
    ("text1", "text2"),
)
_TEXTS = ("text", "sentence", "review", "content", "data")
_LABELS = ("label", "labels", "score")


class Classification(FinetuningTask):
    """One label for a text or a pair of texts."""

    task_type = "bert_classification"

    def settle(self) -> None:
        self._find_labels()
        self._ids = {part: self._label_ids(self.examples[part]) for part in self._labelled_parts()}

    def _labels_of(self, examples: classification.TextExamples) -> list[str]:
        return classification.labels_of(examples)

    def _label_ids(self, examples: classification.TextExamples) -> np.ndarray:
        """Returns what records have as `label_ids`, (N, 1) or (N, labels)."""
        return np.array(classification.label_ids(examples, self.labels))[:, None]

    def record(self, part: str) -> list[Feature]:
        return features.classification_features(self.options.max_seq_length)

    def _records(self, part: str, examples: slice, tokenizer, write_line) -> dict[str, np.ndarray]:
        found = self.examples[part]
        second_texts = found.second_texts and found.second_texts[examples]
        length = self.options.max_seq_length
        rows, is_cut, _ = text_rows(found.texts[examples], second_texts, tokenizer, length)
        batch = rows.padded(length)
        num_labels = next(field.length for field in self.record(part) if field.name == features.LABEL_IDS)
        unknown = np.zeros((len(is_cut), num_labels), np.int64)
        batch[features.LABEL_IDS] = self._ids[part][examples] if part in self._ids else unknown
        batch[features.IS_REAL_EXAMPLE] = np.ones((len(is_cut), 1), np.int64)
        self.counts[part]["cut_texts"] += int(is_cut.sum())
        return batch

    def _read(self, part: str, path: str) -> classification.TextExamples:
        left_out = [] if self.glue and part == "train" else None
        reading = {"left_out": left_out, "skip_missing": self.options.skip_missing, **self._columns(part, path)}
        found = self._read_text(path, **reading)
        if left_out:
            self.counts[part]["rows_left_out"] = len(left_out)
            self.notes[part].append(f"{len(left_out)} rows were left out, the first because {left_out[0]}")
        if found.labels and self.glue and self.labels and not self._is_official(path):
            return dataclasses.replace(found, labels=self.glue.official_labels(found.labels))
        return found

    def _read_text(self, path: str, **reading: Any) -> classification.TextExamples:
        return labelled_text.read_labelled_text(path, **reading)

    def _columns(self, part: str, path: str) -> dict[str, Any]:
        """Returns the reader's arguments for the columns of a file."""
        # Every row of a benchmark's test set needs an answer, so none is left out.
        may_be_empty = {"may_be_empty": True} if self.glue and not has_labels(part) else {}
        if self.glue and self._is_official(path):
            return self.glue.columns(part) | may_be_empty
        options = self.options
        text, second_text = options.text_column, options.second_text_column
        label = options.label_columns[0] if len(options.label_columns) == 1 else options.label_columns
        if text is None or not options.label_columns:
            names = tables.column_names(path, has_header=options.has_header)
            if text is None:
                usual = usual_text_columns(names)
                text, second_text = usual if second_text is None else (usual[0], second_text)
            label = label or usual_label_column(names)
        return may_be_empty | {
            "text_column": text,
            "second_text_column": second_text,
            "label_column": self._label_column(label) if has_labels(part) else None,
            "has_header": options.has_header,
        }

    def _is_official(self, path: str) -> bool:
        """Returns whether a file has the columns of the official benchmark, not those of Hugging Face."""
        return not tables.has_named_values(path) and not self.options.text_column

    def _label_column(self, column):
        return self.options.label_column if isinstance(column, tuple) else column  # raises for several columns


class Regression(Classification):
    """A number for a text or a pair of texts."""

    task_type = "bert_regression"

    def _find_labels(self) -> None:
        self.labels = []

    def _label_ids(self, examples: classification.TextExamples) -> np.ndarray:
        return classification.checked_scores(examples.labels, examples.source)[:, None]

    def record(self, part: str) -> list[Feature]:
        return features.regression_features(self.options.max_seq_length)

    def metadata(self) -> dict[str, Any]:
        return {"label_type": "float"}

    def _read_text(self, path: str, **reading: Any) -> classification.TextExamples:
        return labelled_text.read_scored_text(path, **reading)


class MultiLabel(Classification):
    """Any number of labels for a text or a pair of texts."""

    task_type = "multi_label_classification"

    def _find_labels(self) -> None:
        if not self.labels and len(self.options.label_columns) > 1:
            self.labels = [str(column) for column in self.options.label_columns]
        super()._find_labels()
        if len(self.labels) < 2:
            raise InputError(f"There must be two labels or more. Received: {', '.join(self.labels) or 'none'}")

    def _labels_of(self, examples: classification.TextExamples) -> list[str]:
        return classification.in_label_order([label for labels in examples.labels for label in labels])

    def _label_ids(self, examples: classification.TextExamples) -> np.ndarray:
        return classification.multi_hot_labels(examples.labels, self.labels, examples.source)

    def record(self, part: str) -> list[Feature]:
        return features.multi_label_features(self.options.max_seq_length, len(self.labels))

    def _read_text(self, path: str, **reading: Any) -> classification.TextExamples:
        return labelled_text.read_multi_label_text(path, label_separator=self.options.label_separator, **reading)

    def _label_column(self, column):
        return column


def usual_text_columns(names: Iterable[Column]) -> tuple[Column, Column | None]:
    """Returns the columns of the text and of the second text.

    >>> usual_text_columns(["idx", "premise", "hypothesis", "label"]), usual_text_columns(["label", "sentence"])
    (('premise', 'hypothesis'), ('sentence', None))

    Without any of the usual names it returns `text`, which an error message then reports as missing.
    """
    names = set(names)
    for pair in _PAIRS:
        if names.issuperset(pair):
            return pair
    return next((name for name in _TEXTS if name in names), "text"), None


def usual_label_column(names: Iterable[Column]) -> Column:
    """Returns the column of the label, found in the same way."""
    names = set(names)
    return next((name for name in _LABELS if name in names), "label")
