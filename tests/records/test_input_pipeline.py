import gzip

import example_bytes
import numpy as np
import pytest
import tensorflow as tf
from example_records import renamed, write_records

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.datasets import naming_damaged_records, pretraining_dataset, rows_dataset
from keras_bert.records.files import list_records
from keras_bert.records.token_rows import TokenRows

SEQ, PREDICTIONS = 8, 2


def example(number, seq=SEQ, predictions=PREDICTIONS):
    """A record whose ids contain its number."""
    return {
        "input_ids": np.full(seq, number),
        "input_mask": np.ones(seq, int),
        "segment_ids": np.array([0] * 4 + [1] * (seq - 4)),
        "masked_lm_positions": np.arange(1, predictions + 1),
        "masked_lm_ids": np.full(predictions, number),
        "masked_lm_weights": np.array([1.0] * (predictions - 1) + [0.0]),
        "next_sentence_labels": np.array([number % 2]),
    }


def serialize(values):
    seq, predictions = len(values["input_ids"]), len(values["masked_lm_ids"])
    return example_bytes.serialize(values, features.pretraining_features(seq, predictions))


def write(path, numbers, **lengths):
    return write_records(path, [serialize(example(number, **lengths)) for number in numbers])


def numbers_of(dataset, num_batches=None):
    return [batch["input_ids"][:, 0].numpy().tolist() for batch in (dataset.take(num_batches or -1))]


def evaluation(patterns, batch_size=4, **options):
    return pretraining_dataset(patterns, batch_size, shuffle=False, repeat=False, **options)


def test_a_batch_holds_all_features_with_their_dtypes(tmp_path):
    write(tmp_path / "a.tfrecord", range(5))
    batch = next(iter(evaluation(str(tmp_path), batch_size=3)))
    assert {name: (tuple(value.shape), value.dtype.name) for name, value in batch.items()} == {
        "input_ids": ((3, 8), "int32"),
        "input_mask": ((3, 8), "int32"),
        "segment_ids": ((3, 8), "int32"),
        "masked_lm_positions": ((3, 2), "int32"),
        "masked_lm_ids": ((3, 2), "int32"),
        "masked_lm_weights": ((3, 2), "float32"),
        "next_sentence_labels": ((3, 1), "int32"),
    }
    for name, values in example(2).items():
        assert batch[name][2].numpy().tolist() == values.tolist()


def test_evaluation_gives_every_record_once_in_order_with_a_small_last_batch(tmp_path):
    write(tmp_path / "b.tfrecord", range(5, 7))
    write(tmp_path / "a.tfrecord", range(5))
    dataset = evaluation(str(tmp_path / "*.tfrecord"))
    assert numbers_of(dataset) == [[0, 1, 2, 3], [4, 5, 6]]
    assert numbers_of(dataset) == [[0, 1, 2, 3], [4, 5, 6]]


