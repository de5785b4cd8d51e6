import contextlib
import fcntl

import pytest

from keras_bert.program.errors import InputError
from keras_bert.program.folder_lock import only_writer


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
    with only_writer(tmp_path / "lock"):
        with pytest.raises(InputError, match=f"Another process is writing to {tmp_path}"):
            only_writer(tmp_path / "lock").__enter__()
        assert (tmp_path / "lock").exists()
    assert not (tmp_path / "lock").exists()
    with only_writer(tmp_path / "lock"):
        pass


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
