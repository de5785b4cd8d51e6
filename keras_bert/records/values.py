"""The ranges of numbers that pre-training records may hold. Training refuses other numbers.

TensorFlow does not notice all of them. On a GPU and under XLA, an id or position out of range silently reads another
number.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.records import features

# The text of TensorFlow's error when `check_batch` fails.
OUT_OF_RANGE = "A record holds a number that its feature cannot have."
_DTYPES = {
    feature.name: feature.dtype for feature in features.pretraining_features(1, 1, 2, has_order=True, has_streams=True)
}


class Range(NamedTuple):
    """The numbers of a feature are at least 0 and less than `end`. `rule` says this and what to do, for errors."""

    feature: str
    end: float
    rule: str


def value_ranges(max_seq_length: int, config: BertConfig | None) -> list[Range]:
    """Returns the ranges of all features of pre-training records with rows of `max_seq_length` columns.

    Without the `config` of the model, ids and segments have no upper end.
    """
    again = "Make the records again."
    columns = f"the columns of a row go from 0 to {max_seq_length - 1}. {again}"
    sequences = f"it numbers the sequences of a row, {max_seq_length} at most, and 0 is padding. {again}"
    order = f"ranks go from 0 to {max_seq_length + 1}. {again}"
    reused = f"a row of {max_seq_length} tokens cannot lend more to the next. {again}"
    weights = f"weights are finite and not negative. {again}"
    num_ids, ids = math.inf, f"ids are 0 or more. {again}"
    num_segments, segments = math.inf, f"0 is the least. {again}"
    if config is not None:
        num_ids, num_segments = config.vocab_size, max(1, config.type_vocab_size)
        ids = (
            f"the ids of this config go from 0 to {num_ids - 1} (vocab_size={num_ids}). Use the config and vocabulary "
            "that the records were made with."
        )
        segments = (
            f"this config has {num_segments} segments (type_vocab_size). Use the one that the records were made for."
        )
    return [
        Range(features.INPUT_MASK, max_seq_length + 1, sequences),
        Range(features.MASKED_LM_POSITIONS, max_seq_length, columns),
        Range(features.CLS_POSITIONS, max_seq_length, columns),
        Range(features.NEXT_SENTENCE_LABELS, 2, f"these labels are 0 and 1. {again}"),
        Range(features.PREDICTION_ORDER, max_seq_length + 2, order),
        Range(features.REUSE_LEN, max_seq_length, reused),
        Range(features.STREAM_ROW, math.inf, f"it counts from 0. {again}"),
        Range(features.NUM_STREAMS, math.inf, f"it counts from 0. {again}"),
        Range(features.MASKED_LM_WEIGHTS, math.inf, weights),
        Range(features.NEXT_SENTENCE_WEIGHTS, math.inf, weights),
        Range(features.INPUT_IDS, num_ids, ids),
        Range(features.MASKED_LM_IDS, num_ids, ids),
        Range(features.SEGMENT_IDS, num_segments, segments),
    ]


def check_values(serialized: bytes, ranges: Sequence[Range], where: str) -> None:
    """Raises `InputError` if a number of one record is outside its range. `where` names the record.

    Features of the wrong type are skipped.
    """
    columns = features.numbers_in_record(serialized)
    for one in ranges:
        values = columns.get(one.feature)
        if values is None or values.dtype != _DTYPES[one.feature]:
            continue
        is_valid = (values >= 0) & (values < one.end)  # NaN fails both comparisons
        if not is_valid.all():
            raise InputError(f"{where}: {one.feature} holds {values[~is_valid][0]}, but {one.rule}")


def check_batch(batch: Mapping[str, object], ranges: Sequence[Range]) -> None:
    """Adds a check of all numbers of a batch, int64 or float32, to a dataset's graph. If it fails, TensorFlow raises
    `InvalidArgumentError` with the text `OUT_OF_RANGE`."""
    import tensorflow as tf

    ends = {one.feature: one.end for one in ranges}
    floats = [values for name, values in batch.items() if name in ends and values.dtype.is_floating]
    integers = {name: values for name, values in batch.items() if name in ends and values.dtype == tf.int64}
    # This takes few operations: no range includes negative numbers, and as unsigned numbers these are the largest.
    numbers = tf.bitcast(tf.concat(list(integers.values()), axis=1), tf.uint64)
    limits = [np.full(values.shape[1], min(ends[name], 2**63), np.uint64) for name, values in integers.items()]
    is_valid = tf.reduce_all(numbers < np.concatenate(limits))
    for values in floats:  # NaN fails both comparisons
        is_valid &= tf.reduce_all((values >= 0) & (values < math.inf))
    tf.debugging.Assert(is_valid, [OUT_OF_RANGE])