def test_the_same_seed_gives_the_same_batches_and_another_does_not(tmp_path):
    for name in "abc":
        write(tmp_path / f"{name}.tfrecord", range(ord(name), ord(name) + 20))
    first, again, other = (numbers_of(pretraining_dataset(str(tmp_path), 4, seed=seed), 40) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_fewer_records_than_a_batch_still_train(tmp_path):
    write(tmp_path / "a.tfrecord", [1, 2])
    assert [len(batch) for batch in numbers_of(pretraining_dataset(str(tmp_path), 5), 2)] == [5, 5]


def test_records_of_tf_model_garden_are_read(tmp_path):
    lists = [{name: values.tolist() for name, values in example(number).items()} for number in range(3)]
    garden = [renamed(record, input_ids="input_word_ids", segment_ids="input_type_ids") for record in lists]
    batch = next(iter(evaluation(write_records(tmp_path / "garden.tfrecord", garden))))
    assert sorted(batch) == sorted(example(0))
    assert batch["input_ids"][:, 0].numpy().tolist() == [0, 1, 2]
    assert batch["segment_ids"][0].numpy().tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def compress(data, compression):
    if compression == "zstd":
        return pytest.importorskip("zstandard").ZstdCompressor().compress(data)
    return gzip.compress(data) if compression == "gzip" else data


def test_zstd_files_give_the_batches_of_uncompressed_files(tmp_path):
    for folder in ("plain", "zstd", "mixed"):
        (tmp_path / folder).mkdir()
    for number, name in enumerate("abc"):
        plain = tmp_path / "plain" / f"{name}.tfrecord"
        # More records than Python passes to TensorFlow in one call.
        write(plain, range(300 * number, 300 * number + 300))
        data = plain.read_bytes()
        (tmp_path / "zstd" / f"{name}.tfrecord").write_bytes(compress(data, "zstd"))
        (tmp_path / "mixed" / f"{name}.tfrecord").write_bytes(compress(data, ["zstd", "gzip", ""][number]))
    for read in (evaluation, lambda *arguments: pretraining_dataset(*arguments, seed=5).take(60)):
        plain = numbers_of(read(str(tmp_path / "plain"), 64))
        assert numbers_of(read(str(tmp_path / "zstd"), 64)) == plain
        assert numbers_of(read(str(tmp_path / "mixed"), 64)) == plain


@pytest.mark.parametrize("compression", ["", "gzip", "zstd"])
@pytest.mark.parametrize("damage", ["a wrong byte", "the end is missing"])
def test_damage_in_the_middle_is_named_when_it_is_met(tmp_path, compression, damage, capsys):
    draw = np.random.default_rng(0)
    for name in ("a", "b"):  # with random numbers, which cannot be compressed much
        records = [example(number) | {"input_ids": draw.integers(0, 1 << 40, SEQ)} for number in range(300)]
        write_records(tmp_path / f"{name}.tfrecord", map(serialize, records))
    path = tmp_path / "b.tfrecord"
    data = bytearray(compress(path.read_bytes(), compression))
    if damage == "a wrong byte":
        data[len(data) // 2] ^= 0x10
    else:
        data = data[: len(data) * 2 // 3]
    path.write_bytes(data)
    with (
        pytest.raises(InputError, match=r"b\.tfrecord(: record \d+ .*| is cut off .*)") as caught,
        naming_damaged_records(str(tmp_path)),
    ):
        for _ in pretraining_dataset(str(tmp_path), 4):
            pass
    assert "\n" not in str(caught.value)
    assert "again" in str(caught.value)
    capsys.readouterr()


def test_records_that_change_on_the_way_are_named(tmp_path):
    path = write_records(tmp_path / "a.tfrecord", map(serialize, (example(1), example(2), example(3, seq=9))))
    with pytest.raises(InputError, match="record 3: .*input_ids has 9 numbers"), naming_damaged_records(path):
        list(evaluation(path))


WRONG_NUMBERS = [
    ("input_ids", [1, -5, *range(6)], "-5, but ids are 0 or more"),
    ("input_mask", [9] + [1] * 7, "9, but it numbers the sequences of a row, 8 at most"),
    ("segment_ids", [-1] * 8, "-1, but 0 is the least"),
    ("masked_lm_positions", [0, 10**18], "1000000000000000000, but the columns of a row go from 0 to 7"),
    ("masked_lm_ids", [3, -1], "-1, but ids are 0 or more"),
    ("masked_lm_weights", [1.0, np.inf], "inf, but weights are finite and not negative"),
    ("masked_lm_weights", [1.0, np.nan], "nan, but weights are finite and not negative"),
    ("masked_lm_weights", [1.0, -1.0], "-1.0, but weights are finite and not negative"),
    ("next_sentence_labels", [7], "7, but these labels are 0 and 1"),
]


def write_changed(path, numbers, changes):
    """Records, the last of which has other numbers."""
    *others, last = map(example, numbers)
    return write_records(path, map(serialize, [*others, last | changes]))


@pytest.mark.parametrize(("name", "values", "message"), WRONG_NUMBERS)
def test_an_impossible_number_is_named_with_its_file_and_record(tmp_path, capsys, name, values, message):
    message, changes = f"{name} holds {message}", {name: values}
    write(tmp_path / "a.tfrecord", range(20))
    path = write_changed(tmp_path / "b.tfrecord", range(4), changes)
    assert len(numbers_of(evaluation(str(tmp_path / "a.tfrecord")))) == 5
    for read in (evaluation, lambda *arguments: pretraining_dataset(*arguments).take(10)):
        with pytest.raises(InputError) as caught, naming_damaged_records(str(tmp_path)):
            list(read(str(tmp_path), 4))
        assert str(caught.value).startswith(f"{path}: record 4: {message}")
    # The first record of a file is checked before training.
    path = write_changed(tmp_path / "c.tfrecord", [0], changes)
    with pytest.raises(InputError) as caught:
        pretraining_dataset([str(tmp_path / "a.tfrecord"), path], 4)
    assert str(caught.value).startswith(f"{path}: {message}")
    capsys.readouterr()


def test_numbers_outside_the_config_are_named(tmp_path, capsys):
    path = write_changed(tmp_path / "a.tfrecord", range(4), {"segment_ids": [3] * 8, "masked_lm_ids": [1, 99]})
    config = BertConfig.from_size("tiny", vocab_size=99, type_vocab_size=3)
    for changes, message in [
        ({}, r"a\.tfrecord: record 4: masked_lm_ids holds 99, but the ids of this config go from 0 to 98"),
        ({"vocab_size": 100}, r"record 4: segment_ids holds 3, but this config has 3 segments \(type_vocab_size\)"),
        ({"vocab_size": 100, "type_vocab_size": 4}, None),
    ]:
        changed = config.replace(**changes)
        dataset = evaluation(path, config=changed)
        if message is None:
            assert len(list(dataset)) == 1
        else:
            with pytest.raises(InputError, match=message), naming_damaged_records(path, changed):
                list(dataset)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("input_ids", [1.0] * 8, "input_ids holds floats, but integers are expected"),
        ("input_ids", [b"1"] * 8, "input_ids holds bytes, but integers are expected"),
        ("masked_lm_weights", [1, 0], "masked_lm_weights holds integers, but floats are expected"),
    ],
)
def test_numbers_of_another_type_are_named(tmp_path, capsys, name, values, message):
    lists = {key: list_.tolist() for key, list_ in example(1).items()}
    good, bad = lists, lists | {name: values}
    path = write_records(tmp_path / "a.tfrecord", [good, bad])
    with pytest.raises(InputError, match=rf"a\.tfrecord: record 2: {message}"), naming_damaged_records(path):
        list(evaluation(path))
    path = write_records(tmp_path / "b.tfrecord", [bad, good])
    with pytest.raises(InputError, match=rf"b\.tfrecord: {message}"):
        pretraining_dataset(path, 1)
    capsys.readouterr()


def test_a_file_that_is_gone_is_named(tmp_path):
    paths = [write(tmp_path / f"{name}.tfrecord", [1]) for name in "ab"]
    dataset = evaluation(paths)
    (tmp_path / "b.tfrecord").unlink()
    with pytest.raises(InputError, match=r"No file matches .*b\.tfrecord"), naming_damaged_records(paths):
        list(dataset)


def test_damage_that_has_disappeared_is_reported(tmp_path):
    path = tmp_path / "a.tfrecord"
    write(path, range(50))
    data = path.read_bytes()

    def read_while_the_disk_fails():
        dataset = evaluation(str(path))
        path.write_bytes(data[:1000] + b"?" + data[1001:])
        try:
            list(dataset)
        finally:
            path.write_bytes(data)

    with pytest.raises(InputError, match="but now all records can"), naming_damaged_records(str(path)):
        read_while_the_disk_fails()


def test_errors_that_are_not_about_records_are_left_alone(tmp_path):
    with pytest.raises(tf.errors.InvalidArgumentError), naming_damaged_records(str(tmp_path)):
        tf.debugging.assert_equal(1, 2)


def test_patterns_may_be_a_list_or_parted_by_commas_and_a_file_counts_once(tmp_path):
    a, b = write(tmp_path / "a[1].tfrecord", [1]), write(tmp_path / "b.tfrecord", [2])
    assert list_records(f"{b},{a},{tmp_path}/*") == [a, b]
    assert list_records([b, a]) == [a, b]


def test_empty_files_are_passed_over(tmp_path):
    (tmp_path / "a.tfrecord").write_bytes(b"")
    write(tmp_path / "b.tfrecord", [1])
    assert numbers_of(evaluation(str(tmp_path))) == [[1]]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing-*.tfrecord", r"No file matches .*nothing-\*"),
        ("missing.tfrecord", r"No file matches .*missing\.tfrecord"),
        ("folder", r"The folder .*folder has no file named \*\.tfrecord\*"),
        ("empty.tfrecord", "The files that match .* have no records"),
        ("text.tfrecord", r"text\.tfrecord is not a TFRecord file"),
        ("beginning.tfrecord", r"beginning\.tfrecord: record 1 \(at byte 0\) is cut off"),
        ("other.tfrecord", r"other\.tfrecord: its records have no input_ids\. They have: text"),
        ("noise.tfrecord", r"noise\.tfrecord: .* not tf.train.Example messages"),
    ],
)
def test_files_without_records_are_refused_by_name(tmp_path, name, message):
    write(tmp_path / "whole.bin", range(50))
    data = (tmp_path / "whole.bin").read_bytes()
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.tfrecord").write_bytes(b"")
    (tmp_path / "text.tfrecord").write_text("One sentence a line.\n" * 100)
    (tmp_path / "beginning.tfrecord").write_bytes(data[:40])
    write_records(tmp_path / "other.tfrecord", [{"text": [b"hello"]}])
    write_records(tmp_path / "noise.tfrecord", [b"\xff\xff\xff\xff noise"])
    with pytest.raises(InputError, match=message):
        pretraining_dataset(str(tmp_path / name), 1)


