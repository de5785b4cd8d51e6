"""Small folders that transformers and sentence-transformers wrote: parity/write_folders.py made the archive.

`heads/` has models for tasks, `tokenizers/` the files of tokenizers. parity/record_folders.py recorded their outputs.
parity/record_tensorflow_classes.py made another archive.
"""

import functools
import io
import lzma
import pathlib
import tarfile
import tempfile

from places import TESTS

ARCHIVE = TESTS / "family_golden" / "folders.tar.xz"
TENSORFLOW_CLASSES = TESTS / "family_golden" / "tensorflow_classes.tar.xz"


@functools.cache
def _unpacked(archive_file) -> tempfile.TemporaryDirectory:
    folder = tempfile.TemporaryDirectory(prefix="recorded_folders_")
    with tarfile.open(archive_file) as archive:
        archive.extractall(folder.name, filter="data")
    return folder


def recorded_folder(*parts: str, archive: pathlib.Path = ARCHIVE) -> pathlib.Path:
    """Returns a folder of an archive, unpacked once in each process."""
    return pathlib.Path(_unpacked(archive).name, *parts)


def pack(folder: pathlib.Path, archive_file: pathlib.Path) -> None:
    """Writes an archive: the same bytes for the same files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            member = tarfile.TarInfo(str(path.relative_to(folder)))
            member.size = path.stat().st_size
            archive.addfile(member, io.BytesIO(path.read_bytes()))
    archive_file.write_bytes(lzma.compress(buffer.getvalue(), preset=9))
