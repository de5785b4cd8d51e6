"""The order of pre-training records: shuffled, the same for the same seed, and started at any step."""

import gzip
import io
import itertools
import os
import zipfile

import numpy as np
import pytest
import tensorflow as tf
import tiny
from example_bytes import serialize
from example_records import assert_same_batches
from slow_parameters import slow_except

from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records import index as record_index
from keras_bert.records import order as record_order
from keras_bert.records.datasets import pretraining_dataset
from keras_bert.records.index import RecordIndex
from keras_bert.records.order import RecordOrder

VOCABULARY = tiny.vocabulary(*(f"w{number}" for number in range(995)))
COUNTS = [40, 1, 25, 7, 90, 33]
BATCH = 6
PACK = {
    "": bytes,
    "gzip": gzip.compress,
    "zstd": lambda data: pytest.importorskip("zstandard").ZstdCompressor().compress(data),
}


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    """Uses sizes that are at least 500 times smaller than in practice."""
    monkeypatch.setattr(record_order, "_WINDOW_RECORDS", 20)
    monkeypatch.setattr(record_order, "_MOST_OPEN_FILES", 4)
    monkeypatch.setattr(record_order, "_RECORDS_AT_ONCE", 16)
    monkeypatch.setattr(record_index, "_RECORDS_BETWEEN_OFFSETS", 4)


def write_files(folder, counts=COUNTS, compression="", num_sequences=1, masked=True):
    """Files of records of 12 columns, each with its own number in a column; returns the folder."""
    folder.mkdir()
    description = features.pretraining_features(12, 2 if masked else 0, num_sequences)
    number = 5
    for name, count in enumerate(counts):
        path = folder / f"{name}.tfrecord"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for _ in range(count):
                values = {feature.name: np.zeros(feature.length, int) for feature in description}
                values["input_ids"][:] = [2, *[number] * 10, 3]
                values["input_mask"][:] = 1 if num_sequences == 1 else [1] * 6 + [2] * 6
                writer.write(serialize(values, description))
                number += 1
        path.write_bytes(PACK[compression](path.read_bytes()))
    return str(folder)


def batches(folder, num_batches, batch_size=BATCH, **options):
    dataset = pretraining_dataset(folder, batch_size, vocabulary=VOCABULARY, **options)
    return [{name: values.numpy() for name, values in batch.items()} for batch in dataset.take(num_batches)]


def numbers(found):
    # Masking keeps most tokens of a row.
    return [np.median(batch["input_ids"][:, 1:11], axis=1).astype(int).tolist() for batch in found]


FORMS = {
    "plain": {},
    "gzip": {"compression": "gzip"},
    "zstd": {"compression": "zstd"},
    "without masks": {"masked": False},
    "packed": {"num_sequences": 2},
    "packed, gzip, without masks": {"num_sequences": 2, "compression": "gzip", "masked": False},
}


@pytest.mark.parametrize("form", slow_except(["gzip", "packed"], FORMS))
def test_training_begins_at_any_step(tmp_path, form):
    folder = write_files(tmp_path / "records", **FORMS[form])
    whole = batches(folder, 80, seed=3)  # two epochs and a half
    for step in (1, 33, 70):  # within the first window, at the first batch that two epochs share, in the third epoch
        assert_same_batches(batches(folder, 80 - step, seed=3, start_step=step), whole[step:])


def test_every_record_comes_once_an_epoch_and_every_epoch_has_an_order_of_its_own(tmp_path):
    folder = write_files(tmp_path / "records")
    stream = sum(numbers(batches(folder, 196, batch_size=3)), [])
    epochs = [stream[start : start + 196] for start in (0, 196, 392)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(5, 201))
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_one_epoch_is_complete_and_can_start_in_the_middle(tmp_path):
    folder = write_files(tmp_path / "records")
    whole = batches(folder, -1, repeat=False)
    assert [len(batch) for batch in numbers(whole)] == [6] * 32 + [4]
    assert_same_batches(batches(folder, -1, repeat=False, start_step=30), whole[30:])
    assert_same_batches(batches(folder, 33), whole[:32] + batches(folder, 1, start_step=32))


