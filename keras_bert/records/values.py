"""Which numbers pre-training records may hold: one table for training, which refuses others, and for `inspect_records`.

TensorFlow does not notice all of them by itself: on a GPU and under XLA an id or a position that is not there reads
something else, without a word.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records import features

# What TensorFlow's error says when `check_batch` has found something.
OUT_OF_RANGE = "A record holds a number that its feature cannot have."
_LOWEST = -(1 << 63)
_DTYPES = {feature.name: feature.dtype for feature in features.pretraining_features(1, 1, 2)}


class Range(NamedTuple):
    """The numbers of a feature are at least `low` and less than `end`.

    `finding` says in words that one is not, for statistics; `rule` what is right and what to do.
    """

    feature: str
    low: int
    end: float
    finding: str
    rule: str


def value_ranges(max_seq_length: int, num_tokens: int | None = None, num_segments: int | None = None) -> list[Range]:
    """Returns the ranges of all features of pre-training records.

    Args:
        max_seq_length: columns of a row.
        num_tokens, num_segments: `vocab_size` and `type_vocab_size` of the model; None: not known.
    """
    again = "Make the records again."
    columns = f"the columns of a row go from 0 to {max_seq_length - 1}. {again}"
    sequences = f"it numbers the sequences of a row, {max_seq_length} at most, and 0 is padding. {again}"
    result = [
        Range(features.INPUT_MASK, 0, math.inf, "input_mask is negative", sequences),
        Range(features.INPUT_MASK, _LOWEST, max_seq_length + 1, "input_mask has a number beyond the row", sequences),
        Range(features.MASKED_LM_POSITIONS, 0, max_seq_length, "a predicted position lies outside the row", columns),
        Range(features.CLS_POSITIONS, 0, max_seq_length, "a place of cls_positions lies outside the row", columns),
        Range(
            features.NEXT_SENTENCE_LABELS,
            0,
            2,
            "a next-sentence label is neither 0 nor 1",
            f"these labels are 0 and 1. {again}",
        ),
    ]
    for name in (features.MASKED_LM_WEIGHTS, features.NEXT_SENTENCE_WEIGHTS):
        weights = f"weights are finite and not negative. {again}"
        result.append(Range(name, 0, math.inf, f"{name} are negative, infinite or NaN", weights))
    ids = f"ids are 0 or more. {again}"
    if num_tokens is not None:
        ids = (
            f"the ids of this config go from 0 to {num_tokens - 1} (vocab_size={num_tokens}). Use the config and "
            "vocabulary that the records were made with."
        )
    for name in (features.INPUT_IDS, features.MASKED_LM_IDS):
        result.append(Range(name, 0, math.inf, "an id is negative", ids))
        if num_tokens is not None:
            finding = f"an id is beyond the vocabulary of {num_tokens} tokens"
            result.append(Range(name, _LOWEST, num_tokens, finding, ids))
    end = math.inf if num_segments is None else num_segments
    finding = "segment_ids are neither 0 nor 1" if num_segments == 2 else "segment_ids are negative or too large"
    segments = f"this config has {num_segments} segments (type_vocab_size). Use the one that the records were made for."
    result.append(
        Range(features.SEGMENT_IDS, 0, end, finding, segments if num_segments else f"0 is the least. {again}")
    )
    return result


def find_wrong_types(columns: Mapping[str, np.ndarray]) -> list[tuple[str, str]]:
    """Returns the features that hold numbers of another type than training takes, and in words what they hold.

    Args:
        columns: feature name -> int64, float32, or object for bytes, of any shape.
    """
    return [
        (name, f"{name} holds {features.kind_of(values.dtype)}, but {features.kind_of(_DTYPES[name])} are expected")
        for name, values in columns.items()
        if name in _DTYPES and values.dtype != _DTYPES[name]
    ]


def find_wrong_values(columns: Mapping[str, np.ndarray], ranges: Sequence[Range]) -> Iterator[tuple[Range, np.ndarray]]:
    """Yields the ranges that numbers are outside of, and where: bool of the column's shape.

    Features of another type are passed over: see `find_wrong_types`.

    Args:
        columns: as in `find_wrong_types`.
    """
    for one in ranges:
        values = columns.get(one.feature)
        if values is None or values.dtype != _DTYPES[one.feature]:
            continue
        # NaN is neither.
        is_right = values >= one.low if one.low > _LOWEST else np.ones(values.shape, bool)
        if one.end < math.inf or values.dtype != np.int64:
            is_right &= values < one.end
        if not is_right.all():
            yield one, ~is_right


def check_values(serialized: bytes, ranges: Sequence[Range], where: str) -> None:
    """Raises `InputError` when a number of one record is outside of its range; `where` names the record."""
    columns = features.numbers_in_record(serialized)
    for found, is_wrong in find_wrong_values(columns, ranges):
        value = columns[found.feature][is_wrong][0]
        raise InputError(f"{where}: {found.feature} holds {value}, but {found.rule}")


def check_batch(batch: Mapping[str, object], ranges: Sequence[Range]) -> None:
    """Adds a check to the graph of a dataset: TensorFlow raises `InvalidArgumentError` with `OUT_OF_RANGE`.

    Args:
        batch: feature name -> int64 or float32 tensor.
    """
    import tensorflow as tf

    ends = {one.feature: math.inf for one in ranges}
    for one in ranges:
        ends[one.feature] = min(ends[one.feature], one.end)
    floats = [values for name, values in batch.items() if name in ends and values.dtype.is_floating]
    integers = {name: values for name, values in batch.items() if name in ends and values.dtype == tf.int64}
    # As few operations as can be. No range has numbers below 0, and as an unsigned number such a one is the largest.
    numbers = tf.bitcast(tf.concat(list(integers.values()), axis=1), tf.uint64)
    limits = [np.full(values.shape[1], min(ends[name], 2**63), np.uint64) for name, values in integers.items()]
    is_right = tf.reduce_all(numbers < np.concatenate(limits))
    for values in floats:  # NaN is neither
        is_right &= tf.reduce_all((values >= 0) & (values < math.inf))
    tf.debugging.Assert(is_right, [OUT_OF_RANGE])
