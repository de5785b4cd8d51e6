import os

import pytest

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.versions import find_version_folder, new_version, next_version_folder


def make(folder, *names):
    for name in names:
        (folder / name).mkdir()
        (folder / name / "saved_model.pb").touch()


def test_the_first_version_is_1(tmp_path):
    assert next_version_folder(tmp_path) == str(tmp_path / "1")
    assert next_version_folder(str(tmp_path / "new")) == str(tmp_path / "new" / "1")


def test_versions_count_up_and_other_names_do_not_matter(tmp_path):
    make(tmp_path, "2", "00000009", "10", "model.weights.h5", "-99", "12.partial", ".13", "x14", "١٥")
    assert next_version_folder(tmp_path) == str(tmp_path / "11")
    assert find_version_folder(tmp_path) == str(tmp_path / "10")


def test_leading_zeros_count_as_servers_count_them(tmp_path):
    make(tmp_path, "2", "00000009")
    assert next_version_folder(tmp_path) == str(tmp_path / "10")
    assert find_version_folder(tmp_path) == str(tmp_path / "00000009")


def test_one_version_can_be_named(tmp_path):
    make(tmp_path, "1", "2")
    assert find_version_folder(tmp_path / "1") == str(tmp_path / "1")


def test_exports_at_once_get_a_number_each(tmp_path):
    make(tmp_path, "1")
    with new_version(tmp_path) as first:
        with new_version(tmp_path) as second, open(f"{second.folder}/saved_model.pb", "w") as file:
            file.write("second")
        with open(f"{first.folder}/saved_model.pb", "w") as file:
            file.write("first")
    assert (second.path, first.path) == (str(tmp_path / "2"), str(tmp_path / "3"))
    assert (tmp_path / "3" / "saved_model.pb").read_text() == "first"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3"]


def test_a_number_that_is_taken_in_the_last_moment_is_left_to_the_other(tmp_path, monkeypatch):
    rename = os.rename

    def other_is_faster(old, new):
        monkeypatch.setattr(os, "rename", rename)
        make(tmp_path, "1")
        rename(old, new)

    with new_version(tmp_path) as version:
        monkeypatch.setattr(os, "rename", other_is_faster)
    assert version.path == str(tmp_path / "2")


def test_a_file_is_no_export_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="The export folder .*file is a file. Give the name of a folder"):
        next_version_folder(tmp_path / "file")
    with pytest.raises(InputError, match="file is a file. Give the folder of a SavedModel"):
        find_version_folder(tmp_path / "file")


def test_what_is_no_saved_model_is_named(tmp_path):
    with pytest.raises(InputError, match="There is no SavedModel .*nothing: no such folder"):
        find_version_folder(tmp_path / "nothing")
    with pytest.raises(
        InputError, match="neither saved_model.pb nor a folder of a version, such as 1. It has: nothing"
    ):
        find_version_folder(tmp_path)
    (tmp_path / "vocab.txt").touch()
    with pytest.raises(InputError, match="It has: vocab.txt. Make one with export_model"):
        find_version_folder(tmp_path)
    (tmp_path / "7").mkdir()
    with pytest.raises(InputError, match="7 is not a SavedModel: it has no saved_model.pb. Export the model again"):
        find_version_folder(tmp_path)
