"""Sentences as words with tags -> batches of records."""

from typing import Any

import numpy as np

from data_prep.finetuning.conll import read_tagged_sentences
from data_prep.finetuning.finetuning_task import FinetuningTask, has_labels
from data_prep.text.column_files import COLUMN_SUFFIXES
from data_prep.text.text_lines import JSON_LINES
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.features import Feature
from keras_bert.tasks.tagging import examples as tagging
from keras_bert.tasks.tagging.rows import tagged_rows
from keras_bert.tasks.tagging.tag_schemes import tag_order

# A sentence with more words suggests that blank lines are missing.
_MANY_WORDS = 1000


class Tagging(FinetuningTask):
    """A tag for every word."""

    task_type = "tagging"
    endings = (".conll", ".txt", ".tsv", ".bio", ".iob", *JSON_LINES, *COLUMN_SUFFIXES)

    def settle(self) -> None:
        schemes = {}
        for part in self._labelled_parts():
            self.examples[part], scheme, notes = tagging.in_one_scheme(self.examples[part])
            self.notes[part] += notes
            if scheme is not None:
                schemes.setdefault(scheme.name, part)
        if len(schemes) > 1:
            raise InputError(
                "The files have tags of different schemes: "
                + ", ".join(f"{self.examples[part].source} is {name}" for name, part in schemes.items())
                + ". Convert them to one scheme."
            )
        self._scheme = next(iter(schemes), None)
        self._find_labels()
        self._ids = {part: tagging.tag_ids(self.examples[part], self.labels) for part in self._labelled_parts()}

    def record(self, part: str) -> list[Feature]:
        return features.tagging_features(self.options.max_seq_length)

    def _records(self, part: str, examples: slice, tokenizer, write_line) -> dict[str, np.ndarray]:
        words, tags = self.examples[part].words[examples], self._ids.get(part)
        rows, counts = tagged_rows(
            words, tags and tags[examples], tokenizer, self.options.max_seq_length, examples.start
        )
        self.counts[part] += counts
        return rows.padded(self.options.max_seq_length)

    def metadata(self) -> dict[str, Any]:
        shape = {"label_type": "int", "label_shape": [self.options.max_seq_length]}
        return {**super().metadata(), **shape, "tag_scheme": self._scheme}

    def _labels_of(self, examples: tagging.TaggedSentences) -> list[str]:
        return tag_order(examples.all_tags)

    def _read(self, part: str, path: str) -> tagging.TaggedSentences:
        options = self.options
        found = read_tagged_sentences(
            path,
            text_column=options.text_column,
            label_column=options.label_column if options.label_columns else None,
            has_tags=has_labels(part),
            labels=options.labels,
            skip_missing=options.skip_missing,
        )
        self.notes[part] += found.notes
        longest = max(range(len(found)), key=lambda number: len(found.words[number]))
        if len(found.words[longest]) > _MANY_WORDS:
            self.notes[part].append(
                f"the sentence at {found.place(longest)} has {len(found.words[longest])} words. Is a blank line "
                "missing between sentences?"
            )
        if found.documents and found.documents[-1]:
            self.counts[part]["documents"] = found.documents[-1] + 1
        return found
