import contextlib
import fcntl
import os
import pathlib
import subprocess
import sys

import pytest

from keras_bert.program.atomic_output import atomic_file, atomic_folder, replacement_folder, temporary_folder
from keras_bert.program.errors import InputError
from keras_bert.program.folder_lock import held_folder, only_writer
from keras_bert.tf_serving.versions import new_version


@pytest.fixture
def between_open_and_lock(monkeypatch):
    """Returns a function that takes an action, which runs once between opening and locking the lock file."""

    def arrange(run):
        flock, pending = fcntl.flock, [run]

        def interleaved(*arguments):
            if pending:
                pending.pop()()
            flock(*arguments)

        monkeypatch.setattr(fcntl, "flock", interleaved)

    return arrange


def test_one_writer_at_a_time_holds_the_lock_and_removes_it(tmp_path):
    for _ in ("first", "next"):
        with only_writer(tmp_path / "lock"):
            with pytest.raises(InputError, match=f"Another process is writing to {tmp_path}"):
                only_writer(tmp_path / "lock").__enter__()
            assert (tmp_path / "lock").exists()
        assert not (tmp_path / "lock").exists()


def test_a_lock_file_that_is_removed_between_open_and_lock_is_not_held_twice(tmp_path, between_open_and_lock):
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        first.enter_context(only_writer(tmp_path / "lock"))

        def change_hands():
            first.close()
            second.enter_context(only_writer(tmp_path / "lock"))

        between_open_and_lock(change_hands)
        with pytest.raises(InputError, match="Another process is writing"):
            only_writer(tmp_path / "lock").__enter__()
        assert (tmp_path / "lock").exists(), "the second writer still holds it"


def test_a_lock_that_was_released_meanwhile_is_taken_again(tmp_path, between_open_and_lock):
    first = contextlib.ExitStack()
    first.enter_context(only_writer(tmp_path / "lock"))
    between_open_and_lock(first.close)
    with only_writer(tmp_path / "lock"):
        assert (tmp_path / "lock").exists(), "other processes must find the locked file"
        with pytest.raises(InputError, match="Another process is writing"):
            only_writer(tmp_path / "lock").__enter__()


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(InputError, match="Cannot lock .*lock: Operation not supported. Use a folder on a local disk"):
        only_writer(tmp_path / "lock").__enter__()


KILLED_WRITER = """
import os, sys
from keras_bert.{module} import {function}
with {function}(sys.argv[1]) as folder:
    if "{function}" != "atomic_file":
        open(os.path.join(getattr(folder, "folder", folder), "a"), "w").close()
    os._exit(9)
"""


def kill_while_writing(path, function="atomic_folder", module="program.atomic_output"):
    program = KILLED_WRITER.format(function=function, module=module)
    assert subprocess.run([sys.executable, "-c", program, os.fspath(path)], check=False).returncode == 9


def test_the_folder_of_a_killed_writer_is_removed_by_the_next_one_and_that_of_a_living_one_is_not(tmp_path):
    kill_while_writing(tmp_path / "out")
    [left] = tmp_path.iterdir()
    with atomic_folder(tmp_path / "else"), atomic_folder(tmp_path / "out2"):
        assert left.exists()
    with temporary_folder(tmp_path / "out") as alive, atomic_folder(tmp_path / "out") as folder:
        assert os.path.isdir(alive)
        pathlib.Path(folder, "b").touch()
    assert sorted(os.listdir(tmp_path)) == ["else", "out", "out2"]


def test_the_file_of_a_killed_writer_is_removed_by_the_next_one_and_that_of_a_living_one_is_not(tmp_path):
    kill_while_writing(tmp_path / "out", "atomic_file")
    [left] = tmp_path.iterdir()
    with atomic_file(tmp_path / "out2"):
        assert left.exists()
    with atomic_file(tmp_path / "out") as alive:
        assert not left.exists()
        with atomic_file(tmp_path / "out") as other:
            other.write(b"other")
        alive.write(b"alive")
    assert (tmp_path / "out").read_bytes() == b"alive"
    assert sorted(os.listdir(tmp_path)) == ["out", "out2"]


@pytest.mark.parametrize("others", [(), ("1",)])
def test_the_next_version_removes_what_a_killed_export_has_left(tmp_path, others):
    (tmp_path / "model").mkdir()
    kill_while_writing(tmp_path / "model", "new_version", "tf_serving.versions")
    assert [name[:11] for name in os.listdir(tmp_path / "model")] == [".1.partial-"]
    for other in others:  # an export at the same time was faster
        (tmp_path / "model" / other).mkdir()
    with new_version(tmp_path / "model"):
        pass
    assert sorted(os.listdir(tmp_path / "model")) == sorted([*others, str(len(others) + 1)])


def test_both_folders_of_a_replacement_that_was_cut_off_stay_until_the_output_is_there_again(tmp_path):
    for name in (".out.partial-0123abcd", ".out.replaced-4567cdef"):
        (tmp_path / name).mkdir()
    with atomic_folder(tmp_path / "out"):
        assert len(os.listdir(tmp_path)) == 3
    assert len(os.listdir(tmp_path)) == 3
    with replacement_folder(tmp_path / "out"):
        pass
    assert os.listdir(tmp_path) == ["out"]


def test_a_new_folder_that_another_process_takes_for_an_abandoned_one_is_made_again(tmp_path, between_open_and_lock):
    between_open_and_lock(lambda: (tmp_path / "new").rmdir())
    with held_folder(str(tmp_path / "new")):
        assert (tmp_path / "new").is_dir()
