"""Output that appears whole or not at all: written under a temporary name, then renamed."""

import contextlib
import errno
import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from keras_bert.program.errors import InputError


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """Opens a binary file that takes its name only when the block ends without an error.

    Missing parent folders are made. A link is written through: the file that it points at is replaced. A file that was
    there before keeps its mode. On any error, Ctrl-C included, the temporary file is removed and whatever stood at
    `path` before is untouched.

    Raises:
        InputError: the place cannot be written to, or no space is left.
    """
    check_output_file(path)
    target = _target(path)
    temporary = _temporary_name(target)
    try:
        with say_why_writing_failed(path):
            with open(temporary, "xb", opener=_opener_like(target)) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
            _sync_folder(os.path.dirname(target))
    finally:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            os.remove(temporary)


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike) -> Iterator[str]:
    """Yields the path of a temporary folder that becomes `path` when the block ends without an error.

    A link is written through, and an empty folder that was there before keeps its mode. An empty folder that cannot be
    replaced, such as a mount point, is filled: what was written in a folder inside is moved up at the end.

    Raises:
        InputError: `path` exists and is not an empty folder, cannot be written to, or no space is left.
    """
    check_output_folder(path)
    with temporary_folder(path) as temporary:
        yield temporary
        with say_why_writing_failed(path):
            publish_folder(temporary, path)


@contextlib.contextmanager
def temporary_folder(path: str | os.PathLike) -> Iterator[str]:
    """Yields a new folder from which `publish_folder` can make `path`; it is removed at the end.

    Its name starts with a dot and is not a number, so TF Serving never takes it for a version.

    Raises:
        InputError: it cannot be written to, or no space is left.
    """
    target = _target(path)
    # Inside, where the folder itself must stay: what is moved must be on the same file system.
    temporary = _temporary_name(os.path.join(target, _CONTENT) if _must_stay(target) else target)
    try:
        with say_why_writing_failed(path):
            os.makedirs(temporary)
            yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def publish_folder(temporary: str, path: str | os.PathLike) -> None:
    """Makes `path` of a folder from `temporary_folder(path)`, when its files are safely on the disk.

    Raises:
        OSError: among others ENOTEMPTY or EEXIST, when there is something at `path` by now.
    """
    target = _target(path)
    _sync_tree(temporary)
    if os.path.dirname(temporary) == target:
        if any(PARTIAL not in name for name in os.listdir(target) if name != _LOST_AND_FOUND):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        for name in os.listdir(temporary):
            os.rename(os.path.join(temporary, name), os.path.join(target, name))
        _sync_folder(target)
        return
    if os.path.isdir(target):
        shutil.copymode(target, temporary)
        if os.name == "nt":  # elsewhere a folder takes the place of an empty one
            os.rmdir(target)
    os.rename(temporary, target)
    _sync_folder(os.path.dirname(target))


def check_output_file(path: str | os.PathLike, input_files: Iterable[str | os.PathLike] = ()) -> None:
    """Raises `InputError` when `path` cannot become a file: it is a folder, a device or one of the files that are read,
    however the paths are written, or its place cannot be written to.

    Long work calls this before it starts. Missing parent folders are made.
    """
    for input_file in input_files:
        if os.path.realpath(input_file) == os.path.realpath(path):
            raise InputError(
                f"{os.fspath(path)} is read by this command, so its output would replace it. Give the output another "
                "name."
            )
    with say_why_writing_failed(path):
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if os.path.exists(path) and not os.path.isfile(path):
            raise InputError(f"Cannot write {os.fspath(path)}: it is a device, not a file. Give the name of a file.")
        target = _target(path)
        _try_to_write(target)
        if os.path.exists(target) and _is_mount_point(target):
            raise InputError(
                f"Cannot write {os.fspath(path)}: it is a mount point, so no new file can take its place. Mount its "
                "folder instead, or give another name."
            )


def check_output_folder(path: str | os.PathLike) -> None:
    """Raises `InputError` when `path` is a file, a folder that is not empty, or a place that cannot be written to.

    Long work calls this before it starts. Missing parent folders are made.
    """
    with say_why_writing_failed(path):
        target = _target(path)
        if os.path.lexists(target) and not os.path.isdir(target):
            raise InputError(f"The output folder {os.fspath(path)} is a file. Give the name of a folder.")
        must_stay = _must_stay(target)
        if os.path.isdir(target) and set(os.listdir(target)) - ({_LOST_AND_FOUND} if must_stay else set()):
            raise InputError(f"The output folder {os.fspath(path)} is not empty. Remove it or give another name.")
        _try_to_write(os.path.join(target, _CONTENT) if must_stay else target)


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
# In the mount point of a disk that has just been formatted.
_LOST_AND_FOUND = "lost+found"
# In the temporary name inside of a folder that must stay.
_CONTENT = "content"
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
    errno.ENOTEMPTY: "another process has written there in the meantime. Give another name",
    errno.EBUSY: "it is in use, for example as a mount point. Give a name inside of it",
    errno.ELOOP: "its symbolic links lead in a circle. Give another name",
    errno.ENAMETOOLONG: "the name is too long. Give a shorter one",
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
    folder, name = os.path.split(_target(path))
    for other in os.listdir(folder):
        if other.startswith(f".{name}{PARTIAL}"):
            partial = os.path.join(folder, other)
            shutil.rmtree(partial) if os.path.isdir(partial) else os.remove(partial)


def _target(path: str | os.PathLike) -> str:
    """Returns what is written for `path`: for a link, what it points at, which need not exist."""
    path = os.fspath(path)
    # With `link/..` the system goes up from what the link points at, and `abspath` from the link.
    is_elsewhere = os.path.islink(path) or os.pardir in path.split(os.sep)
    target = os.path.realpath(path) if is_elsewhere else os.path.abspath(path)
    if os.path.islink(target):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return target


def _temporary_name(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}{PARTIAL}{uuid.uuid4().hex[:8]}")


def _try_to_write(path: str) -> None:
    """Makes the folder of `path`, and something in it: permissions alone do not tell whether that is possible."""
    probe = _temporary_name(path)
    os.makedirs(os.path.dirname(probe), exist_ok=True)
    os.mkdir(probe)
    os.rmdir(probe)


def _opener_like(path: str) -> Callable[[str, int], int]:
    """Returns what opens a new file with the mode of `path`, if that exists."""
    mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else None

    def open_file(name: str, flags: int) -> int:
        number = os.open(name, flags, 0o666 if mode is None else mode)
        if mode is not None:
            os.chmod(name, mode)  # also what the umask takes away
        return number

    return open_file


def _must_stay(folder: str) -> bool:
    """Whether a folder that exists cannot be replaced by another one."""
    if not os.path.isdir(folder):
        return False
    return _is_mount_point(folder) or not os.access(os.path.dirname(folder), os.W_OK)


def _is_mount_point(path: str) -> bool:
    if os.path.ismount(path):
        return True
    # A folder or file of the same disk that is mounted a second time (docker run --volume) looks like any other.
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mounted = [line.split(" ")[4] for line in file]
    except OSError:
        return False
    path = os.path.realpath(path)
    return any(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), place) == path for place in mounted)


def _sync_tree(folder: str) -> None:
    """Has the system write all files and folders below `folder` to the disk."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = os.path.join(parent, name)
            if os.name != "nt" and stat.S_ISREG(os.lstat(path).st_mode):
                _sync(path)
        _sync_folder(parent)


def _sync_folder(folder: str) -> None:
    if os.name != "nt":
        with contextlib.suppress(OSError):  # some file systems cannot do it
            _sync(folder)


def _sync(path: str) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
