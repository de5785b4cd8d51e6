import errno
import os
import resource
import subprocess
import sys

import pytest

from keras_bert.atomic_output import (
    atomic_file,
    atomic_folder,
    check_output_folder,
    check_replaces_no_input,
    remove_partial_files,
    say_why_writing_failed,
)
from keras_bert.errors import InputError


def _write_and_raise(file, error):
    file.write(b"half")
    raise error


def test_file_appears_whole_under_its_name(tmp_path):
    with atomic_file(tmp_path / "new" / "out.txt") as file:
        file.write(b"all of it")
        assert not (tmp_path / "new" / "out.txt").exists()
    assert (tmp_path / "new" / "out.txt").read_bytes() == b"all of it"
    assert os.listdir(tmp_path / "new") == ["out.txt"]


def test_an_error_leaves_the_old_file_and_no_temporary_one(tmp_path):
    (tmp_path / "out.txt").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), atomic_file(tmp_path / "out.txt") as file:
        _write_and_raise(file, KeyboardInterrupt)
    assert (tmp_path / "out.txt").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_an_output_that_is_an_input_is_refused_however_it_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "text.txt").write_text("text")
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "name").symlink_to("folder/text.txt")
    for output in ("folder/text.txt", "./folder/../folder/text.txt", tmp_path / "link" / "text.txt", "name"):
        with pytest.raises(InputError, match="text.txt is read by this command|name is read by this command"):
            check_replaces_no_input(output, ["other", "folder/text.txt"])
    check_replaces_no_input("folder/new.txt", ["folder/text.txt"])


def test_folder_appears_whole_under_its_name(tmp_path):
    with atomic_folder(tmp_path / "model") as folder:
        with open(os.path.join(folder, "a"), "w") as file:
            file.write("a")
        assert not (tmp_path / "model").exists()
        assert not os.path.basename(folder).isdigit()
    assert os.listdir(tmp_path / "model") == ["a"]
    assert os.listdir(tmp_path) == ["model"]


def test_an_error_leaves_no_folder(tmp_path):
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "model") as folder, open(f"{folder}/a", "wb") as file:
        _write_and_raise(file, RuntimeError)
    assert os.listdir(tmp_path) == []


def test_a_folder_with_files_is_not_overwritten(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").write_text("mine")
    with pytest.raises(InputError, match="model is not empty. Remove it or give another name"):
        check_output_folder(tmp_path / "model")
    with pytest.raises(InputError, match="is a file. Give the name of a folder"):
        check_output_folder(tmp_path / "model" / "mine")
    with pytest.raises(InputError, match="a part of the path is a file"):
        check_output_folder(tmp_path / "model" / "mine" / "below")


def test_a_folder_is_not_taken_for_a_file(tmp_path):
    with pytest.raises(InputError, match="it is a folder. Give the name of a file"), atomic_file(tmp_path):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(InputError, match="permission denied"):
        check_output_folder(tmp_path / "locked" / "model")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT])
def test_refusals_of_the_system_become_one_clear_line(tmp_path, number):
    with pytest.raises(InputError, match=r"Cannot write .*out.txt: .*[a-z]"), atomic_file(tmp_path / "out.txt"):
        raise OSError(number, os.strerror(number))
    assert os.listdir(tmp_path) == []


def test_tensorflow_full_disk_error_is_recognised():
    # TensorFlow raises ResourceExhaustedError with the system's text in it.
    with pytest.raises(InputError, match="Cannot write out: no space is left"), say_why_writing_failed("out"):
        raise RuntimeError("/out/variables; No space left on device")


def test_other_errors_pass_unchanged(tmp_path):
    with pytest.raises(ZeroDivisionError), atomic_file(tmp_path / "out.txt"):
        raise ZeroDivisionError


def test_a_real_file_size_limit_is_reported_and_leaves_nothing(tmp_path):
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from keras_bert.atomic_output import atomic_file\n"
        "with atomic_file(sys.argv[1]) as file:\n"
        "    file.write(bytes(100_000))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "out")],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
    )
    assert "InputError: Cannot write" in result.stderr
    assert "a file grew over the size limit" in result.stderr
    assert os.listdir(tmp_path) == []


def test_what_a_killed_writer_left_is_removed(tmp_path):
    for name in (".a.partial-12345678", ".a.b.partial-12345678", "a"):
        (tmp_path / name).write_text("x")
    remove_partial_files(tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.b.partial-12345678", "a"]
