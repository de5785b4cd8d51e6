"""Writes records as other tools write them."""

import numpy as np
import tensorflow as tf
import tiny
import zstandard

WORDS = ["the", "quick", "brown", "fox", "a", "lazy", "dog", "cat", "em", "##bed", "##ding", "."]
VOCABULARY = tiny.vocabulary("[unused1]", *WORDS)


def ids(text):
    return [VOCABULARY.ids[token] for token in text.split()]


def example(**lists):
    """A serialised tf.train.Example of lists of integers, floats or bytes."""
    record = tf.train.Example()
    for name, values in lists.items():
        feature = record.features.feature[name]
        if values and isinstance(values[0], float):
            feature.float_list.value.extend(values)
        elif values and isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    return record.SerializeToString()


def pretraining_example(text, labels, length=16, label=0, places=4):
    """Google's record of `first segment [SEP] second segment [SEP]`; labels: position -> token."""
    numbers = ids(text)
    end_of_first = numbers.index(VOCABULARY.sep_id) + 1
    padding = [0] * (length - len(numbers))
    filling = places - len(labels)
    return {
        "input_ids": numbers + padding,
        "input_mask": [1] * len(numbers) + padding,
        "segment_ids": [0] * end_of_first + [1] * (len(numbers) - end_of_first) + padding,
        "masked_lm_positions": [*labels, *[0] * filling],
        "masked_lm_ids": [*ids(" ".join(labels.values())), *[0] * filling],
        "masked_lm_weights": [1.0] * len(labels) + [0.0] * filling,
        "next_sentence_labels": [label],
    }


# [MASK] for "brown", "dog" kept, "cat" for "fox"
PAIR = pretraining_example(
    "[CLS] the quick [MASK] cat [SEP] a lazy dog [SEP]", {3: "brown", 4: "fox", 8: "dog"}, label=1
)


def renamed(record, **names):
    return {names.get(name, name): values for name, values in record.items()}


GARDEN = renamed(PAIR, input_ids="input_word_ids", segment_ids="input_type_ids")
PACKED = {
    "input_ids": ids("[CLS] the [MASK] [SEP] a dog [SEP] [CLS] the lazy [SEP] [MASK] [SEP]") + [0] * 3,
    "input_mask": [1] * 7 + [2] * 6 + [0] * 3,
    "segment_ids": [0] * 4 + [1] * 3 + [0] * 4 + [1] * 2 + [0] * 3,
    "masked_lm_positions": [2, 11],
    "masked_lm_ids": ids("fox cat"),
    "masked_lm_weights": [1.0, 1.0],
    "next_sentence_labels": [0, 1, 0],
    "cls_positions": [0, 7, 0],
    "next_sentence_weights": [1.0, 1.0, 0.0],
}


def write_records(path, records, compression=""):
    """Writes dictionaries (see `example`) or bytes as a TFRecord file."""
    with tf.io.TFRecordWriter(str(path), compression if compression == "GZIP" else "") as writer:
        for record in records:
            writer.write(record if isinstance(record, bytes) else example(**record))
    if compression == "ZSTD":
        path.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    return str(path)


def unmasked(batch):
    """Returns the ids with the predicted tokens put back, and bool, whether each is predicted."""
    ids = batch["input_ids"].copy()
    rows, places = np.nonzero(batch["masked_lm_weights"])
    columns = batch["masked_lm_positions"][rows, places]
    ids[rows, columns] = batch["masked_lm_ids"][rows, places]
    is_predicted = np.zeros(ids.shape, bool)
    is_predicted[rows, columns] = True
    return ids, is_predicted


def assert_same_batches(left, right):
    """Checks that two lists of batches, which map the name of a feature to its numbers, are equal."""
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert list(one) == list(other)
        for name in one:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)
