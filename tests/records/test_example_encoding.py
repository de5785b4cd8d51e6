import numpy as np
import pytest
import tensorflow as tf

from keras_bert.records.encoding import encode_examples, encode_tfrecords
from keras_bert.records.features import Feature, pretraining_features


def protobuf_bytes(batch, record, row):
    """Returns the bytes of protobuf's deterministic writer."""
    example = tf.train.Example()
    for feature in record:
        numbers = batch[feature.name][row].tolist()
        target = example.features.feature[feature.name]
        (target.float_list if feature.dtype == "float32" else target.int64_list).value.extend(numbers)
    return example.SerializeToString(deterministic=True)


def random_batch(record, num_rows, highest, seed=0):
    rng = np.random.default_rng(seed)
    return {
        feature.name: rng.random((num_rows, feature.length)).astype(np.float32)
        if feature.dtype == "float32"
        # Small and large numbers, so that the varints of a row have different lengths.
        else (rng.random((num_rows, feature.length)) ** 6 * highest).astype(np.int64)
        for feature in record
    }


RECORDS = {
    "Google's": pretraining_features(128, 20),
    "packed": pretraining_features(512, 76, 8),
    "unmasked": pretraining_features(16, 0),
    "one number": [Feature("x", 1)],
    "long": [Feature("long", 3000), Feature("float", 700, "float32")],
    "names out of order": [Feature("b", 2), Feature("a" * 200, 2), Feature("A", 1), Feature("é", 1)],
}


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("highest", [1, 127, 128, 30_522, 2**21, 2**31 - 1, 2**31, 2**62])
def test_examples_have_the_bytes_of_protobuf(name, highest):
    batch = random_batch(RECORDS[name], 7, highest)
    assert encode_examples(batch, RECORDS[name]) == [protobuf_bytes(batch, RECORDS[name], row) for row in range(7)]


def test_numbers_of_every_length_and_negative_ones_have_the_bytes_of_protobuf():
    limits = [0, *(2 ** (7 * n) + d for n in range(1, 9) for d in (-1, 0)), 2**63 - 1, -1, -(2**63)]
    record = [Feature("x", len(limits))]
    for dtype in (np.int64, np.int32):
        numbers = [number for number in limits if np.iinfo(dtype).min <= number <= np.iinfo(dtype).max]
        record = [Feature("x", len(numbers))]
        batch = {"x": np.array([numbers, numbers[::-1]], dtype)}
        assert encode_examples(batch, record) == [protobuf_bytes(batch, record, row) for row in (0, 1)]


def test_frames_are_read_by_tensorflow_with_both_checksums(tmp_path):
    record = RECORDS["Google's"]
    batch = random_batch(record, 50, 30_522)
    path = str(tmp_path / "a.tfrecord")
    with open(path, "wb") as file:
        file.write(encode_tfrecords(batch, record))
        file.write(encode_tfrecords(random_batch(record, 3, 100), record))
    read = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    assert read[:50] == encode_examples(batch, record)
    assert len(read) == 53


def test_the_bytes_of_a_row_do_not_depend_on_the_rows_beside_it():
    record = RECORDS["Google's"]
    batch = random_batch(record, 40, 30_522)
    batch["input_ids"][3] = 1
    alone = [encode_examples({name: values[[row]] for name, values in batch.items()}, record)[0] for row in range(40)]
    assert encode_examples(batch, record) == alone


def test_other_features_are_ignored_and_no_rows_give_no_bytes():
    batch = {"x": np.zeros((0, 2), np.int32), "y": np.zeros((0, 5))}
    assert encode_tfrecords(batch, [Feature("x", 2)]) == b""
    assert encode_examples(batch, [Feature("x", 2)]) == []


@pytest.mark.parametrize("shape", [(3,), (3, 4), (3, 5, 1)])
def test_a_list_of_another_length_is_refused(shape):
    with pytest.raises(ValueError, match=r"x must have shape \(B, 5\). Received: \(3"):
        encode_examples({"x": np.zeros(shape, np.int64)}, [Feature("x", 5)])
