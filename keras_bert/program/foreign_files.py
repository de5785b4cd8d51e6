"""Files that may come from strangers: how large they may be, and which links and names may lead where.

The hub's cache is the only exception for links: there every file of a `snapshots/<revision>` is a link into the folder
`blobs` beside `snapshots`.
"""

import os

from keras_bert.program.errors import InputError

LARGEST_FILE = 48 << 20  # bytes of a JSON or tokenizer file; the tokenizer.json of Gemma has 33 MB
_LFS_MARK = b"version https://git-lfs"
_SNAPSHOTS, _BLOBS = "snapshots", "blobs"


def read_small_file(path: str | os.PathLike) -> bytes:
    """Returns the content of a JSON or tokenizer file.

    Raises:
        InputError: the file cannot be read, has more than 48 MiB, or is a git-lfs pointer.
    """
    path = os.fspath(path)
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from None
    if len(content) > LARGEST_FILE:
        raise InputError(
            f"{path} has more than {LARGEST_FILE:,} bytes, more than any JSON file or tokenizer of a model. Give the "
            "right file."
        )
    check_no_pointer(path, content, "the file itself")
    return content


def check_no_pointer(path: str, content: bytes, what: str) -> None:
    """Raises `InputError` if a file with this content is a git-lfs pointer; `what` names the expected content."""
    if content.startswith(_LFS_MARK):
        raise InputError(
            f"{path} is a git-lfs pointer, not {what}: the repository was cloned without git-lfs. Run "
            "`git lfs install` and `git lfs pull` there, or download the file itself."
        )


def inside(folder: str | os.PathLike, name: str, where: str) -> str:
    """Returns the path of a file or folder inside the folder of a model, whose name comes from a file, `where`.

    Raises:
        InputError: the name is absolute or has "..", or one of its parts is a link, and so it leads out of the folder.
    """
    folder = os.fspath(folder)
    inner = os.path.normpath(name)
    path = os.path.join(folder, inner)
    if _leads_out(folder, path):
        raise InputError(f"{where}: {inner!r:.200} is not inside the folder of the model.")
    return path


def check_links(folder: str | os.PathLike, *subfolders: str) -> None:
    """Checks that no file in a folder, or in the named folders inside it, is a link out of the folder.

    A link to a folder is checked only if the folder is one of the `subfolders`, because only those are read.

    Raises:
        InputError: a file or one of the `subfolders` leads out of the folder.
    """
    for name in ("", *subfolders):
        inner = inside(folder, name, os.fspath(folder)) if name else folder
        if not os.path.isdir(inner):
            continue
        with os.scandir(inner) as entries:
            links = [entry for entry in entries if entry.is_symlink() and not entry.is_dir()]
        for entry in links:
            if _leads_out(folder, entry.path):
                raise InputError(f"{entry.path} is a link out of the folder. Copy the file into the folder.")


def _leads_out(folder: str | os.PathLike, path: str) -> bool:
    root = os.path.realpath(folder)
    try:
        target = os.path.realpath(path)
    except ValueError:  # a zero byte or a lone surrogate
        return True
    parent, kind = os.path.split(os.path.dirname(root))
    allowed = [root, os.path.join(parent, _BLOBS)] if kind == _SNAPSHOTS else [root]
    return all(os.path.commonpath([place, target]) != place for place in allowed)
