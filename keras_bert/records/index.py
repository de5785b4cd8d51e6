"""Counts the records of files, finds where they begin, and keeps the result in a small file."""

import concurrent.futures
import dataclasses
import os
import threading
import zipfile
from collections.abc import Iterator, Sequence

import numpy as np

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.long_work import progress_bar
from keras_bert.program.record_files import iterate_records, record_offsets

# Records between two kept offsets, about 100 kB of records.
_RECORDS_BETWEEN_OFFSETS = 256
_SECONDS_WITHOUT_PROGRESS = 2.0


@dataclasses.dataclass(frozen=True)
class RecordIndex:
    """The number of records in each of F files, and the offsets of some of them."""

    paths: Sequence[str]
    counts: np.ndarray  # int64 (F,), the number of records of each file
    # For each file int64 (P,): the offsets in bytes of the records 0, 256, 512, ... in the uncompressed file.
    offsets: Sequence[np.ndarray]

    @classmethod
    def of_files(cls, paths: Sequence[str], index_path: str | os.PathLike | None = None) -> "RecordIndex":
        """Counts the records of files. This takes some seconds per GB: compressed files are decompressed.

        Args:
            paths: the record files.
            index_path: a file that keeps the result. It is used again as long as names, sizes and modification times of
                the files are the same.

        Raises:
            InputError: a file cannot be read, is damaged or cut off.
        """
        stamps = [_stamp(path) for path in paths]
        index = _read(index_path, paths, stamps) if index_path is not None else None
        if index is not None:
            return index
        counted = _count(paths, sum(size for size, _ in stamps))
        counts = np.array([count for count, _ in counted], np.int64)
        index = cls(list(paths), counts, [np.array(offsets, np.int64) for _, offsets in counted])
        if index_path is not None:
            with atomic_file(index_path) as file:
                # "places" is the name of the offsets in the file format.
                arrays = {"counts": counts, "places": np.concatenate(index.offsets)}
                np.savez(file, paths=np.array(index.paths), stamps=np.array(stamps, np.int64), **arrays)
        return index

    def records_from(self, file: int, number: int) -> Iterator[bytes]:
        """Yields the records of the `file`-th file from record `number` on, both counted from 0.

        Raises:
            InputError: as `iterate_records`.
        """
        offset_number = number // _RECORDS_BETWEEN_OFFSETS
        if offset_number >= len(self.offsets[file]):
            return
        num_skipped = offset_number * _RECORDS_BETWEEN_OFFSETS
        start = (num_skipped, int(self.offsets[file][offset_number]))
        records = iterate_records(self.paths[file], start=start)
        for _ in range(number - num_skipped):
            next(records, None)
        yield from records


def _count(paths: Sequence[str], num_bytes: int) -> list[tuple[int, list[int]]]:
    """Returns `record_offsets` of each file. Shows a progress bar after two seconds."""
    lock = threading.Lock()
    with (
        progress_bar(
            total=num_bytes,
            desc="counting records",
            unit="B",
            unit_scale=True,
            mininterval=1,
            delay=_SECONDS_WITHOUT_PROGRESS,
        ) as bar,
        # Threads help, because decompression releases Python's lock.
        concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads,
    ):

        def on_progress(num_bytes: int) -> None:
            with lock:
                bar.update(num_bytes)

        return list(threads.map(lambda path: record_offsets(path, _RECORDS_BETWEEN_OFFSETS, on_progress), paths))


def _read(path: str | os.PathLike, paths: Sequence[str], stamps: list[tuple[int, int]]) -> RecordIndex | None:
    """Returns the index that is stored at `path`, or None if there is none or it belongs to other files."""
    try:
        with open(path, "rb") as file, np.load(file) as kept:
            if any(member.compress_type for member in kept.zip.infolist()):
                return None  # `numpy.savez` does not compress, and a small compressed file could fill the memory
            if kept["paths"].tolist() != list(paths) or kept["stamps"].tolist() != [list(stamp) for stamp in stamps]:
                return None
            counts, offsets = kept["counts"], kept["places"]
    except (OSError, EOFError, KeyError, ValueError, OverflowError, MemoryError, zipfile.BadZipFile):
        return None  # a damaged header may give any size, but NumPy allocates no more than the file has
    ends = np.cumsum(-(-counts // _RECORDS_BETWEEN_OFFSETS))
    if counts.shape != (len(paths),) or offsets.shape != (ends[-1],):
        return None
    return RecordIndex(list(paths), counts, np.split(offsets, ends[:-1]))


def _stamp(path: str) -> tuple[int, int]:
    """Returns the size of a file in bytes and its modification time in nanoseconds."""
    import tensorflow as tf

    try:
        status = tf.io.gfile.stat(path)
    except tf.errors.OpError as error:
        raise InputError(f"Cannot read {path}: {error.message}") from None
    return status.length, status.mtime_nsec
