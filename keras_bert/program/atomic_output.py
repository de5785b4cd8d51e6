"""Writes files and folders that appear completely or not at all: under a temporary name first, then renamed."""

import contextlib
import errno
import os
import re
import shutil
import stat
import types
import uuid
from collections.abc import Iterable, Iterator
from typing import IO, Any

from keras_bert.program.errors import InputError
from keras_bert.program.folder_lock import held_folder, remove_unheld, waiting_for_folder


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """Opens a binary file that gets the name `path` when the block ends without an error.

    Makes missing parent folders. If `path` is a link, the file that it points at is replaced. The new file has the mode
    of the old one. After any error, Ctrl-C included, the temporary file is removed and the old file is unchanged. A
    process that is killed leaves it behind; the next one that writes `path` removes it.

    Raises:
        InputError: `path` cannot be written, or the disk is full.
    """
    with atomic_named_file(path) as temporary, open(temporary, "xb") as file:
        yield file


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike) -> Iterator[str]:
    """Yields the path of a temporary folder that is renamed to `path` when the block ends without an error.

    If `path` is a link, the folder is made where the link points. An empty folder at `path` is replaced, and its mode
    is kept. If it cannot be replaced, for example because it is a mount point, the files are moved into it.

    Raises:
        InputError: `path` exists and is not an empty folder, `path` cannot be written, or the disk is full.
    """
    check_output_folder(path)
    with temporary_folder(path) as temporary:
        yield temporary
        with explain_write_errors(path):
            publish_folder(temporary, path)


@contextlib.contextmanager
def atomic_named_file(path: str | os.PathLike) -> Iterator[str]:
    """Yields a temporary path whose file gets the name `path` when the block ends without an error.

    As `atomic_file`, for writers that open a file by its name and look at its ending.

    Raises:
        InputError: `path` cannot be written, or the disk is full.
    """
    check_output_file(path)
    target = _target(path)
    with temporary_folder(path, mode=0o700) as folder:  # nobody else may read the file before it has its mode
        temporary = os.path.join(folder, os.path.basename(target))
        yield temporary
        with explain_write_errors(path):
            _sync_tree(folder)
            if os.path.exists(target):
                shutil.copymode(target, temporary)
            os.replace(temporary, target)
            _sync_folder(os.path.dirname(target))


@contextlib.contextmanager
def replacement_folder(path: str | os.PathLike) -> Iterator[str]:
    """Yields a temporary folder that takes the place of the folder `path` when the block ends without an error.

    The old folder, with all that is in it, is removed afterwards. After an error it is unchanged. Two renames are
    needed: a process that is killed between them leaves the old and the new folder complete, both under temporary
    names. `restore_folder` makes `path` of the old one again.

    Raises:
        InputError: as `check_replaceable_folder`, or the disk is full.
    """
    check_replaceable_folder(path)
    target = _target(path)
    with temporary_folder(path) as temporary:
        yield temporary
        with explain_write_errors(path):
            _sync_tree(temporary)
            shutil.copymode(target, temporary)
            old = _temporary_name(target, _REPLACED)
            os.rename(target, old)
            try:
                os.rename(temporary, target)
            except BaseException:
                os.rename(old, target)
                raise
            _sync_folder(os.path.dirname(target))
    shutil.rmtree(old, ignore_errors=True)


def restore_folder(path: str | os.PathLike) -> None:
    """Gives a folder its name back whose replacement was cut off between the two renames, if there is one.

    Where a living process is at it, this waits until that has replaced the folder.
    """
    folder, name = os.path.split(os.path.abspath(path))
    pattern = re.compile(rf"\.{re.escape(name)}{_REPLACED}[0-9a-f]{{8}}")
    if os.path.lexists(path):
        return
    with contextlib.suppress(OSError):  # no folder above it, or one that may not be listed or changed
        for old in [os.path.join(folder, other) for other in os.listdir(folder) if pattern.fullmatch(other)]:
            with waiting_for_folder(old):
                if not os.path.lexists(path):
                    os.rename(old, path)


