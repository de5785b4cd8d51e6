import pytest

from data_prep.finetuning.data_folder import TABLE_ENDINGS, find_parts
from keras_bert.program.errors import InputError


def test_the_parts_of_a_folder_are_found_by_name(tmp_path):
    for name in ("train.tsv", "dev.csv.gz", "test.jsonl", "other.tsv"):
        (tmp_path / name).touch()
    expected = {"train": "train.tsv", "eval": "dev.csv.gz", "predict": "test.jsonl"}
    assert find_parts(tmp_path, [".tsv", ".csv", ".jsonl"]) == {
        part: str(tmp_path / name) for part, name in expected.items()
    }


def test_names_are_found_in_either_case(tmp_path):
    for name in ("Train.JSONL", "dev.ndjson"):
        (tmp_path / name).touch()
    assert find_parts(tmp_path, TABLE_ENDINGS) == {
        "train": str(tmp_path / "Train.JSONL"),
        "eval": str(tmp_path / "dev.ndjson"),
    }


def test_the_files_of_squad_are_known(tmp_path):
    for name in ("train-v2.0.json", "dev-v2.0.json"):
        (tmp_path / name).touch()
    assert list(find_parts(tmp_path, [".json"])) == ["train", "eval"]


def test_two_files_for_one_part_are_refused(tmp_path):
    for name in ("train.tsv", "dev.tsv", "dev.csv"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match="several files to evaluate on: dev.tsv, dev.csv. Name one.*--eval_file"):
        find_parts(tmp_path, [".tsv", ".csv"])


def test_a_folder_without_files_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"has no train, dev or test file: train.tsv, dev.tsv, test.tsv \(or .csv\)"):
        find_parts(tmp_path, [".tsv", ".csv"])
    with pytest.raises(InputError, match="There is no folder"):
        find_parts(tmp_path / "none", [".tsv"])
