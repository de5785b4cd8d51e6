"""Files on any file system that Apache Beam knows: gs://, s3://, hdfs:// and the local disk."""

import contextlib
import os
import uuid
from collections.abc import Iterator, Sequence
from typing import IO, BinaryIO

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from data_prep.pretraining.disk_files import DiskFiles
from data_prep.text.corpus import list_sources, source_size, split_patterns
from keras_bert.program.atomic_output import PARTIAL, atomic_file
from keras_bert.program.errors import InputError

# Whatever a file is called, its bytes are read and written as they are.
_AS_IT_IS = CompressionTypes.UNCOMPRESSED


def is_remote(path: str) -> bool:
    """Whether a name begins with `gs://` or the like.

    Raises:
        InputError: with something that Beam does not know, or lacks a package for.
    """
    if FileSystems.get_scheme(path) is None:
        return False
    try:
        FileSystems.get_filesystem(path)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    return True


class BeamFiles(DiskFiles):
    """Operations on the files of a local or remote record folder."""

    @contextlib.contextmanager
    def open_output(self, path: str | os.PathLike) -> Iterator[IO[bytes]]:
        path = os.fspath(path)
        if not is_remote(path):
            with atomic_file(path) as file:
                yield file
            return
        folder, name = FileSystems.split(path)
        temporary = FileSystems.join(folder, f".{name}{PARTIAL}{uuid.uuid4().hex[:8]}")
        try:
            with FileSystems.create(temporary, compression_type=_AS_IT_IS) as file:
                yield file
            # Not every file system replaces what is there; it is the same file, from an attempt that was repeated.
            self.remove([path])
            FileSystems.rename([temporary], [path])
        except BaseException:
            with contextlib.suppress(BeamIOError):
                self.remove([temporary])
            raise

    def open_input(self, path: str) -> BinaryIO:
        """Opens a file for reading as it is stored, `.gz` packed."""
        return FileSystems.open(path, compression_type=_AS_IT_IS) if is_remote(path) else open(path, "rb")

    def read(self, path: str) -> bytes:
        if self.size(path) is None:
            raise FileNotFoundError(path)
        with self.open_input(path) as file:
            return file.read()

    def size(self, path: str) -> int | None:
        if not is_remote(path):
            return super().size(path)
        (match,) = FileSystems.match([path])
        return match.metadata_list[0].size_in_bytes if match.metadata_list else None

    def sizes(self, folder: str) -> dict[str, int]:
        if not is_remote(folder):
            return super().sizes(folder)
        # In object stores a folder is what paths begin with.
        (match,) = FileSystems.match([FileSystems.join(folder, "*")])
        return {FileSystems.split(file.path)[1]: file.size_in_bytes for file in match.metadata_list}

    def remove(self, paths: Sequence[str]) -> None:
        existing = [path for path in paths if self.size(path) is not None]
        if existing:
            FileSystems.delete(existing)


def source_sizes(patterns: Sequence[str]) -> dict[str, int]:
    """Returns the name and the bytes of each source that `patterns` stand for, in reading order.

    Patterns on this machine are those of `data_prep.text.corpus.list_sources`; others are Beam's, sorted by name.

    Raises:
        InputError: nothing matches a pattern.
    """
    if not any(map(is_remote, patterns)):
        return {name: source_size(name) for name in list_sources(patterns)}
    sizes = {}
    for pattern in split_patterns(patterns):
        if is_remote(pattern):
            (match,) = FileSystems.match([pattern])
            found = sorted((file.path, file.size_in_bytes) for file in match.metadata_list)
            if not found:
                raise InputError(f"No file matches the pattern {pattern}")
        else:
            found = [(name, source_size(name)) for name in list_sources([pattern])]
        sizes.update(found)
    return sizes
