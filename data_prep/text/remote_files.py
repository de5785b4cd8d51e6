"""Lists and opens files by URL, such as gs:// and s3://, with fsspec or with TensorFlow's file systems.

fsspec, which huggingface_hub brings, has every kind of file system, each through a package of its own: gcsfs, s3fs,
adlfs. Without that package, TensorFlow is asked, which reads gs:// by itself. Both find credentials in their own ways.
"""

import contextlib
import importlib
import io
import posixpath
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

from keras_bert.program.errors import InputError

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://")
# The packages that fsspec needs for the usual kinds of URL.
_PACKAGES = {"gs": "gcsfs", "gcs": "gcsfs", "s3": "s3fs", "s3a": "s3fs", "az": "adlfs", "abfs": "adlfs"}
_PACKAGES |= {"http": "aiohttp", "https": "aiohttp", "hf": "huggingface_hub"}


def is_remote(path: str) -> bool:
    """Returns whether a name begins with a scheme, such as `gs://`.

    >>> is_remote("gs://bucket/train.tsv"), is_remote("data/train.tsv"), is_remote("tfds:glue/sst2@train")
    (True, False, False)
    """
    return _URL.match(path) is not None


def open_remote(path: str) -> BinaryIO:
    """Opens a file. Raises `InputError` if there is none, its file system is not supported, or it refuses."""
    system = _file_system(path)
    with _one_line_errors(path):
        return system.open(path)


def remote_size(path: str) -> int:
    """Returns the size of a file in bytes. Raises `InputError` as `open_remote` does."""
    system = _file_system(path)
    with _one_line_errors(path):
        return system.size(path)


def remote_names(pattern: str) -> list[str]:
    """Returns the files of a folder with its subfolders, or those that match a pattern, sorted.

    Raises `InputError` as `open_remote` does.
    """
    system = _file_system(pattern)
    with _one_line_errors(pattern):
        if any(character in pattern for character in "*?["):
            return sorted(name for name in system.glob(pattern) if not system.is_folder(name))
        return sorted(system.walk(pattern)) if system.is_folder(pattern) else [pattern]


@contextlib.contextmanager
def local_copy(path: str, open_file: Callable[[str], BinaryIO] = open_remote) -> Iterator[str]:
    """Gives the path of a local file with the content of a file: its own path, or that of a temporary copy."""
    if not is_remote(path):
        yield path
        return
    with tempfile.NamedTemporaryFile(suffix=posixpath.basename(path)[-32:]) as target:
        with open_file(path) as source, _one_line_errors(path):
            shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        yield target.name


class _FileSystem(NamedTuple):
    """What fsspec and TensorFlow do with URLs."""

    open_raw: Callable[[str], Any]
    size: Callable[[str], int]
    is_folder: Callable[[str], bool]
    glob: Callable[[str], Iterable[str]]
    walk: Callable[[str], Iterable[str]]

    def open(self, path: str) -> BinaryIO:
        return io.BufferedReader(_RemoteFile(self.open_raw(path)), 1 << 20)


class _RemoteFile(io.RawIOBase):
    """A file of fsspec or TensorFlow as a file of Python. Its errors, of many classes, become an `OSError`."""

    def __init__(self, file):
        super().__init__()
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer) -> int:
        try:
            data = self._file.read(len(buffer))
        except Exception as error:
            raise OSError(" ".join(str(error).split())[:200]) from None
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def _file_system(path: str) -> _FileSystem:
    scheme = _URL.match(path)[1]
    with contextlib.suppress(ImportError, ValueError):  # no fsspec, no package for this scheme, or an unknown scheme
        system = importlib.import_module("fsspec.core").url_to_fs(path)[0]
        return _FileSystem(
            open_raw=lambda path: system.open(path, "rb"),
            size=lambda path: int(system.size(path)),
            is_folder=lambda path: system.isdir(path),
            glob=lambda pattern: map(system.unstrip_protocol, system.glob(pattern)),
            walk=lambda folder: map(system.unstrip_protocol, system.find(folder)),
        )
    gfile = importlib.import_module("tensorflow").io.gfile
    if scheme in gfile.get_registered_schemes():
        return _tensorflow_system(gfile)
    package = _PACKAGES.get(scheme)
    if package is None:
        raise InputError(f"{path}: files of {scheme}:// cannot be read. Copy the file to this machine.")
    raise InputError(
        f"{path}: {scheme}:// needs the package {package}: pip install fsspec {package}. Or copy the file to this "
        "machine."
    )


def _tensorflow_system(gfile) -> _FileSystem:
    def open_raw(path):
        gfile.stat(path)  # a missing file is reported here instead of at the first byte
        return gfile.GFile(path, "rb")

    def walk(folder):
        parts = gfile.walk(folder.rstrip("/"))
        return [posixpath.join(parent, name) for parent, _, names in parts for name in names]

    return _FileSystem(open_raw, lambda path: gfile.stat(path).length, gfile.isdir, gfile.glob, walk)


@contextlib.contextmanager
def _one_line_errors(path: str) -> Iterator[None]:
    """Turns the errors of file systems, which have many classes, into an `InputError`."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except InputError:
        raise
    except Exception as error:
        kind = type(error).__name__
        if kind == "NotFoundError":  # TensorFlow's
            raise InputError(f"There is no file {path}.") from None
        raise InputError(f"Cannot read {path}: {kind}: {' '.join(str(error).split())[:200]}") from None
