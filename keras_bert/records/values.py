"""The ranges of numbers that pre-training records may hold. Training and `inspect_records` refuse other numbers.

TensorFlow does not notice all of them. On a GPU and under XLA, an id or position out of range silently reads another
number.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records import features

# The text of TensorFlow's error when `check_batch` fails.
OUT_OF_RANGE = "A record holds a number that its feature cannot have."
_LOWEST = -(1 << 63)
_DTYPES = {
    feature.name: feature.dtype for feature in features.pretraining_features(1, 1, 2, has_order=True, has_streams=True)
}


class Range(NamedTuple):
    """A rule for the numbers of a feature: at least `low` and less than `end`.

    `finding` describes a violation, for statistics. `rule` says what is allowed and what to do, for error messages.
    """

    feature: str
    low: int
    end: float
    finding: str
    rule: str


def value_ranges(max_seq_length: int, num_tokens: int | None = None, num_segments: int | None = None) -> list[Range]:
    """Returns the ranges of all features of pre-training records.

    Args:
        max_seq_length: columns in a row.
        num_tokens, num_segments: `vocab_size` and `type_vocab_size` of the model; None if unknown.
    """
    again = "Make the records again."
    columns = f"the columns of a row go from 0 to {max_seq_length - 1}. {again}"
    sequences = f"it numbers the sequences of a row, {max_seq_length} at most, and 0 is padding. {again}"
    result = [
        Range(features.INPUT_MASK, 0, math.inf, "input_mask is negative", sequences),
        Range(features.INPUT_MASK, _LOWEST, max_seq_length + 1, "input_mask has a number beyond the row", sequences),
        Range(features.MASKED_LM_POSITIONS, 0, max_seq_length, "a predicted position lies outside the row", columns),
        Range(features.CLS_POSITIONS, 0, max_seq_length, "a position in cls_positions lies outside the row", columns),
        Range(
            features.NEXT_SENTENCE_LABELS,
            0,
            2,
            "a next-sentence label is neither 0 nor 1",
            f"these labels are 0 and 1. {again}",
        ),
    ]
    order = f"ranks go from 0 to {max_seq_length + 1}. {again}"
    result.append(Range(features.PREDICTION_ORDER, 0, max_seq_length + 2, "a rank is outside the order", order))
    reused = f"a row of {max_seq_length} tokens cannot lend more to the next. {again}"
    result.append(Range(features.REUSE_LEN, 0, max_seq_length, "reuse_len is outside the row", reused))
    for name in (features.STREAM_ROW, features.NUM_STREAMS):
        result.append(Range(name, 0, math.inf, f"{name} is negative", f"it counts from 0. {again}"))
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
    """Returns (feature, description) for each feature whose numbers have another type than training expects.

    Args:
        columns: feature name -> array of any shape; int64, float32, or object for bytes.
    """
    return [
        (name, f"{name} holds {features.kind_of(values.dtype)}, but {features.kind_of(_DTYPES[name])} are expected")
        for name, values in columns.items()
        if name in _DTYPES and values.dtype != _DTYPES[name]
    ]


def find_wrong_values(columns: Mapping[str, np.ndarray], ranges: Sequence[Range]) -> Iterator[tuple[Range, np.ndarray]]:
    """Yields (range, mask) for each range that some numbers violate. The mask, bool, has the shape of the column.

    Features of the wrong type are skipped: see `find_wrong_types`.

    Args:
        columns: as in `find_wrong_types`.
        ranges: the ranges to check.
    """
    for one in ranges:
        values = columns.get(one.feature)
        if values is None or values.dtype != _DTYPES[one.feature]:
            continue
        # NaN fails both comparisons.
        is_valid = values >= one.low if one.low > _LOWEST else np.ones(values.shape, bool)
        if one.end < math.inf or values.dtype != np.int64:
            is_valid &= values < one.end
        if not is_valid.all():
            yield one, ~is_valid


def check_values(serialized: bytes, ranges: Sequence[Range], where: str) -> None:
    """Raises `InputError` if a number of one record is outside its range. `where` names the record."""
    columns = features.numbers_in_record(serialized)
    for violated, is_wrong in find_wrong_values(columns, ranges):
        value = columns[violated.feature][is_wrong][0]
        raise InputError(f"{where}: {violated.feature} holds {value}, but {violated.rule}")


def check_batch(batch: Mapping[str, object], ranges: Sequence[Range]) -> None:
    """Adds a check of all numbers to a dataset's graph. If it fails, TensorFlow raises `InvalidArgumentError` with
    the text `OUT_OF_RANGE`.

    Args:
        batch: feature name -> int64 or float32 tensor.
        ranges: the ranges to check.
    """
    import tensorflow as tf

    ends = {one.feature: math.inf for one in ranges}
    for one in ranges:
        ends[one.feature] = min(ends[one.feature], one.end)
    floats = [values for name, values in batch.items() if name in ends and values.dtype.is_floating]
    integers = {name: values for name, values in batch.items() if name in ends and values.dtype == tf.int64}
    # This takes few operations: no range includes negative numbers, and as unsigned numbers these are the largest.
    numbers = tf.bitcast(tf.concat(list(integers.values()), axis=1), tf.uint64)
    limits = [np.full(values.shape[1], min(ends[name], 2**63), np.uint64) for name, values in integers.items()]
    is_valid = tf.reduce_all(numbers < np.concatenate(limits))
    for values in floats:  # NaN fails both comparisons
        is_valid &= tf.reduce_all((values >= 0) & (values < math.inf))
    tf.debugging.Assert(is_valid, [OUT_OF_RANGE])
