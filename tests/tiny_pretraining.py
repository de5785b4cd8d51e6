"""A tiny vocabulary, config and records that can be learnt, for the tests of pre-training."""

import numpy as np
import tensorflow as tf
import tiny
from example_bytes import serialize

from keras_bert.records import features

LENGTH, PREDICTIONS = 10, 2
VOCABULARY = tiny.vocabulary(*"abcdefgh")
CONFIG = tiny.config(VOCABULARY)


def write_records(path, num_records=64, seed=0, length=LENGTH, masked=True):
    """Writes rows `[CLS] x x x x [SEP] y y y [SEP]`: a masked letter equals its neighbour, and y = x unless random."""
    draw = np.random.default_rng(seed)
    description = features.pretraining_features(length, PREDICTIONS if masked else 0)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for _ in range(num_records):
            first, second, is_random = draw.integers(5, 13), draw.integers(5, 13), draw.integers(2)
            second = second if is_random else first
            ids = [2, *[first] * 4, 3, *[second] * 3, 3][:length]
            padding = [0] * (length - len(ids))
            if masked:
                ids[2] = ids[7] = 4
            values = {
                "input_ids": ids + padding,
                "input_mask": [1] * len(ids) + padding,
                "segment_ids": [0] * 6 + [1] * (length - 6),
                "masked_lm_positions": [2, 7],
                "masked_lm_ids": [first, second],
                "masked_lm_weights": [1.0, 1.0],
                "next_sentence_labels": [is_random and int(first != second)],
            }
            writer.write(serialize(values, description))
    return str(path)


def random_records(batch_size=6, length=8, predictions=3, seed=0, fewest=0):
    """Features of random rows. Their masked tokens are in columns 1 to 3, in any order; some entries have the weight 0.

    Args:
        fewest: the smallest number of entries with the weight 1 in a row.
    """
    generator = np.random.default_rng(seed)
    lengths = generator.integers(predictions + 1, length + 1, (batch_size, 1))
    columns = np.stack([1 + generator.permutation(predictions) for _ in range(batch_size)])
    is_used = np.arange(predictions) < generator.integers(fewest, predictions + 1, (batch_size, 1))
    return {
        "input_ids": generator.integers(0, 23, (batch_size, length)).astype("int32"),
        "input_mask": (np.arange(length) < lengths).astype("int32"),
        "segment_ids": generator.integers(0, 2, (batch_size, length)).astype("int32"),
        "masked_lm_positions": columns.astype("int32"),
        "masked_lm_ids": generator.integers(0, 23, (batch_size, predictions)).astype("int32"),
        "masked_lm_weights": is_used.astype("float32"),
        "next_sentence_labels": generator.integers(0, 2, (batch_size, 1)).astype("int32"),
    }
