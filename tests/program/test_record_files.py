import gzip
import os
import struct

import pytest
import tensorflow as tf
import zstandard
from bounded_memory import memory_below

from keras_bert.program.errors import InputError
from keras_bert.program.record_files import detect_compression, iterate_records, record_offsets
from keras_bert.program.stored_numbers import masked_crc32c
from keras_bert.records.files import list_records

RECORDS = [b"first", b"", b"the third \x00 record", bytes(range(256)) * 40]
PACKED = {"": bytes, "GZIP": gzip.compress, "ZSTD": zstandard.ZstdCompressor().compress}


@pytest.fixture
def write(tmp_path):
    """Writes records with TensorFlow, compresses the file, and keeps a part of it on request."""

    def write(records=RECORDS, compression="", change=lambda data: data):
        path = str(tmp_path / "records")
        with tf.io.TFRecordWriter(path) as writer:
            for record in records:
                writer.write(record)
        with open(path, "rb") as file:
            data = change(PACKED[compression](file.read()))
        with open(path, "wb") as file:
            file.write(data)
        return path

    return write


def read_until_error(path, **arguments):
    """The records that can be read, and the message of the error that ends them."""
    records = []
    with pytest.raises(InputError) as caught:
        records.extend(iterate_records(path, **arguments))
    return records, str(caught.value).removeprefix(path)


def flip(position):
    return lambda data: data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


@pytest.mark.parametrize("compression", PACKED)
def test_records_written_by_tensorflow_are_read_whatever_compresses_them(write, compression):
    path = write(compression=compression)
    assert detect_compression(path) == compression
    assert list(iterate_records(path)) == list(iterate_records(f"file://{path}")) == RECORDS
    assert list(iterate_records(write(compression=compression, change=lambda data: data * 3))) == RECORDS * 3
    assert list(iterate_records(write([], compression))) == []
    large = [os.urandom(50_000), bytes(3_000_000), os.urandom(500_000)] * 2
    assert list(iterate_records(write(large, compression))) == large


def test_a_gzip_file_may_be_filled_up_with_zeros(write):
    assert list(iterate_records(write(compression="GZIP", change=lambda data: data + bytes(1000)))) == RECORDS


def test_memory_does_not_grow_with_the_file(write):
    path = write([bytes(10_000)] * 2000)
    with memory_below(2_000_000):
        assert sum(1 for _ in iterate_records(path)) == 2000


@pytest.mark.parametrize("compression", PACKED)
def test_progress_adds_up_to_the_size_of_the_file(write, compression):
    path = write([os.urandom(600_000)] * 5, compression)
    steps = []
    assert len(list(iterate_records(path, on_progress=steps.append))) == 5
    assert sum(steps) == os.path.getsize(path)
    assert compression or len(steps) > 2


def test_a_flipped_bit_is_found_wherever_it_is(write):
    size = os.path.getsize(write(RECORDS[:3]))
    second, third = 16 + len(RECORDS[0]), 32 + len(RECORDS[0])
    for position in range(size):
        number = 1 if position < second else 2 if position < third else 3
        records, message = read_until_error(write(RECORDS[:3], change=flip(position)))
        assert records == RECORDS[: number - 1]
        if position < 12:
            assert message.startswith(" is not a TFRecord file")
        else:
            assert f": record {number} (at byte {[0, second, third][number - 1]:,}) is damaged" in message


def test_a_file_that_is_cut_off_says_in_which_record(write):
    size = os.path.getsize(write(RECORDS[:2]))
    for keep in range(1, size):
        if keep == 16 + len(RECORDS[0]):
            continue  # between two records, where a cut cannot be noticed
        records, message = read_until_error(write(RECORDS[:2], change=lambda data, keep=keep: data[:keep]))
        number = 1 if keep < 16 + len(RECORDS[0]) else 2
        assert records == RECORDS[: number - 1]
        assert f": record {number} " in message
        assert "is cut off" in message


@pytest.mark.parametrize("compression", PACKED)
@pytest.mark.parametrize("length", [1 << 29, 1 << 40, (1 << 64) - 1])
@pytest.mark.parametrize("place", ["", "file://"])
def test_an_impossible_length_allocates_no_memory(write, compression, length, place):
    packed_length = struct.pack("<Q", length)
    header = packed_length + struct.pack("<I", masked_crc32c(packed_length))
    pack = PACKED[compression]
    path = place + write(RECORDS[:2], change=lambda data: pack(data + header + b"nothing"))
    start = ": record 3 is damaged" if compression else ": record 3 (at byte 37) is cut off or damaged"
    with memory_below(2_000_000):
        records, message = read_until_error(path)
        with pytest.raises(InputError, match="it claims to have"):
            record_offsets(path, 1)
    assert records == RECORDS[:2]
    assert message.startswith(f"{start}: it claims to have {length:,} bytes, but ")
    path = write(change=lambda data: packed_length + bytes(4) + data[12:])
    with memory_below(2_000_000):
        records, message = read_until_error(path)
    assert (records, "is not a TFRecord file" in message) == ([], True)


@pytest.mark.parametrize("compression", ["GZIP", "ZSTD"])
def test_records_before_the_end_or_the_damage_of_a_compressed_file_are_read(write, compression):
    # zstd decompresses a block of 128 kB completely or not at all.
    whole = [os.urandom(50_000) for _ in range(10)]
    path = write(whole, compression)
    for keep in (10, os.path.getsize(path) // 2, os.path.getsize(path) - 1):
        records, message = read_until_error(write(whole, compression, lambda data, keep=keep: data[:keep]))
        most_lost = 50_000 if compression == "GZIP" else 50_000 + (128 << 10)
        assert sum(map(len, records)) >= min(keep, 500_000) - most_lost - 200
        assert records == whole[: len(records)]
        assert message.startswith(f": record {len(records) + 1} cannot be decompressed: the file is cut off after ")
        assert "Fetch or make the file again" in message
    records, message = read_until_error(write([os.urandom(9999)], compression, flip(5000)))
    assert (records, ": record 1 " in message) == ([], True)


def test_text_and_a_missing_file_are_refused(tmp_path):
    (tmp_path / "text").write_text("This is no record file, but a text of some length.")
    assert read_until_error(str(tmp_path / "text"))[1].startswith(" is not a TFRecord file")
    for name in (tmp_path / "missing", f"file://{tmp_path}/missing", tmp_path):
        with pytest.raises(InputError, match="Cannot read "):
            list(iterate_records(name))


def test_a_folder_matches_its_record_files_only(tmp_path):
    for name in ("b.tfrecord", "a.tfrecord.gz", "train.tf_record", "b.tfrecord.json", "manifest.json", "vocab.txt"):
        (tmp_path / name).touch()
    names = [str(tmp_path / name) for name in ("a.tfrecord.gz", "b.tfrecord", "train.tf_record")]
    assert list_records(str(tmp_path)) == names
    assert list_records([tmp_path, tmp_path / "*.tfrecord*"]) == names


def test_a_file_is_read_once_however_it_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.tfrecord").touch()
    (tmp_path / "link").symlink_to("folder")
    assert list_records("folder/a.tfrecord,./folder/a.tfrecord,link") == ["folder/a.tfrecord"]
    assert list_records(["link", tmp_path / "folder"]) == ["link/a.tfrecord"]
