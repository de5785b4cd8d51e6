"""Small folders that transformers, tokenizers and sentence-transformers 6.2 wrote: `family_golden/folders.tar.xz`.

`heads/` has models for tasks, `tokenizers/` the files of tokenizers; the outputs are in `family_golden/examples.json`.
"""

import functools
import pathlib
import tarfile
import tempfile

from places import TESTS


@functools.cache
def _unpacked() -> tempfile.TemporaryDirectory:
    folder = tempfile.TemporaryDirectory(prefix="recorded_folders_")
    with tarfile.open(TESTS / "family_golden" / "folders.tar.xz") as archive:
        archive.extractall(folder.name, filter="data")
    return folder


def recorded_folder(*parts: str) -> pathlib.Path:
    """Returns a folder of the archive, unpacked once in each process."""
    return pathlib.Path(_unpacked().name, *parts)