def test_a_window_mixes_the_files_of_its_group(tmp_path):
    folder = write_files(tmp_path / "records", [100] * 4)
    first = sum(numbers(batches(folder, 4, batch_size=5)), [])
    assert len({(number - 5) // 100 for number in first}) == 4
    assert first != sorted(first)
    # Each file of a group has the same share of the records: 5 of 20.
    assert np.bincount([(number - 5) // 100 for number in first]).tolist() == [5] * 4


def test_every_window_of_every_epoch_is_mixed_in_a_way_of_its_own(tmp_path):
    # With one file, records change places only within a window of 20; each of the two epochs has five windows.
    stream = sum(numbers(batches(write_files(tmp_path / "records", [100]), 40, batch_size=5)), [])
    windows = (np.array(stream) - 5).reshape(2, 5, 20)
    assert (windows // 20 == np.arange(5)[:, None]).all()
    assert len({tuple(window % 20) for window in windows.reshape(10, 20)}) == 10


def test_the_files_come_in_another_order_in_every_epoch(tmp_path):
    # 15 files in groups of 4, a window each: the groups differ from epoch to epoch.
    stream = sum(numbers(batches(write_files(tmp_path / "records", [5] * 15), 60, batch_size=5)), [])
    files = ((np.array(stream) - 5) // 5).reshape(4, 75)
    assert len({tuple(sorted(epoch[:20])) for epoch in files}) > 1


# Whether the records have masks, and the values of `shuffle` and `repeat`.
SHARDED = list(itertools.product([True, False], repeat=3))


@pytest.mark.parametrize("case", slow_except([(True, True, True), (False, False, False)], SHARDED), ids=str)
def test_the_shards_of_a_batch_are_the_batch(tmp_path, case):
    masked, shuffle, repeat = case
    options = {"shuffle": shuffle, "repeat": repeat}
    folder = write_files(tmp_path / "records", masked=masked)
    whole = batches(folder, 60, 7, start_step=5, **options)
    shards = [batches(folder, 60, 7, start_step=5, shard_index=index, num_shards=3, **options) for index in range(3)]
    assert [len(shard[0]["input_ids"]) for shard in shards] == [2, 2, 3]
    for batch, *parts in zip(whole, *shards, strict=True):
        assert_same_batches([{name: np.concatenate([part[name] for part in parts]) for name in batch}], [batch])


@pytest.mark.parametrize(("index", "shards"), [(2, 2), (-1, 2), (0, 0), (0, 7)])
def test_a_shard_that_does_not_exist_is_refused(tmp_path, index, shards):
    folder = write_files(tmp_path / "records", [3])
    with pytest.raises(InputError, match=f"A batch of 6 has no part {index} of {shards}"):
        batches(folder, 1, shard_index=index, num_shards=shards)


@pytest.mark.parametrize("compression", PACK)
def test_an_index_has_the_number_and_the_offsets_of_the_records(tmp_path, compression):
    write_files(tmp_path / "records", compression=compression)
    write_files(tmp_path / "plain")
    paths = sorted(map(str, (tmp_path / "records").iterdir()))
    index = RecordIndex.of_files(paths)
    assert index.counts.tolist() == COUNTS
    for file in range(len(paths)):
        records = list(tf.data.TFRecordDataset(str(tmp_path / "plain" / f"{file}.tfrecord")).as_numpy_iterator())
        for number in range(len(records) + 1):
            assert list(index.records_from(file, number)) == records[number:]


@pytest.mark.parametrize("compression", PACK)
def test_counting_shows_its_progress(tmp_path, monkeypatch, capsys, compression):
    monkeypatch.setattr(record_index, "_SECONDS_WITHOUT_PROGRESS", 0)
    folder = write_files(tmp_path / "records", compression=compression)
    RecordIndex.of_files([f"{folder}/{number}.tfrecord" for number in range(len(COUNTS))])
    assert "counting records: 100%" in capsys.readouterr().err


def test_an_index_is_kept_until_a_file_changes(tmp_path, monkeypatch):
    folder = tmp_path / "records"
    write_files(folder, [9, 5])
    paths = sorted(map(str, folder.iterdir()))
    first = RecordIndex.of_files(paths, tmp_path / "index.npz")

    counted = []
    count = record_index.record_offsets
    monkeypatch.setattr(record_index, "record_offsets", lambda *arguments: counted.append(1) or count(*arguments))
    again = RecordIndex.of_files(paths, tmp_path / "index.npz")
    assert not counted
    assert again.counts.tolist() == first.counts.tolist() == [9, 5]
    assert [places.tolist() for places in again.offsets] == [places.tolist() for places in first.offsets]

    # As large as before, but written later.
    os.utime(folder / "0.tfrecord", (1, 1))
    RecordIndex.of_files(paths, tmp_path / "index.npz")
    assert counted

    (folder / "0.tfrecord").write_bytes((folder / "0.tfrecord").read_bytes() * 2)
    assert RecordIndex.of_files(paths, tmp_path / "index.npz").counts.tolist() == [18, 5]
    assert RecordIndex.of_files(paths[:1], tmp_path / "index.npz").counts.tolist() == [18]
    (tmp_path / "index.npz").write_bytes(b"half")
    assert RecordIndex.of_files(paths, tmp_path / "index.npz").counts.tolist() == [18, 5]
    # A header that claims a terabyte, and too few positions.
    with np.load(tmp_path / "index.npz") as file:
        arrays = dict(file)
    with zipfile.ZipFile(tmp_path / "index.npz", "w") as file:
        for name, array in arrays.items():
            data = io.BytesIO()
            shape = (1 << 40,) if name == "places" else array.shape
            header = {"descr": array.dtype.str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(data, header)
            file.writestr(f"{name}.npy", data.getvalue() + array.tobytes())
    assert RecordIndex.of_files(paths, tmp_path / "index.npz").counts.tolist() == [18, 5]
    np.savez(tmp_path / "index.npz", **arrays | {"places": arrays["places"][:1]})
    assert len(RecordIndex.of_files(paths, tmp_path / "index.npz").offsets[1]) == 2


def test_no_more_than_one_window_is_read_to_begin_in_the_middle(tmp_path, monkeypatch):
    folder = tmp_path / "records"
    write_files(folder, [400])
    order = RecordOrder([str(folder / "0.tfrecord")], seed=1)
    whole = np.concatenate([batch.ravel() for batch in order.batches(10, (0, 10), num_epochs=1)])
    read = []
    records_from = RecordIndex.records_from

    def counting(self, file, number):
        for record in records_from(self, file, number):
            read.append(record)
            yield record

    monkeypatch.setattr(RecordIndex, "records_from", counting)
    late = np.concatenate([batch.ravel() for batch in order.batches(10, (0, 10), start_step=37, num_epochs=1)])
    assert late.tolist() == whole[370:].tolist()
    assert len(read) == 40


def test_a_file_that_got_shorter_since_it_was_counted_is_named(tmp_path):
    folder = tmp_path / "records"
    write_files(folder, [8])
    path = folder / "0.tfrecord"
    order = RecordOrder([str(path)], seed=1)
    assert order.index.counts.tolist() == [8]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=r"0\.tfrecord has fewer records than when they were counted"):
        next(order.batches(2, (0, 2)))
