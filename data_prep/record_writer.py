"""Writing records: TFRecord files that appear whole or not at all, and a manifest that says what is in them."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert import features
from keras_bert.atomic_output import atomic_file

FORMAT = "keras_bert pre-training records 1"
MANIFEST_NAME = "manifest.json"


@dataclasses.dataclass(frozen=True)
class RecordCounts:
    """What a number of pre-training records hold; counts of several files add up with `+`.

    `num_positions` counts columns, `num_tokens` those that are not padding (special tokens included), `num_predicted`
    the masked-language-model targets.
    """

    num_examples: int = 0
    num_random_next: int = 0
    num_positions: int = 0
    num_tokens: int = 0
    num_predicted: int = 0

    def __add__(self, other: "RecordCounts") -> "RecordCounts":
        mine, others = dataclasses.astuple(self), dataclasses.astuple(other)
        return RecordCounts(*(a + b for a, b in zip(mine, others, strict=True)))

    @classmethod
    def of_batch(cls, batch: dict[str, np.ndarray]) -> "RecordCounts":
        """Counts a batch: feature name -> array (batch, length). Fine-tuning records predict nothing."""
        return cls(
            num_examples=len(batch[features.INPUT_IDS]),
            num_random_next=int(np.sum(batch.get(features.NEXT_SENTENCE_LABELS, 0))),
            num_positions=batch[features.INPUT_MASK].size,
            num_tokens=int((batch[features.INPUT_MASK] > 0).sum()),
            num_predicted=int(np.count_nonzero(batch.get(features.MASKED_LM_WEIGHTS, 0))),
        )


@dataclasses.dataclass(frozen=True)
class PretrainingDataSummary:
    """What was made: the files, the counts of the corpus (its manifest) and the counts of the records."""

    files: list[str]
    corpus: dict[str, Any]
    records: RecordCounts

    def __str__(self) -> str:
        corpus, records = self.corpus, self.records
        unknown = corpus["num_unknown_tokens"] / corpus["num_tokens"]
        return "\n".join(
            [
                f"documents       {corpus['num_documents']:>15,}",
                f"sentences       {corpus['num_sentences']:>15,}",
                f"tokens          {corpus['num_tokens']:>15,}   {unknown:.2%} of them [UNK]",
                f"examples        {records.num_examples:>15,}   in {len(self.files)} file(s)",
                f"random next     {records.num_random_next / records.num_examples:>15.2%}   of the examples",
                f"to predict      {records.num_predicted / records.num_tokens:>15.2%}   of the tokens in the records",
                f"padding         {1 - records.num_tokens / records.num_positions:>15.2%}   of the columns",
            ]
        )


def write_records(
    path: str | os.PathLike,
    batches: Iterable[tuple[dict[str, np.ndarray], float]],
    record: Sequence[features.Feature],
    on_batch: Callable[[int, float], None] | None = None,
) -> RecordCounts:
    """Writes one TFRecord file from batches of examples; it takes its name when all of it is on disk.

    Args:
        batches: feature name -> array (batch, length), and the share of the file that the batch is.
        on_batch: called after each batch with its number of examples and its share.

    Raises:
        InputError: the place cannot be written to, or no space is left.
    """
    import tensorflow as tf

    counts = RecordCounts()
    with atomic_file(path) as file, tf.io.TFRecordWriter(file.name) as writer:
        for batch, share in batches:
            for row in range(len(batch[features.INPUT_IDS])):
                writer.write(features.serialize({name: values[row] for name, values in batch.items()}, record))
            counts += RecordCounts.of_batch(batch)
            if on_batch:
                on_batch(len(batch[features.INPUT_IDS]), share)
    return counts


def write_manifest(
    path: str | os.PathLike,
    summary: PretrainingDataSummary,
    counts: Sequence[RecordCounts],
    options: Mapping[str, Any],
) -> None:
    """Writes what was made, from what and how, with the hash and the counts of each file, as JSON."""
    files = [
        {"name": os.path.basename(file), "sha256": _sha256(file), **dataclasses.asdict(count)}
        for file, count in zip(summary.files, counts, strict=True)
    ]
    manifest = {
        "format": FORMAT,
        "options": dict(options),
        "corpus": summary.corpus,
        "records": dataclasses.asdict(summary.records),
        "files": files,
    }
    with atomic_file(path) as file:
        file.write((json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode())


def _sha256(path: str | os.PathLike) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
