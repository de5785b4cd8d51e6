"""Allows one writer at a time in a folder, and tells the temporary output of dead processes from that in use."""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator

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
            if not _is_at(file.fileno(), path):
                continue  # its last holder has removed this file, and another process may hold a new one
            try:
                yield
            finally:
                # The lock is still held here, so no other process can hold a file that is being removed.
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)
            return


@contextlib.contextmanager
def waiting_for_folder(path: str | os.PathLike) -> Iterator[None]:
    """Waits until nobody else holds the lock of a folder, and holds it while the block runs.

    The block may put another folder in its place. Without locks, as on Windows, it does not wait.
    """
    path = os.path.realpath(path)
    while (descriptor := _lock(path, is_patient=True)) is not None and not _is_at(descriptor, path):
        os.close(descriptor)  # the one who held it has replaced the folder
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _is_at(descriptor: int, path: str | os.PathLike) -> bool:
    """Returns whether an open file or folder is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def held_folder(path: str, mode: int = 0o777) -> Iterator[None]:
    """Makes a folder and holds its lock while the block runs, so that `remove_unheld` leaves it alone."""
    while True:
        os.makedirs(path, mode)
        descriptor = _lock(path, is_patient=True)
        # Another process may have taken the new folder for an abandoned one.
        if os.path.isdir(path):
            break
        if descriptor is not None:
            os.close(descriptor)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def remove_unheld(paths: Iterable[str]) -> None:
    """Removes files and folders that no living process holds. Without locks, as on Windows, it removes none."""
    for path in paths:
        descriptor = _lock(path, is_patient=False)
        if descriptor is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.remove(path)
            os.close(descriptor)


def _lock(path: str, is_patient: bool) -> int | None:
    """Returns a descriptor that holds the lock of a file or folder; None if there is none, no lock, or a holder."""
    try:
        import fcntl

        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except (ImportError, OSError):  # Windows has no fcntl
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if is_patient else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
