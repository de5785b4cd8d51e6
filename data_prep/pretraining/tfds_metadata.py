"""Makes a folder of records a data set of tensorflow_datasets, for users who read their training data with it.

Two small files beside the records are enough:

  tfds.builder_from_directory("records").as_dataset(split="train")
    tfds.load("my_records", data_dir="data", split="train")        # the folder is data/my_records/1.0.0

They are written without importing tensorflow_datasets. A test compares them with those that it writes itself.
"""

import json
import re
from collections.abc import Sequence

from data_prep.pretraining.record_writer import WrittenFile
from keras_bert.records.features import Feature

VERSION = "1.0.0"
SPLIT = "train"

# The placeholder in tensorflow_datasets' patterns of file names.
_SHARD_NAME = re.compile(r"(?P<prefix>[^{}]*)-(?P<shard>\d{5,})-of-(?P<num_shards>\d{5,})\.tfrecord")
_CLASSES = "tensorflow_datasets.core.features."


def tfds_metadata(name: str, features: Sequence[Feature], files: Sequence[WrittenFile]) -> dict[str, bytes]:
    """Returns `dataset_info.json` and `features.json` as file name -> bytes; the same arguments give the same bytes.

    Args:
        name: the name of the data set. tensorflow_datasets allows letters, digits and `_`; other characters become `_`.
        features: the features of a record. They are read as int64 and float32 tensors of these lengths.
        files: all files, in order, uncompressed: `PREFIX-00000-of-00016.tfrecord` and so on.

    Raises:
        ValueError: the files are not a complete set of shards.
    """
    prefix = _common_prefix([file.name for file in files])
    split = {
        "name": SPLIT,
        "filepathTemplate": prefix + "-{SHARD_X_OF_Y}.{FILEFORMAT}",
        # In the JSON form of protocol buffers, 64-bit numbers are strings.
        "shardLengths": [str(file.num_records) for file in files],
        "numBytes": str(sum(file.num_bytes for file in files)),
    }
    info = {
        "name": re.sub(r"\W", "_", name, flags=re.ASCII) or "_",
        "version": VERSION,
        "description": "Records for BERT, written by keras_bert. manifest.json describes their text and options.",
        "fileFormat": "tfrecord",
        "splits": [split],
    }
    tensors = {}
    for feature in features:
        tensor = {"shape": {"dimensions": [str(feature.length)]}, "dtype": feature.dtype, "encoding": "none"}
        tensors[feature.name] = {"pythonClassName": _CLASSES + "tensor_feature.Tensor", "tensor": tensor}
    dictionary = {"pythonClassName": _CLASSES + "features_dict.FeaturesDict", "featuresDict": {"features": tensors}}
    contents = {"features.json": dictionary, "dataset_info.json": info}
    return {file_name: (json.dumps(content, indent=2) + "\n").encode() for file_name, content in contents.items()}


def _common_prefix(file_names: Sequence[str]) -> str:
    parts = [_SHARD_NAME.fullmatch(name) for name in file_names]
    shards = [(part["prefix"], part["shard"], part["num_shards"]) for part in parts if part]
    prefix = shards[0][0] if shards else ""
    expected = [(prefix, f"{shard:05d}", f"{len(file_names):05d}") for shard in range(len(file_names))]
    if not shards or shards != expected:
        raise ValueError(
            "Expected the names PREFIX-00000-of-00002.tfrecord, PREFIX-00001-of-00002.tfrecord and so on, complete "
            f"and in order. Received: {list(file_names)}"
        )
    return prefix
