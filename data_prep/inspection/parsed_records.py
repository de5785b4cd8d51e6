"""Records -> arrays. Their features are found out; a list may have any length in every record."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.record_files import iterate_records
from keras_bert.records.features import aliases_in_record, numbers_in_record

_BATCH_SIZE = 512


class Column(NamedTuple):
    """One feature of B records: `values` (B, longest), zeros behind a record's own `lengths` (B,)."""

    values: np.ndarray
    lengths: np.ndarray


def read_batches(
    path: str, most: int | None = None, on_progress: Callable[[int], None] = lambda num_bytes: None
) -> Iterator[dict[str, Column]]:
    """Yields the first `most` records of a file (all when None), 512 at a time: feature name -> column.

    Raises:
        InputError: the file is damaged, or a record does not have the features of the first ones. The message names
            the record. All records before it were yielded.
    """
    records = itertools.islice(iterate_records(path, on_progress=on_progress), most)
    features, number, damage = None, 1, None
    while damage is None:
        batch: list[bytes] = []
        try:
            batch.extend(itertools.islice(records, _BATCH_SIZE))
        except InputError as error:
            damage = error  # the batch has the records before it
        if not batch:
            break
        features = features or find_features(batch)
        try:
            yield parse_batch(batch, features)
        except InputError:
            yield from _parse_one_by_one(batch, features, path, number)
        number += len(batch)
    if damage is not None:
        raise damage


def _parse_one_by_one(batch: list[bytes], features: Mapping, path: str, first: int) -> Iterator[dict[str, Column]]:
    for number, record in enumerate(batch, first):
        try:
            yield parse_batch([record], features)
        except InputError as error:
            raise InputError(f"{path}: record {number} {error}") from None


def find_features(serialized: Sequence[bytes]) -> dict[str, Any]:
    """Returns Google's name -> `tf.io.RaggedFeature` for the features of these records, sorted by name.

    Features whose lists are all empty are left out, and so are records that are not `tf.train.Example` messages.
    """
    import tensorflow as tf

    features = {}
    for record in serialized:
        try:
            lists, aliases = numbers_in_record(record), aliases_in_record(record)
        except InputError:
            continue
        for name, values in lists.items():
            if len(values) and name not in features:
                dtype = tf.string if values.dtype == object else tf.as_dtype(values.dtype)
                features[name] = tf.io.RaggedFeature(dtype, aliases.get(name, name), row_splits_dtype=tf.int64)
    return dict(sorted(features.items()))


def parse_batch(serialized: Sequence[bytes], features: Mapping[str, Any]) -> dict[str, Column]:
    """Parses B records with `find_features`: name -> int64, float32 or object (B, longest).

    Raises:
        InputError: one of them is not a `tf.train.Example`, or has a feature of another type.
    """
    import tensorflow as tf

    if not features:
        raise InputError("has no features, or is not a tf.train.Example message.")
    try:
        parsed = tf.io.parse_example(list(serialized), features)
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError):  # its message may quote bytes that are not text
        expected = ", ".join(f"{name} {feature.dtype.name}" for name, feature in features.items())
        raise InputError(f"is not a tf.train.Example message with the features of the first: {expected}.") from None
    return {name: Column(lists.to_tensor().numpy(), lists.row_lengths().numpy()) for name, lists in parsed.items()}
