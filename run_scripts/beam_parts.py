"""Writes the parts of a table with Apache Beam: the work of `predict_table.py` on many machines.

One worker reads the table; any worker answers the texts of a part and writes it. The table, the folder of the parts and
the model have the same paths on all machines.
"""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.utils.shared import Shared

import keras_bert
from data_prep.pretraining.beam_runner import wait_for
from keras_bert.program.errors import InputError
from keras_bert.program.long_work import long_work
from keras_bert.program.quiet_tensorflow import quiet_tensorflow
from keras_bert.serving.answer_batches import answer_facts
from keras_bert.serving.beam import check_version
from run_scripts.predict_table import has_token_vectors


def write_parts(pipeline: beam.Pipeline, work: Any, numbers: Sequence[int], model: Any) -> None:
    """Writes the parts with these numbers, and waits for the end.

    `work` is a `TableWork` and `model` its model. Beam reads annotations, and that class may be one of `__main__`.
    Raises `InputError` as `TableWork.write`, or if the pipeline ended early, or a worker has another model or another
    version of this package.
    """
    if work.runtime is not None:  # "auto" may be another on a worker
        work = dataclasses.replace(work, runtime={**work.runtime, "runtime": model.runtime.name})
    facts = answer_facts(model, work.role, **work.options)
    _ = (
        pipeline
        | "OneWorker" >> beam.Create([has_token_vectors(model)])
        | "ReadParts" >> beam.FlatMap(read_parts, work, numbers)
        | "SpreadParts" >> beam.Reshuffle()
        | "WriteParts" >> beam.ParDo(WritePart(work, facts))
    )
    with long_work(f"writing {len(numbers):,} parts with Beam"):
        state = wait_for(pipeline)
    if missing := [number for number in numbers if not os.path.exists(work.parts.path(number))]:
        raise InputError(f"The pipeline ended as {state} without {len(missing):,} parts. Run the command again.")


def read_parts(has_token_vectors: bool, work: Any, numbers: Sequence[int]) -> Iterator[tuple[int, list[Any]]]:
    """Yields each part with its number, as record batches of texts."""
    for number, group in itertools.groupby(work.texts(numbers, has_token_vectors), lambda part: part[0]):
        yield number, [batch for _, batch in group]


class WritePart(beam.DoFn):
    """Answers the texts of a part and writes it, unless an earlier attempt of the same bundle has."""

    def __init__(self, work: Any, facts: Mapping[bytes, str]):
        self._work, self._facts, self._version, self._shared = work, facts, keras_bert.__version__, Shared()

    def setup(self):
        check_version(self._version)
        self._model = self._shared.acquire(self._load)  # one for all threads of a process

    def _load(self) -> Any:
        quiet_tensorflow()
        work, model = self._work, self._work.model()
        if answer_facts(model, work.role, **work.options) != self._facts:
            raise InputError(f"{work.path} is another model on a worker than here. Give all machines the same folder.")
        return model

    def process(self, element: tuple[int, list[Any]]) -> None:
        (number, batches), parts = element, self._work.parts
        num_rows = sum(map(len, batches))
        if num_rows != parts.rows_of(number):
            raise InputError("The table has fewer rows than when it was checked. Run the command again.")
        if not os.path.exists(parts.path(number)):
            parts.write(number, self._work.answers(self._model, batches))
            Metrics.counter("keras_bert", "num_rows").inc(num_rows)
