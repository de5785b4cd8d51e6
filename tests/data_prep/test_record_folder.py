import gzip
import json

import numpy as np
import pytest
import tensorflow as tf

from data_prep.pretraining import record_folder
from data_prep.pretraining.local_run import verify_records
from data_prep.pretraining.record_folder import FinishedShard, PretrainingDataSummary, RecordCounts, RecordFolder
from data_prep.pretraining.record_writer import check_compression, write_records
from keras_bert.program.errors import InputError
from keras_bert.program.record_files import iterate_records
from keras_bert.records.features import Feature

RECORD = [Feature("x", 3), Feature("y", 1, "float32")]
BATCHES = [
    ({"x": np.arange(12).reshape(4, 3), "y": np.ones((4, 1), np.float32)}, 0.8),
    ({"x": np.arange(3).reshape(1, 3), "y": np.zeros((1, 1), np.float32)}, 0.2),
]


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_a_file_is_the_same_each_time_and_is_read_by_others(tmp_path, compression):
    written = [write_records(tmp_path / name, BATCHES, RECORD, compression=compression) for name in ("a", "b")]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert written[0].sha256 == written[1].sha256
    assert written[0].num_bytes == (tmp_path / "a").stat().st_size
    assert written[0].num_records == 5
    records = list(iterate_records(tmp_path / "a"))
    assert tf.train.Example.FromString(records[3]).features.feature["x"].int64_list.value == [9, 10, 11]
    if compression != "zstd":
        kind = "GZIP" if compression == "gzip" else ""
        assert list(tf.data.TFRecordDataset(str(tmp_path / "a"), kind).as_numpy_iterator()) == records
    if compression == "gzip":
        assert len(gzip.decompress((tmp_path / "a").read_bytes())) > written[0].num_bytes


def test_an_unknown_compression_is_refused():
    with pytest.raises(InputError, match="compression must be one of none, gzip, zstd. Received: 'bz2'"):
        check_compression("bz2")


def test_counts_are_of_sequences_where_rows_are_packed():
    batch = {
        "input_mask": np.array([[1, 1, 2, 2, 3, 0], [1, 1, 1, 0, 0, 0]]),
        "next_sentence_labels": np.array([[1, 0, 1], [1, 0, 0]]),
        "masked_lm_weights": np.array([[1.0, 1.0], [1.0, 0.0]]),
    }
    counts = RecordCounts.of_batch(batch)
    assert counts == RecordCounts(2, 4, 3, 12, 8, 3)
    assert counts + counts == RecordCounts(4, 8, 6, 24, 16, 6)


@pytest.fixture
def records(tmp_path):
    """A finished folder of two files."""
    shards = []
    for name in ("a.tfrecord", "b.tfrecord"):
        file = write_records(tmp_path / name, BATCHES, RECORD)
        shards.append(FinishedShard(file, RecordCounts(num_records=5, num_examples=5)))
    folder = RecordFolder(f"{tmp_path}/", {"input_file": ["text.txt"], "options": {"seed": 1}})
    paths = [str(tmp_path / shard.file.name) for shard in shards]
    folder.write_progress(shards)
    summary = folder.finish(paths, {"num_tokens": 7}, shards, RECORD)
    assert summary == PretrainingDataSummary(paths, {"num_tokens": 7}, RecordCounts(10, 10))
    return folder, summary


def test_a_finished_run_is_known_again(tmp_path, records):
    folder, summary = records
    assert folder.finished_run(str(tmp_path)) == summary
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tfrecord", "b.tfrecord", "manifest.json"]
    other = RecordFolder(f"{tmp_path}/", {"input_file": ["text.txt"], "options": {"seed": 2}})
    with pytest.raises(InputError, match=r"holds records that were made with options=\{'seed': 1\}, not \{'seed': 2\}"):
        other.finished_run(str(tmp_path))
    (tmp_path / "b.tfrecord").write_bytes(b"")
    with pytest.raises(InputError, match="b.tfrecord is missing or has another size"):
        folder.finished_run(str(tmp_path))


def test_progress_is_read_back_by_the_same_call_only(tmp_path):
    shard = FinishedShard(write_records(tmp_path / "a.tfrecord", BATCHES, RECORD), RecordCounts(5, 5, 1, 15, 15, 0))
    one, two = (RecordFolder(f"{tmp_path}/", {"seed": seed}) for seed in (1, 2))
    assert one.read_progress() == {}
    one.write_progress([shard])
    assert one.read_progress() == {"a.tfrecord": shard}
    with pytest.raises(InputError, match="holds an unfinished run, made with seed=1, not 2. Give the same flags"):
        two.read_progress()
    replaces = RecordFolder(f"{tmp_path}/", {"seed": 2}, output_file=[str(tmp_path / "a.tfrecord")])
    assert replaces.read_progress() == {}


def test_verify_finds_what_is_wrong_and_names_every_file(tmp_path, records):
    manifest = str(tmp_path / "manifest.json")
    read = []
    assert verify_records(manifest, read.append)["records"]["num_records"] == 10
    assert sum(read) == 2 * (tmp_path / "a.tfrecord").stat().st_size
    data = bytearray((tmp_path / "a.tfrecord").read_bytes())
    data[20] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(data)
    (tmp_path / "b.tfrecord").write_bytes(data[:-1])
    (tmp_path / "c.tfrecord").write_bytes(b"")
    with pytest.raises(InputError) as caught:
        verify_records(manifest)
    message = str(caught.value)
    assert message.startswith("3 file(s) differ from what was written")
    problems = ("a.tfrecord has other bytes than", f"b.tfrecord has {len(data) - 1} bytes instead", "c.tfrecord is")
    for problem in problems:
        assert problem in message
    (tmp_path / "b.tfrecord").unlink()
    with pytest.raises(InputError, match="b.tfrecord is missing"):
        verify_records(manifest)


def test_a_manifest_that_is_missing_damaged_or_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "manifest.json"
    with pytest.raises(InputError, match="There is no .*manifest.json, so the records beside it"):
        verify_records(str(path))
    path.write_text("{")
    with pytest.raises(InputError, match="manifest.json is damaged: it is not JSON"):
        verify_records(str(path))
    path.write_text(json.dumps({"format": "another"}))
    with pytest.raises(InputError, match=f"expected '{record_folder.FORMAT}', found 'another'"):
        verify_records(str(path))