def test_a_file_cut_off_anywhere_is_noticed_and_a_whole_one_is_not(tmp_path):
    path = tmp_path / "a.tfrecord"
    write(path, range(20))
    data = path.read_bytes()
    record_size = len(data) // 20
    assert len(data) == 20 * record_size
    for num_missing in (1, 3, 4, 5, 7, 15, 16, 17, record_size - 1, record_size + 1, 3 * record_size + 12):
        path.write_bytes(data[:-num_missing])
        with pytest.raises(InputError, match=r"a\.tfrecord is cut off in the middle of a record"):
            pretraining_dataset(str(path), 1)
    path.write_bytes(data[:-record_size])
    pretraining_dataset(str(path), 1)


CONFIG = BertConfig.from_size("tiny", vocab_size=100)
REFUSED = [
    ({"max_seq_length": 128}, r"a\.tfrecord: input_ids has 8 numbers in its records, but 128 are expected"),
    ({"max_predictions_per_seq": 20}, "masked_lm_positions has 2 numbers .* but 20 are expected"),
    ({"config": CONFIG.replace(vocab_size=99)}, r"a\.tfrecord: input_ids holds 99, but .* to 98 \(vocab_size=99\)"),
    ({"config": CONFIG.replace(max_position_embeddings=4)}, "length of 8 is more than this model's 4 positions"),
    ({"batch_size": 0}, "batch_size must be a whole number of at least 1. Received: 0"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_records_that_do_not_fit_are_refused(tmp_path, arguments, message):
    path = write(tmp_path / "a.tfrecord", [99])
    assert numbers_of(evaluation(path, config=CONFIG)) == [[99]]
    with pytest.raises(InputError, match=message):
        pretraining_dataset(path, **{"batch_size": 1, **arguments})


def rows_of_lengths(lengths):
    """Rows of the ids 1, 2, 3, ...; the label is the length."""
    tokens = np.concatenate([np.arange(1, length + 1) for length in lengths]).astype(np.int32)
    columns = {features.INPUT_IDS: tokens, features.SEGMENT_IDS: tokens % 2}
    splits = np.concatenate([[0], np.cumsum(lengths)])
    return TokenRows(columns, splits, {features.LABEL_IDS: np.array(lengths, np.int32)})


def test_rows_become_batches_of_similar_length():
    batches = list(rows_dataset(rows_of_lengths([3, 9, 2, 8]), 2))
    assert [batch["label_ids"].numpy().tolist() for batch in batches] == [[9, 8], [3, 2]]
    assert {name: (tuple(value.shape), value.dtype.name) for name, value in batches[0].items()} == {
        "input_ids": ((2, 9), "int32"),
        "input_mask": ((2, 9), "int32"),
        "segment_ids": ((2, 9), "int32"),
        "label_ids": ((2,), "int32"),
    }
    assert batches[1]["input_ids"].numpy().tolist() == [[1, 2, 3], [1, 2, 0]]
    assert batches[1]["input_mask"].numpy().sum(axis=1).tolist() == [3, 2]


def test_training_can_begin_at_any_batch():
    rows = rows_of_lengths(range(1, 12))
    labels = [batch["label_ids"].numpy().tolist() for batch in rows_dataset(rows, 4, shuffle=True, repeat=True).take(9)]
    later = rows_dataset(rows, 4, shuffle=True, repeat=True, start_step=4).take(5)
    assert [batch["label_ids"].numpy().tolist() for batch in later] == labels[4:]
    for epoch in range(3):
        assert sorted(sum(labels[3 * epoch : 3 * epoch + 3], [])) == list(range(1, 12))
    assert labels[:3] != labels[3:6]
    other = rows_dataset(rows, 4, shuffle=True, repeat=True, seed=1).take(3)
    assert [batch["label_ids"].numpy().tolist() for batch in other] != labels[:3]


def test_no_rows_are_refused():
    with pytest.raises(InputError, match="There is no example"):
        rows_dataset(TokenRows({"input_ids": np.zeros(0, np.int32)}, np.zeros(1, np.int64)), 1)


def test_no_thread_tunes_the_input_while_it_is_read(tmp_path):
    # Deleting an iterator would wait for that thread, up to a minute after `fit`.
    records = write(tmp_path / "a.tfrecord", range(8))
    for dataset in (pretraining_dataset(records, batch_size=2), rows_dataset(rows_of_lengths([1, 2]), 2)):
        assert dataset.options().autotune.enabled is False
