"""Texts with a label, a number or several labels -> batches of records."""

import dataclasses
import functools
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

    kind = "classification"
    task_type = "bert_classification"

    def settle(self) -> None:
        for part in self._labelled_parts():
            if part == "train" and not self.labels:
                classification.labels_of(self.examples[part])
        self._find_labels(classification.in_label_order)
        self._ids = {
            part: np.array(classification.label_ids(self.examples[part], self.labels))[:, None]
            for part in self._labelled_parts()
        }

    def record(self, part: str) -> list[Feature]:
        return features.classification_features(self.options.max_seq_length)

    def _records(self, part: str, examples: slice, tokenizer, write_line) -> dict[str, np.ndarray]:
        found = self.examples[part]
        second_texts = found.second_texts and found.second_texts[examples]
        length = self.options.max_seq_length
        rows, is_cut, _ = text_rows(found.texts[examples], second_texts, tokenizer, length)
        batch = rows.padded(length)
        is_labelled = part in self._ids
        num_labels = next(field.length for field in self.record(part) if field.name == features.LABEL_IDS)
        unknown = np.zeros((len(is_cut), num_labels), np.int64)
        batch[features.LABEL_IDS] = self._ids[part][examples] if is_labelled else unknown
        batch[features.IS_REAL_EXAMPLE] = np.ones((len(is_cut), 1), np.int64)
        self.counts[part]["cut_texts"] += int(is_cut.sum())
        return batch

    def _reader(self):
        return labelled_text.read_labelled_text

    def _read(self, part: str, path: str) -> classification.TextExamples:
        left_out = [] if self.glue and part == "train" else None
        found = self._reader()(
            path, left_out=left_out, skip_missing=self.options.skip_missing, **self._columns(part, path)
        )
        if left_out:
            self.counts[part]["rows_left_out"] = len(left_out)
            self.notes[part].append(f"{len(left_out)} rows were left out, the first because {left_out[0]}")
        if found.labels and self.glue and self.labels and not self._is_official(path):
            return dataclasses.replace(found, labels=self.glue.official_labels(found.labels))
        return found

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
            "label_column": self._checked_label_column(label) if has_labels(part) else None,
            "has_header": options.has_header,
        }

    def _is_official(self, path: str) -> bool:
        """Returns whether a file has the columns of the official benchmark, not those of Hugging Face."""
        return not tables.has_named_values(path) and not self.options.text_column

    def _checked_label_column(self, column):
        if isinstance(column, tuple):
            return self.options.label_column  # raises an error for several columns
        return column


class Regression(Classification):
    """A number for a text or a pair of texts."""

    kind = "regression"
    task_type = "bert_regression"

    def settle(self) -> None:
        self.labels = []
        self._ids = {
            part: classification.checked_scores(self.examples[part].labels, self.examples[part].source)[:, None]
            for part in self._labelled_parts()
        }

    def record(self, part: str) -> list[Feature]:
        return features.regression_features(self.options.max_seq_length)

    def metadata(self) -> dict[str, Any]:
        return {"label_type": "float"}

    def _reader(self):
        return labelled_text.read_scored_text


class MultiLabel(Classification):
    """Any number of labels for a text or a pair of texts."""

    kind = "multi_label"
    task_type = "multi_label_classification"

    def settle(self) -> None:
        self._find_labels(classification.in_label_order)
        if len(self.labels) < 2:
            raise InputError(f"There must be two labels or more. Received: {', '.join(self.labels) or 'none'}")
        self._ids = {
            part: classification.multi_hot_labels(self.examples[part].labels, self.labels, self.examples[part].source)
            for part in self._labelled_parts()
        }

    def record(self, part: str) -> list[Feature]:
        return features.multi_label_features(self.options.max_seq_length, len(self.labels))

    def _training_labels(self) -> list[str]:
        if len(self.options.label_columns) > 1:
            return [str(column) for column in self.options.label_columns]
        train = self.examples.get("train")
        return [label for labels in train.labels for label in labels] if train else []

    def _find_labels(self, order) -> None:
        if len(self.options.label_columns) > 1:
            self.labels = self.labels or self._training_labels()
        super()._find_labels(order)

    def _reader(self):
        return functools.partial(labelled_text.read_multi_label_text, label_separator=self.options.label_separator)

    def _checked_label_column(self, column):
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
