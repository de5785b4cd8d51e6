"""Prompts with choices -> batches of records."""

from typing import Any

import numpy as np

from data_prep.finetuning.finetuning_task import FinetuningOptions, FinetuningTask, has_labels
from data_prep.finetuning.glue import GlueTask
from data_prep.finetuning.labelled_text import read_choices
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.features import Feature
from keras_bert.tasks.multiple_choice import examples as multiple_choice
from keras_bert.tasks.multiple_choice.examples import choice_rows


class MultipleChoice(FinetuningTask):
    """The right one of several choices."""

    task_type = "multiple_choice"

    def __init__(self, options: FinetuningOptions, glue: GlueTask | None = None):
        super().__init__(options, glue)
        self._labels_of_parts: dict[str, list[str]] = {}

    def settle(self) -> None:
        first = next(iter(self.examples.values()))
        self._num_choices = first.num_choices
        labels = self._labels_of_parts.get("train", [])
        self.labels = self.labels or multiple_choice.choice_names(labels, self._num_choices)
        if len(self.labels) != self._num_choices:
            raise InputError(
                f"There must be a label for each of the {self._num_choices} choices. Received: {', '.join(self.labels)}"
            )
        for examples in self.examples.values():
            if examples.num_choices != self._num_choices:
                raise InputError(
                    f"{examples.source} has {examples.num_choices} choices, but {self._num_choices} are expected, as "
                    f"in {first.source}"
                )
        self._answers = {
            part: multiple_choice.right_choices(labels, self.labels, self.examples[part].source)
            for part, labels in self._labels_of_parts.items()
        }

    def record(self, part: str) -> list[Feature]:
        return features.multiple_choice_features(self.options.max_seq_length, self._num_choices)

    def _rows_per_example(self) -> int:
        return self._num_choices

    def _records(self, part: str, examples: slice, tokenizer, write_line) -> dict[str, np.ndarray]:
        found = self.examples[part]
        length = self.options.max_seq_length
        rows, is_cut = choice_rows(found.prompts[examples], found.choices[examples], tokenizer, length)
        answers = self._answers[part][examples] if part in self._answers else [0] * len(is_cut)
        batch = {name: values.reshape(len(is_cut), -1) for name, values in rows.padded(length).items()}
        batch[features.LABEL_IDS] = np.array(answers, np.int64)[:, None]
        batch[features.IS_REAL_EXAMPLE] = np.ones((len(is_cut), 1), np.int64)
        self.counts[part]["cut_texts"] += int(is_cut.sum())
        return batch

    def metadata(self) -> dict[str, Any]:
        return {**super().metadata(), "num_choices": self._num_choices}

    def _read(self, part: str, path: str) -> multiple_choice.ChoiceExamples:
        if not self.options.choice_columns:
            raise InputError(
                "Name the columns of the choices: --choice_columns=first,second,..., or one column with lists."
            )
        prompts, choices, labels = read_choices(
            path,
            text_column=self.options.text_column or "text",
            choice_columns=self.options.choice_columns,
            label_column=self.options.label_column if has_labels(part) else None,
            has_header=self.options.has_header,
            skip_missing=self.options.skip_missing,
        )
        if labels is not None:
            self._labels_of_parts[part] = labels
        return multiple_choice.ChoiceExamples(prompts, choices, source=path)
