"""File operations of a record folder on a local disk."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import IO

from keras_bert.program.atomic_output import atomic_file


class DiskFiles:
    """Reads, writes and removes files by name. `beam_files.BeamFiles` does the same on other file systems."""

    def open_output(self, path: str | os.PathLike) -> AbstractContextManager[IO[bytes]]:
        """Opens a file for writing; it is replaced atomically."""
        return atomic_file(path)

    def read(self, path: str) -> bytes:
        """Returns the content of a file. Raises `FileNotFoundError`."""
        with open(path, "rb") as file:
            return file.read()

    def size(self, path: str) -> int | None:
        """Returns the size of a file in bytes, or None if it does not exist."""
        return os.path.getsize(path) if os.path.exists(path) else None

    def sizes(self, folder: str) -> dict[str, int]:
        """Returns file name -> size in bytes for a folder; empty if it does not exist."""
        if not os.path.isdir(folder):
            return {}
        with os.scandir(folder) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}

    def remove(self, paths: Sequence[str]) -> None:
        """Removes those of the files that exist."""
        for path in paths:
            if os.path.exists(path):
                os.remove(path)
