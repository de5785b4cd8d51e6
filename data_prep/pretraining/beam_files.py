"""Operations on files of any file system that Apache Beam supports: gs://, s3://, hdfs:// and the local disk."""

import contextlib
import os
import uuid
from collections.abc import Iterator, Sequence
from typing import IO, BinaryIO

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from data_prep.pretraining.record_folder import DiskFiles
from data_prep.text.corpus import list_sources, source_size, split_patterns
from keras_bert.program.atomic_output import PARTIAL, atomic_file
from keras_bert.program.errors import InputError

# Files are read and written unchanged, whatever their suffix.
_AS_IT_IS = CompressionTypes.UNCOMPRESSED


def is_remote(path: str) -> bool:
    """Returns whether a name begins with `gs://` or a similar scheme.

    Raises `InputError` if Beam does not support the scheme, or lacks a package for it.
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
            # Not every file system can replace files. An existing file is the same one, from an attempt that was
            # repeated.
            self.remove([path])
            FileSystems.rename([temporary], [path])
        except BaseException:
            with contextlib.suppress(BeamIOError):
                self.remove([temporary])
            raise

    def open_input(self, path: str) -> BinaryIO:
        """Opens a file for reading without decompression, even if it is a `.gz` file."""
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
        # In object stores, a folder is a prefix of paths.
        (match,) = FileSystems.match([FileSystems.join(folder, "*")])
        return {FileSystems.split(file.path)[1]: file.size_in_bytes for file in match.metadata_list}

    def remove(self, paths: Sequence[str]) -> None:
        existing = [path for path in paths if self.size(path) is not None]
        if existing:
            FileSystems.delete(existing)


def source_sizes(patterns: Sequence[str]) -> dict[str, int]:
    """Returns the name and the size in bytes of each source that matches `patterns`, in reading order.

    Remote patterns are Beam's, sorted by name. Raises `InputError` if nothing matches a pattern.
    """
    if not any(map(is_remote, patterns)):
        return {name: source_size(name) for name in list_sources(patterns)}
    sizes = {}
    for pattern in split_patterns(patterns):
        if is_remote(pattern):
            (match,) = FileSystems.match([pattern])
            found = sorted((file.path, file.size_in_bytes) for file in match.metadata_list)
            if not found:
                raise InputError(f"No file matches the pattern {pattern}. Check the name.")
        else:
            found = [(name, source_size(name)) for name in list_sources([pattern])]
        sizes.update(found)
    return sizes
