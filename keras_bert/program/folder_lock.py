"""One writer at a time in a folder."""

import contextlib
import os
from collections.abc import Iterator
from typing import IO

from keras_bert.program.errors import InputError


@contextlib.contextmanager
def only_writer(path: str | os.PathLike) -> Iterator[None]:
    """Holds the lock file `path` while the block runs; the system lets it go when the process ends in any way.

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
                continue  # its last holder removed it after it was opened here: somebody else may hold a new one
            try:
                yield
            finally:
                # Removed while it is held: nobody can take it between.
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)
            return


def _is_at(file: IO, path: str | os.PathLike) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