@contextlib.contextmanager
def temporary_folder(path: str | os.PathLike, mode: int = 0o777) -> Iterator[str]:
    """Yields a new temporary folder that `publish_folder` can rename to `path`. Removes it at the end of the block.

    Its name starts with a dot and is not a number, so TF Serving never takes it for a version. A process that is killed
    leaves it behind; the next one that writes `path`, or another version beside it, removes it.

    Raises:
        InputError: the folder cannot be written, or the disk is full.
    """
    target = _target(path)
    # A rename works within one file system only. So the temporary folder of a mount point must be inside it.
    temporary = _temporary_name(os.path.join(target, _CONTENT) if _must_stay(target) else target)
    try:
        with explain_write_errors(path):
            with contextlib.suppress(PermissionError):  # a folder may be written and not listed
                _remove_abandoned(temporary)
            with held_folder(temporary, mode):
                yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def save_array(file: str | IO[bytes], array: Any) -> None:
    """Writes an array as `numpy.save` does, and raises the system's error if the disk is full.

    `numpy.save` writes to open files of the system with C's functions, and ignores the error of the last 4 KB. `file`
    is the path of a new file, or a binary file that is open for writing.
    """
    import numpy as np

    with open(file, "wb") if isinstance(file, str) else contextlib.nullcontext(file) as opened:
        np.save(types.SimpleNamespace(write=opened.write), array, allow_pickle=False)  # no file of the system


def publish_folder(temporary: str, path: str | os.PathLike) -> None:
    """Writes a folder from `temporary_folder(path)` to the disk and renames it to `path`.

    Raises:
        OSError: the system's error, for example ENOTEMPTY or EEXIST if `path` has been filled in the meantime.
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
        if os.name == "nt":  # other systems let a rename replace an empty folder
            os.rmdir(target)
    os.rename(temporary, target)
    _sync_folder(os.path.dirname(target))


def check_output_file(path: str | os.PathLike, input_files: Iterable[str | os.PathLike] = ()) -> None:
    """Checks that `path` can become an output file. Makes missing parent folders.

    Commands that run for long call this before they start.

    Raises:
        InputError: `path` is a folder, a device, a mount point or one of `input_files`, or cannot be written.
    """
    for input_file in input_files:
        if os.path.realpath(input_file) == os.path.realpath(path):
            raise InputError(
                f"{os.fspath(path)} is read by this command, so its output would replace it. Give the output another "
                "name."
            )
    with explain_write_errors(path):
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
    """Checks that `path` can become an output folder. Makes missing parent folders.

    Commands that run for long call this before they start.

    Raises:
        InputError: `path` is a file or a folder that is not empty, or cannot be written.
    """
    with explain_write_errors(path):
        target = _target(path)
        if os.path.lexists(target) and not os.path.isdir(target):
            raise InputError(f"The output folder {os.fspath(path)} is a file. Give the name of a folder.")
        must_stay = _must_stay(target)
        if must_stay:
            _remove_abandoned(_temporary_name(os.path.join(target, _CONTENT)))
        if os.path.isdir(target) and set(os.listdir(target)) - ({_LOST_AND_FOUND} if must_stay else set()):
            raise InputError(f"The output folder {os.fspath(path)} is not empty. Remove it or give another name.")
        _try_to_write(os.path.join(target, _CONTENT) if must_stay else target)


def check_replaceable_folder(path: str | os.PathLike) -> None:
    """Checks that another folder can take the place of the folder `path`.

    Raises:
        InputError: `path` is a mount point, or its parent folder cannot be written.
    """
    with explain_write_errors(path):
        target = _target(path)
        _try_to_write(target)
        if _is_mount_point(target):
            raise InputError(
                f"Cannot replace {os.fspath(path)}: it is a mount point, so no new folder can take its place. Give the "
                "name of a new folder."
            )


@contextlib.contextmanager
def explain_write_errors(path: str | os.PathLike) -> Iterator[None]:
    """Turns a system error from writing to `path` in this block into an `InputError` with the reason.

    TensorFlow has its own exception for a full disk. It is recognised by its text.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = _reason(error)
        if reason is None:
            raise
        raise InputError(f"Cannot write {os.fspath(path)}: {reason}") from error


