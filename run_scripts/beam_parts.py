"""Writes the parts of a table with Apache Beam: the work of `table_answers.py` on many machines.

One worker reads the table, and any worker answers a part and writes it. The folder of the parts, the files of the table
and the model are at the same paths on all machines.
"""

import itertools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.utils.shared import Shared

import keras_bert
from keras_bert.program.errors import InputError
from keras_bert.program.quiet_tensorflow import quiet_tensorflow
from keras_bert.serving.answer_batches import answer_facts
from keras_bert.serving.beam import check_version


def add_parts(pipeline: beam.Pipeline, work: Any, numbers: Sequence[int], facts: Mapping[bytes, str]) -> None:
    """Adds the steps that write the parts with these numbers. `facts` are those of the model of this process."""
    _ = (
        pipeline
        | "Table" >> beam.Create([work])
        | "ReadParts" >> beam.FlatMap(read_parts, frozenset(numbers))
        | "SpreadParts" >> beam.Reshuffle()
        | "WritePart" >> beam.ParDo(WritePart(work, facts))
    )


def read_parts(work: Any, numbers: Collection[int]) -> Iterator[tuple[int, list[Any]]]:
    """Yields each part with its number, as record batches of texts."""
    for number, group in itertools.groupby(work.numbered_batches(numbers), lambda pair: pair[0]):
        yield number, [batch for _, batch in group]


class WritePart(beam.DoFn):
    """Answers the texts of a part and writes it, unless an earlier attempt of the same bundle has."""

    def __init__(self, work: Any, facts: Mapping[bytes, str]):
        self._work, self._facts, self._version, self._shared = work, dict(facts), keras_bert.__version__, Shared()

    def setup(self):
        check_version(self._version)
        self._model = self._shared.acquire(self._load)  # one for all threads of a process

    def _load(self) -> Any:
        quiet_tensorflow()
        work, model = self._work, self._work.model()
        if answer_facts(model, work.role, **work.options) != self._facts:
            raise InputError(f"The model at {work.path} on a worker is not the one here. Give all the same folder.")
        return model

    def process(self, element: tuple[int, list[Any]]) -> None:
        number, batches = element
        if not os.path.exists(self._work.parts.path(number)):
            rows = Metrics.counter("keras_bert", "num_rows")
            self._work.write_batches(self._model, ((number, batch) for batch in batches), rows.inc)
