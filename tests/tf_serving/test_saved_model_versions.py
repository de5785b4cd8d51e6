import os

import pytest

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.versions import find_version_folder, new_version, next_version_folder


def make(folder, *names):
    for name in names:
        (folder / name).mkdir()
        (folder / name / "saved_model.pb").touch()


@pytest.mark.parametrize(
    ("names", "newest", "next_number"),
    [
        ([], None, "1"),
        (["1", "model.weights.h5", "-99", "12.partial", ".13", "x14", "\u0661\u0665"], "1", "2"),
        (["2", "00000009"], "00000009", "10"),  # servers count leading zeros like this
        (["2", "00000009", "10"], "10", "11"),
    ],
)
def test_versions_count_up_and_other_names_do_not_matter(tmp_path, names, newest, next_number):
    make(tmp_path, *names)
    assert next_version_folder(tmp_path) == str(tmp_path / next_number)
    assert next_version_folder(f"{tmp_path}/new") == f"{tmp_path}/new/1"
    if newest:
        assert find_version_folder(tmp_path) == find_version_folder(tmp_path / newest) == str(tmp_path / newest)


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


def test_what_is_no_saved_model_is_named(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other" / "7").mkdir(parents=True)
    (tmp_path / "file").touch()
    for function, name, message in [
        (next_version_folder, "file", "file is a file. Give the name of a folder"),
        (find_version_folder, "file", "file is a file. Give the folder of a SavedModel"),
        (find_version_folder, "nothing", "nothing: no such folder"),
        (find_version_folder, "empty", "neither saved_model.pb nor a folder of a version.* It has: nothing"),
        (find_version_folder, ".", "It has: empty, file, other"),
        (find_version_folder, "other", "7 is not a SavedModel: it has no saved_model.pb"),
    ]:
        with pytest.raises(InputError, match=message):
            function(tmp_path / name)