# Part of the name of every temporary file and folder.
PARTIAL = ".partial-"
# In place of `PARTIAL` in the name of a folder that another one replaces.
_REPLACED = ".replaced-"
# A new disk has this folder in its mount point.
_LOST_AND_FOUND = "lost+found"
# The temporary folder inside a folder that cannot be replaced is named after this.
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
    errno.ELOOP: "its symbolic links form a circle. Give another name",
    errno.ENAMETOOLONG: "the name is too long. Give a shorter one",
}


def _reason(error: Exception) -> str | None:
    if isinstance(error, OSError) and error.errno in _REASONS:
        return _REASONS[error.errno]
    for number, reason in _REASONS.items():
        if os.strerror(number) in str(error):
            return reason
    return None


def _target(path: str | os.PathLike) -> str:
    """Returns the absolute path that is written for `path`: the target of a link, whether it exists or not."""
    path = os.fspath(path)
    # The system resolves `link/..` from the target of the link, but `abspath` from the link itself.
    is_elsewhere = os.path.islink(path) or os.pardir in path.split(os.sep)
    target = os.path.realpath(path) if is_elsewhere else os.path.abspath(path)
    if os.path.islink(target):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return target


def _temporary_name(path: str, mark: str = PARTIAL) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}{mark}{uuid.uuid4().hex[:8]}")


def _remove_abandoned(temporary: str) -> None:
    """Removes what killed processes have left under temporary names of the same output as `temporary`, or of its other
    versions. Where a replacement was cut off and the output is missing, both of its folders stay."""
    folder, own = os.path.split(temporary)
    own = own[1:].rpartition(PARTIAL)[0]
    abandoned: dict[str, list[str]] = {}
    for other in os.listdir(folder) if os.path.isdir(folder) else ():
        match = re.fullmatch(rf"\.(.+)({PARTIAL}|{_REPLACED})[0-9a-f]{{8}}", other)
        if match and (match[1] == own or (match[1].isdecimal() and own.isdecimal())):
            abandoned.setdefault(match[1], []).append(other)
    for name, others in abandoned.items():
        if os.path.lexists(os.path.join(folder, name)) or not any(_REPLACED in other for other in others):
            remove_unheld(os.path.join(folder, other) for other in others)


def _try_to_write(path: str) -> None:
    """Makes the parent folder of `path` and a folder in it, since permissions alone do not tell whether this works."""
    probe = _temporary_name(path)
    os.makedirs(os.path.dirname(probe), exist_ok=True)
    try:
        os.mkdir(probe)
    finally:  # also when Ctrl-C comes in between
        with contextlib.suppress(OSError):
            os.rmdir(probe)


def _must_stay(folder: str) -> bool:
    """Returns whether the folder exists and cannot be replaced by another one."""
    if not os.path.isdir(folder):
        return False
    return _is_mount_point(folder) or not os.access(os.path.dirname(folder), os.W_OK)


def _is_mount_point(path: str) -> bool:
    if os.path.ismount(path):
        return True
    # `ismount` misses bind mounts (docker run --volume), where both folders are on the same disk.
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mounted = [line.split(" ")[4] for line in file]
    except OSError:
        return False
    path = os.path.realpath(path)
    # The table writes spaces and other special characters in octal.
    return any(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), folder) == path for folder in mounted)


def _sync_tree(folder: str) -> None:
    """Waits until all files and folders below `folder` are on the disk."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = os.path.join(parent, name)
            if os.name != "nt" and stat.S_ISREG(os.lstat(path).st_mode):
                _sync(path)
        _sync_folder(parent)


def _sync_folder(folder: str) -> None:
    if os.name != "nt":
        with contextlib.suppress(OSError):  # some file systems cannot sync a folder
            _sync(folder)


def _sync(path: str) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
