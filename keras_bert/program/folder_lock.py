"""Allows one writer at a time in a folder."""

import contextlib
import os
from collections.abc import Iterator
from typing import IO

from keras_bert.program.errors import InputError


@contextlib.contextmanager
def only_writer(path: str | os.PathLike) -> Iterator[None]:
    """Holds the lock file `path` while the block runs. The system releases it when the process ends, however it ends.

    Raises:
        InputError: another process holds it, or the file system has no locks.
    """
    try:
        import fcntl
    except ImportError:  # Windows: no lock.
        yield
        return
    while True:
        with open(path, "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"Another process is writing to {os.path.dirname(os.path.abspath(path))}. Wait for it, or use "
                    "another folder."
                ) from None
            except OSError as error:
                raise InputError(f"Cannot lock {path}: {error.strerror}. Use a folder on a local disk.") from None
            if not _is_at(file, path):
                continue  # its last holder has removed this file, and another process may hold a new one
            try:
                yield
            finally:
                # The lock is still held here, so no other process can hold a file that is being removed.
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)
            return


def _is_at(file: IO, path: str | os.PathLike) -> bool:
    """Returns whether the open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
