import pytest

from data_prep.finetuning.data_folder import TABLE_ENDINGS, find_parts
from keras_bert.program.errors import InputError


@pytest.mark.parametrize(
    ("names", "parts", "endings"),
    [
        (["train.tsv", "dev.csv.gz", "test.jsonl"], ["train", "eval", "predict"], [".tsv", ".csv", ".jsonl"]),
        (["Train.JSONL", "dev.ndjson"], ["train", "eval"], TABLE_ENDINGS),
        (["train-v2.0.json", "dev-v2.0.json"], ["train", "eval"], [".json"]),  # those of SQuAD
    ],
)
def test_the_parts_of_a_folder_are_found_by_name(tmp_path, names, parts, endings):
    for name in (*names, "other.tsv"):
        (tmp_path / name).touch()
    assert find_parts(tmp_path, endings) == {
        part: str(tmp_path / name) for part, name in zip(parts, names, strict=True)
    }


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("several", "several files to evaluate on: dev.tsv, dev.csv. Name one.*--eval_file"),
        ("empty", r"has no train, dev or test file: train.tsv, dev.tsv, test.tsv \(or .csv\)"),
        ("none", "There is no folder"),
    ],
)
def test_a_folder_without_one_file_for_each_part_is_refused(tmp_path, folder, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "several").mkdir()
    for name in ("train.tsv", "dev.tsv", "dev.csv"):
        (tmp_path / "several" / name).touch()
    with pytest.raises(InputError, match=message):
        find_parts(tmp_path / folder, [".tsv", ".csv"])
