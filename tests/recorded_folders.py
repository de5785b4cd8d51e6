"""Small folders that transformers and sentence-transformers wrote: parity/write_folders.py made the archive.

`heads/` has models for tasks, `tokenizers/` the files of tokenizers. parity/record_folders.py recorded their outputs.
"""

import functools
import pathlib
import tarfile
import tempfile

from places import TESTS

ARCHIVE = TESTS / "family_golden" / "folders.tar.xz"


@functools.cache
def _unpacked() -> tempfile.TemporaryDirectory:
    folder = tempfile.TemporaryDirectory(prefix="recorded_folders_")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder.name, filter="data")
    return folder


def recorded_folder(*parts: str) -> pathlib.Path:
    """Returns a folder of the archive, unpacked once in each process."""
    return pathlib.Path(_unpacked().name, *parts)
