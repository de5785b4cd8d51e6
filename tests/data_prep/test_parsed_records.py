import numpy as np
import pytest
from example_records import PAIR, example, write_records

from data_prep.inspection.parsed_records import find_features, parse_batch, read_batches
from keras_bert.program.errors import InputError


def test_features_and_their_types_are_found_in_the_first_records():
    records = [example(a=[1], later=[], empty=[]), example(later=[0.5], text=[b"x"], empty=[])]
    dtypes = {name: feature.dtype.name for name, feature in find_features(records).items()}
    assert dtypes == {"a": "int64", "later": "float32", "text": "string"}


def test_lists_of_any_length_are_padded():
    records = [example(a=[1, 2, 3]), example(a=[4]), example()]
    columns = parse_batch(records, find_features(records))
    np.testing.assert_array_equal(columns["a"].values, [[1, 2, 3], [4, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(columns["a"].lengths, [3, 1, 0])


def test_all_records_of_a_file_come_in_order(tmp_path):
    path = write_records(tmp_path / "records", [{"number": [number]} for number in range(1300)])
    batches = list(read_batches(path))
    assert [number for batch in batches for number in batch["number"].values[:, 0]] == list(range(1300))
    assert sum(len(batch["number"].lengths) for batch in read_batches(path, most=700)) == 700


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"\xff\xff text", "is not a tf.train.Example message"),
        (example(input_ids=[0.5]), "is not a tf.train.Example message with the features of the first: "),
    ],
)
@pytest.mark.parametrize("place", [1, 20, 600])
def test_a_record_that_cannot_be_parsed_is_named_after_those_before_it_were_read(tmp_path, bad, reason, place):
    records = [PAIR] * 700
    records[place] = bad
    path = write_records(tmp_path / "records", records)
    batches = []
    with pytest.raises(InputError) as caught:
        batches.extend(read_batches(path))
    assert sum(len(batch["input_ids"].lengths) for batch in batches) == place
    assert str(caught.value).startswith(f"{path}: record {place + 1} {reason}")


def test_a_record_without_features_is_named(tmp_path):
    path = write_records(tmp_path / "records", [example()])
    with pytest.raises(InputError, match="record 1 has no features"):
        list(read_batches(path))
