"""Output that appears whole or not at all: written under a temporary name, then renamed."""

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from typing import IO

from keras_bert.errors import InputError


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """Opens a binary file that takes its name only when the block ends without an error.

    Missing parent folders are made. On any error, Ctrl-C included, the temporary file is removed and whatever stood
    at `path` before is untouched.

    Raises:
        InputError: the place cannot be written to, or no space is left.
    """
    path = os.fspath(path)
    temporary = _temporary_name(path)
    try:
        with say_why_writing_failed(path):
            if os.path.isdir(path):  # said before the work, not after it
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            _make_parent(path)
            with open(temporary, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            os.remove(temporary)


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike) -> Iterator[str]:
    """Yields the path of a temporary folder that becomes `path` when the block ends without an error.

    The name of the temporary folder starts with a dot and is not a number, so TF Serving never takes it for a version.

    Raises:
        InputError: `path` exists and is not an empty folder, cannot be written to, or no space is left.
    """
    path = os.fspath(path)
    check_output_folder(path)
    temporary = _temporary_name(path)
    try:
        with say_why_writing_failed(path):
            os.makedirs(temporary)
            yield temporary
            if os.path.isdir(path):
                os.rmdir(path)
            os.rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_output_folder(path: str | os.PathLike) -> None:
    """Raises `InputError` when `path` is a file, a folder that is not empty, or a place that cannot be written to.

    Long work calls this before it starts.
    """
    path = os.fspath(path)
    if os.path.lexists(path) and not os.path.isdir(path):
        raise InputError(f"The output folder {path} is a file. Give the name of a folder.")
    if os.path.isdir(path) and os.listdir(path):
        raise InputError(f"The output folder {path} is not empty. Remove it or give another name.")
    with say_why_writing_failed(path):
        _make_parent(path)
        parent = os.path.dirname(os.path.abspath(path))
        if not os.access(parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), parent)


@contextlib.contextmanager
def say_why_writing_failed(path: str | os.PathLike) -> Iterator[None]:
    """Turns the operating system's refusals to write below `path` into one clear `InputError`.

    TensorFlow reports a full disk as its own error type, whose text names it; both kinds are recognised.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = _why_writing_failed(error)
        if reason is None:
            raise
        raise InputError(f"Cannot write {os.fspath(path)}: {reason}") from error


# In the names of files that are being written.
PARTIAL = ".partial-"
_REASONS = {
    errno.ENOSPC: "no space is left on the disk. Free some, or write to another disk",
    errno.EDQUOT: "the disk quota is used up. Free some space, or write to another disk",
    errno.EFBIG: "a file grew over the size limit. Raise it (ulimit -f), or write to another disk",
    errno.EACCES: "permission denied. Choose a folder that you may write to",
    errno.EPERM: "permission denied. Choose a folder that you may write to",
    errno.EROFS: "the file system is read-only. Choose another folder",
    errno.EISDIR: "it is a folder. Give the name of a file",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EEXIST: "a part of the path is a file, not a folder",
}


def _why_writing_failed(error: Exception) -> str | None:
    if isinstance(error, OSError) and error.errno in _REASONS:
        return _REASONS[error.errno]
    for number, reason in _REASONS.items():
        if os.strerror(number) in str(error):
            return reason
    return None


def remove_partial_files(path: str | os.PathLike) -> None:
    """Removes what processes that were killed while they wrote `path` have left. No other may be writing it now."""
    folder, name = os.path.split(os.path.abspath(path))
    for other in os.listdir(folder):
        if other.startswith(f".{name}{PARTIAL}"):
            partial = os.path.join(folder, other)
            shutil.rmtree(partial) if os.path.isdir(partial) else os.remove(partial)


def _make_parent(path: str) -> None:
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)


def _temporary_name(path: str) -> str:
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(folder, f".{name}{PARTIAL}{uuid.uuid4().hex[:8]}")
