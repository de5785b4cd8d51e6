"""The version folders of an export: `path/1`, `path/2`, ... TensorFlow Serving loads the highest number."""

import contextlib
import errno
import os
from collections.abc import Iterator

from keras_bert.program.atomic_output import check_output_folder, publish_folder, temporary_folder
from keras_bert.program.errors import InputError

SAVED_MODEL_FILE = "saved_model.pb"


def next_version_folder(path: str | os.PathLike) -> str:
    """Returns the folder of the next version below `path`. Raises `InputError` if `path` is a file."""
    path = os.fspath(path)
    if os.path.lexists(path) and not os.path.isdir(path):
        raise InputError(f"The export folder {path} is a file. Give the name of a folder.")
    numbers = _version_numbers(path) if os.path.isdir(path) else {}
    return os.path.join(path, str(max(numbers, default=0) + 1))


def check_version_place(path: str | os.PathLike) -> None:
    """Raises `InputError` if no version can be written below `path`. Call it before long work."""
    check_output_folder(next_version_folder(path))


class NewVersion:
    """A version that is being written.

    Attributes:
        folder: the temporary folder that its files are written to.
        path: the folder of the version; None until the version is complete.
    """

    def __init__(self, folder: str):
        self.folder = folder
        self.path: str | None = None


@contextlib.contextmanager
def new_version(path: str | os.PathLike) -> Iterator[NewVersion]:
    """Yields a version that appears below `path`, complete, when the block ends without an error.

    The number is chosen at the end of the block, so exports that run at once get different numbers.

    Raises:
        InputError: `path` is a file, it cannot be written to, or the disk is full.
    """
    with temporary_folder(next_version_folder(path)) as folder:
        version = NewVersion(folder)
        yield version
        while version.path is None:
            following = next_version_folder(path)
            try:
                publish_folder(folder, following)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            else:
                version.path = following


def find_version_folder(path: str | os.PathLike) -> str:
    """Returns `path` if it is a SavedModel, else the highest version below it.

    Raises:
        InputError: there is neither; the message lists the folder's content.
    """
    path = os.fspath(path)
    if not os.path.exists(path):
        raise InputError(f"There is no SavedModel {path}: no such folder.")
    if not os.path.isdir(path):
        raise InputError(f"{path} is a file. Give the folder of a SavedModel.")
    if is_saved_model(path):
        return path
    numbers = _version_numbers(path)
    if not numbers:
        inside = ", ".join(sorted(os.listdir(path))[:5]) or "nothing"
        raise InputError(
            f"{path} is not a SavedModel: it has neither {SAVED_MODEL_FILE} nor a folder of a version, such as 1. "
            f"It has: {inside}. Make one with export_model."
        )
    newest = os.path.join(path, numbers[max(numbers)])
    if not is_saved_model(newest):
        raise InputError(f"{newest} is not a SavedModel: it has no {SAVED_MODEL_FILE}. Export the model again.")
    return newest


def is_saved_model(folder: str) -> bool:
    """Returns whether a folder has the main file of a SavedModel."""
    return os.path.isfile(os.path.join(folder, SAVED_MODEL_FILE))


def _version_numbers(path: str) -> dict[int, str]:
    """Returns version -> folder name. Like servers, it accepts leading zeros."""
    return {int(name): name for name in os.listdir(path) if name.isascii() and name.isdigit()}
