"""Records of any tool -> arrays. What features they have is found out; lists may have any length in every record."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.record_files import iterate_records

_BATCH_SIZE = 512
# The first records of a file tell which features it has: a list may be empty in one record.
_SCHEMA_RECORDS = 64
# tf.train.Feature's lists -> the number type.
_LISTS = {"int64_list": "int64", "float_list": "float32", "bytes_list": "string"}


class Column(NamedTuple):
    """One feature of B records: `values` (B, longest), zeros behind a record's own `lengths` (B,)."""

    values: np.ndarray
    lengths: np.ndarray


class ParsedBatch(NamedTuple):
    """B records: feature name -> number type, the columns, and the size of the records without their frames."""

    schema: dict[str, str]
    columns: dict[str, Column]
    num_bytes: int

    @property
    def num_records(self) -> int:
        return len(next(iter(self.columns.values())).lengths)


class RecordError(InputError):
    """The record at `place` of a batch, from 0, cannot be parsed."""

    def __init__(self, place: int, reason: str):
        super().__init__(reason)
        self.place = place


def read_batches(
    path: str, most: int | None = None, on_progress: Callable[[int], None] = lambda num_bytes: None
) -> Iterator[ParsedBatch]:
    """Yields the first `most` records of a file (all when None), parsed, 512 at a time.

    Raises:
        InputError: the file is damaged, or a record is no `tf.train.Example` or has not the features of the first ones:
            with the number of that record, after all records before it.
    """
    schema = None
    number = 1
    for batch, damage in _batches(itertools.islice(iterate_records(path, on_progress=on_progress), most)):
        while batch:
            try:
                schema = schema or find_schema(batch[:_SCHEMA_RECORDS])
                yield ParsedBatch(schema, parse_batch(batch, schema), sum(map(len, batch)))
                number += len(batch)
                break
            except RecordError as error:
                batch, damage = batch[: error.place], InputError(f"{path}: record {number + error.place} {error}")
        if damage:
            raise damage


def _batches(records: Iterator[bytes]) -> Iterator[tuple[list[bytes], InputError | None]]:
    """Yields lists of records, the last one with the error that ended the reading."""
    damage = None
    while damage is None:
        batch: list[bytes] = []
        try:
            batch.extend(itertools.islice(records, _BATCH_SIZE))
        except InputError as error:
            damage = error
        if not batch and damage is None:
            return
        yield batch, damage


def find_schema(serialized: Sequence[bytes]) -> dict[str, str]:
    """Returns feature name -> "int64", "float32" or "string" for the features that records have, sorted by name.

    Features whose lists are all empty are left out: nothing tells what they hold.

    Raises:
        RecordError: one of them is no `tf.train.Example`, or they have no features.
    """
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    schema = {}
    for place, record in enumerate(serialized):
        try:
            lists = tf.train.Example.FromString(record).features.feature
        except DecodeError:
            raise RecordError(place, "is no tf.train.Example message.") from None
        for name, value in lists.items():
            kind = value.WhichOneof("kind")
            if kind and getattr(value, kind).value:
                schema.setdefault(name, _LISTS[kind])
    if not schema:
        raise RecordError(0, "has no features: it is no tf.train.Example message, or an empty one.")
    return dict(sorted(schema.items()))


def parse_batch(serialized: Sequence[bytes], schema: Mapping[str, str]) -> dict[str, Column]:
    """Parses B records: name -> int64, float32 or object (B, longest).

    Raises:
        RecordError: one of them is no `tf.train.Example`, or has a feature of another type than the schema.
    """
    import tensorflow as tf

    specification = {
        name: tf.io.RaggedFeature(tf.as_dtype(dtype), row_splits_dtype=tf.int64) for name, dtype in schema.items()
    }
    try:
        parsed = tf.io.parse_example(list(serialized), specification)
    except _cannot_parse():
        place = _first_that_fails(serialized, specification)
        expected = ", ".join(f"{name} {dtype}" for name, dtype in schema.items())
        reason = f"is no tf.train.Example message with the features of the first records: {expected}."
        raise RecordError(place, reason) from None
    return {name: _to_column(value) for name, value in parsed.items()}


def _cannot_parse() -> tuple[type[Exception], ...]:
    """TensorFlow's error, and Python's when the message of that error quotes bytes that are no text."""
    import tensorflow as tf

    return tf.errors.InvalidArgumentError, UnicodeDecodeError


def _first_that_fails(serialized: Sequence[bytes], specification: Mapping) -> int:
    import tensorflow as tf

    for place, record in enumerate(serialized):
        try:
            tf.io.parse_example([record], specification)
        except _cannot_parse():
            return place
    return 0


def _to_column(ragged) -> Column:
    splits = ragged.row_splits.numpy()
    flat = ragged.flat_values.numpy()
    lengths = np.diff(splits)
    longest = int(lengths.max(initial=0))
    if (lengths == longest).all():
        return Column(flat.reshape(len(lengths), longest), lengths)
    values = np.full((len(lengths), longest), b"" if flat.dtype == object else 0, flat.dtype)
    values[np.arange(longest) < lengths[:, None]] = flat
    return Column(values, lengths)
