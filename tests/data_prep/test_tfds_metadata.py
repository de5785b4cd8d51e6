"""tensorflow_datasets reads our record folders as data sets."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf
from example_bytes import serialize

from data_prep.pretraining.record_writer import WrittenFile
from data_prep.pretraining.tfds_metadata import tfds_metadata
from keras_bert.records import features
from keras_bert.records.datasets import pretraining_dataset

tfds = pytest.importorskip("tensorflow_datasets")

LENGTH, PREDICTIONS = 8, 2
FEATURES = features.pretraining_features(LENGTH, PREDICTIONS)
COUNTS = [3, 0, 5]
# The ranges of these features.
HIGHEST = {"input_mask": 1, "segment_ids": 1, "masked_lm_positions": LENGTH - 1, "next_sentence_labels": 1}


def write_folder(folder, description=FEATURES, counts=COUNTS, name="my_records", highest=None):
    """Writes the metadata, and records whose numbers are all different or at most the `highest` of a feature."""
    folder.mkdir(parents=True)
    names = [f"pretraining-{shard:05d}-of-{len(counts):05d}.tfrecord" for shard in range(len(counts))]
    start = 0
    for file_name, count in zip(names, counts, strict=True):
        with tf.io.TFRecordWriter(str(folder / file_name)) as writer:
            for _ in range(count):
                values = {}
                for feature in description:
                    values[feature.name] = np.arange(start, start + feature.length)
                    if highest:
                        values[feature.name] %= highest.get(feature.name, 1000) + 1
                    start += feature.length
                writer.write(serialize(values, description))
    sizes = [os.path.getsize(folder / file_name) for file_name in names]
    files = [WrittenFile(*of_file, sha256="") for of_file in zip(names, counts, sizes, strict=True)]
    for file_name, content in tfds_metadata(name, description, files).items():
        (folder / file_name).write_bytes(content)
    return str(folder)


def read(data_set):
    return [{name: value.tolist() for name, value in row.items()} for row in tfds.as_numpy(data_set)]


def read_with_our_pipeline(folder):
    batches = pretraining_dataset(folder, 1, shuffle=False, repeat=False).as_numpy_iterator()
    return [{name: value[0].tolist() for name, value in batch.items()} for batch in batches]


def test_a_folder_of_records_is_a_data_set(tmp_path):
    folder = write_folder(tmp_path / "records", highest=HIGHEST)
    builder = tfds.builder_from_directory(folder)
    assert builder.info.features["input_ids"].shape == (LENGTH,)
    assert builder.info.features["input_ids"].np_dtype == np.int64
    assert builder.info.features["masked_lm_weights"].np_dtype == np.float32
    assert builder.info.splits["train"].num_examples == sum(COUNTS)
    assert builder.info.splits["train"].shard_lengths == COUNTS
    rows = read(builder.as_dataset(split="train"))
    assert rows == read_with_our_pipeline(folder)
    assert len(rows) == sum(COUNTS)


def test_it_can_be_loaded_by_name(tmp_path):
    folder = write_folder(tmp_path / "wiki_128" / "1.0.0", name="any name", highest=HIGHEST)
    data_set, info = tfds.load("wiki_128", data_dir=str(tmp_path), split="train", with_info=True)
    assert read(data_set) == read_with_our_pipeline(folder)
    assert (info.name, str(info.version)) == ("any_name", "1.0.0")
    assert read(tfds.load("wiki_128:1.0.0", data_dir=str(tmp_path), split="train[2:5]")) == read(data_set)[2:5]
    shuffled = tfds.load("wiki_128", data_dir=str(tmp_path), split="train", shuffle_files=True)
    assert sorted(map(str, read(shuffled))) == sorted(map(str, read(data_set)))


@pytest.mark.parametrize(
    "description",
    [
        features.pretraining_features(6, 2, 3),
        features.pretraining_features(6, 0, has_sentence_task=False),
        features.classification_features(4),
    ],
    ids=["packed", "unmasked", "classification"],
)
def test_every_form_of_records_comes_back_whole(tmp_path, description):
    folder = write_folder(tmp_path / "records", description, [2])
    rows = read(tfds.builder_from_directory(folder).as_dataset(split="train"))
    start = 0
    for row in rows:
        assert set(row) == {feature.name for feature in description}
        for feature in description:
            assert row[feature.name] == list(range(start, start + feature.length))
            start += feature.length
    assert len(rows) == 2


def test_what_is_written_is_what_tensorflow_datasets_writes(tmp_path):
    folder = write_folder(tmp_path / "records")
    kinds = {feature.name: ((feature.length,), tf.as_dtype(feature.dtype)) for feature in FEATURES}
    tensors = {name: tfds.features.Tensor(shape=shape, dtype=dtype) for name, (shape, dtype) in kinds.items()}
    tfds.features.FeaturesDict(tensors).save_config(tmp_path)
    theirs = json.loads((tmp_path / "features.json").read_text())
    assert json.loads((tmp_path / "records" / "features.json").read_text()) == theirs

    tfds.builder_from_directory(folder).info.write_to_directory(tmp_path)
    theirs = json.loads((tmp_path / "dataset_info.json").read_text())
    theirs = {key: value for key, value in theirs.items() if key not in ("moduleName", "redistributionInfo")}
    assert json.loads((tmp_path / "records" / "dataset_info.json").read_text()) == theirs


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["records.tfrecord"],
        ["a-00000-of-00002.tfrecord"],
        ["a-00001-of-00002.tfrecord", "a-00000-of-00002.tfrecord"],
        ["a-00000-of-00002.tfrecord", "b-00001-of-00002.tfrecord"],
        ["a-00000-of-00001.tfrecord.gz"],
    ],
)
def test_names_that_are_not_one_set_of_shards_are_refused(names):
    with pytest.raises(ValueError, match="Expected the names PREFIX-00000-of-00002.tfrecord"):
        tfds_metadata("name", FEATURES, [WrittenFile(name, 1, 10, "") for name in names])
