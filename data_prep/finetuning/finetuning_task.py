"""The options and the base class of all fine-tuning tasks: from the files of a data set to batches of records."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from data_prep.finetuning.data_folder import TABLE_ENDINGS
from data_prep.finetuning.glue import GlueTask
from data_prep.finetuning.tables import Column
from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, documented, option
from keras_bert.records.features import Feature
from keras_bert.tasks.text_rows import ROWS_AT_ONCE, parts_of

# Batches of records, and the number of examples in each.
Batches = Iterator[tuple[dict[str, np.ndarray], int]]


@documented
@dataclasses.dataclass(frozen=True)
class FinetuningOptions(Options):
    """The user's options, except for files and vocabulary. Columns that are None have the task's default.

    `max_seq_length`: tokens in a record, special tokens included.
    """

    max_seq_length: int = option(128, at_least=3)
    text_column: Column | None = option(
        None,
        "The column of the text: its name, or its number from 0 (default: text, sentence, sentence1, premise or "
        "similar; tagging: 0 or tokens).",
    )
    second_text_column: Column | None = option(
        None, "The column of the second text, for pairs (default: sentence2 or similar)."
    )
    label_columns: tuple[Column, ...] = option(
        (),
        "The column of the label (default: label; tagging: the last, or tags). For multi_label also several columns "
        "of 0 and 1.",
        flag="label_column",
    )
    choice_columns: tuple[Column, ...] = option(
        (), "The columns of the choices, or one column with lists, for multiple_choice."
    )
    label_separator: str = option(",", "The separator of the labels in one column, for multi_label.")
    has_header: bool = option(True, "Whether the first line of .tsv and .csv files names the columns.")
    skip_missing: bool = option(False, "Leave out rows without a text or a label, and say how many.")
    labels: tuple[str, ...] = option((), "The labels in the order of their ids (default: those of train_file, sorted).")
    doc_stride: int = option(128, "Tokens between the starts of two windows of a context.", at_least=1)
    max_query_length: int = option(64, "Longer questions are cut to this many tokens.", at_least=1)
    version_2_with_negative: bool = option(False, "Some questions have no answer, as in SQuAD 2.0.")

    @property
    def label_column(self) -> Column:
        if len(self.label_columns) > 1:
            raise InputError(
                f"This task has one label column. Received: {', '.join(map(str, self.label_columns))}. Use "
                "--task=multi_label for several columns of 0 and 1."
            )
        return self.label_columns[0] if self.label_columns else "label"


class FinetuningTask:
    """One task: reads the files of its parts, determines the labels, then makes records.

    A part is "train", "eval..." (both with labels) or "predict..." (without).
    """

    endings: tuple[str, ...] = TABLE_ENDINGS
    task_type: str  # TF Model Garden's name
    rows_at_once = ROWS_AT_ONCE  # examples in a batch of records

    def __init__(self, options: FinetuningOptions, glue: GlueTask | None = None):
        self.options = options
        self.glue = glue
        self.examples: dict[str, Any] = {}  # part -> an object with a length
        self.counts: dict[str, Counter] = {}  # part -> the counts of events that the user should know
        self.notes: dict[str, list[str]] = {}  # part -> sentences about the files that were read
        # In the order of their ids; known after `settle`.
        self.labels: list[str] = list(options.labels or (glue.labels if glue else ()))

    def read(self, part: str, path: str) -> None:
        """Reads the file of a part. Raises `InputError`."""
        self.counts[part], self.notes[part] = Counter(), []
        self.examples[part] = self._read(part, path)

    def settle(self) -> None:
        """Determines labels that were not given, and checks the labels of all parts. Raises `InputError`."""

    def record(self, part: str) -> list[Feature]:
        raise NotImplementedError

    def batches(self, part: str, tokenizer, write_line: Callable[[bytes], Any] | None) -> Batches:
        """Yields batches of records and the number of examples in each; `write_line` is for the side file, if any."""
        for examples in parts_of(len(self.examples[part]), self._rows_per_example(), self.rows_at_once):
            yield self._records(part, examples, tokenizer, write_line), examples.stop - examples.start

    def _records(self, part: str, examples: slice, tokenizer, write_line) -> dict[str, np.ndarray]:
        """Returns the records of some examples of a part, in the form of a batch."""
        raise NotImplementedError

    def _rows_per_example(self) -> int:
        return 1

    def has_side_file(self, part: str) -> bool:
        return False

    def metadata(self) -> dict[str, Any]:
        """Returns the entries of the metadata for this task, TF Model Garden's and those that this project adds."""
        return {"num_labels": len(self.labels), "label_list": self.labels}

    def _read(self, part: str, path: str):
        raise NotImplementedError

    def _labelled_parts(self) -> list[str]:
        return [part for part in self.examples if has_labels(part)]

    def _find_labels(self) -> None:
        """Sets `labels` to those of the training part, unless they were given."""
        if self.labels:
            return
        if "train" in self.examples:
            self.labels = self._labels_of(self.examples["train"])
        elif self._labelled_parts():
            raise InputError(
                "Without a training file, the labels and their order are unknown. Give them, as "
                "--labels=first,second,..."
            )

    def _labels_of(self, examples: Any) -> list[str]:
        """Returns the labels of training examples, in the order of their ids."""
        raise NotImplementedError


def has_labels(part: str) -> bool:
    return not part.startswith("predict")
