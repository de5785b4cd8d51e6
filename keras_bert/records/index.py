"""How many records files hold and where they begin, found once and kept in a small file."""

import concurrent.futures
import dataclasses
import os
import threading
import zipfile
from collections.abc import Iterator, Sequence

import numpy as np
from tqdm import tqdm

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.record_files import iterate_records, record_offsets

# Places are kept of every so many records: 8 bytes for some 100 kB of records.
_RECORDS_BETWEEN_OFFSETS = 256
_SECONDS_WITHOUT_PROGRESS = 2.0


@dataclasses.dataclass(frozen=True)
class RecordIndex:
    """The records of F files.

    Attributes:
        paths: the files.
        counts: int64 (F,), how many records each has.
        offsets: for each file int64 (P,): where in the unpacked file the records 0, 256, 512, ... begin.
    """

    paths: Sequence[str]
    counts: np.ndarray
    offsets: Sequence[np.ndarray]

    @classmethod
    def of_files(cls, paths: Sequence[str], kept_at: str | os.PathLike | None = None) -> "RecordIndex":
        """Counts the records of files.

        Plain files are skimmed, packed ones unpacked, which takes some seconds a GB.

        Args:
            kept_at: a file to keep the result in. It holds as long as names, sizes and times of the files stay.

        Raises:
            InputError: a file cannot be read, is damaged or cut off.
        """
        stamps = [_stamp(path) for path in paths]
        kept = _read(kept_at, paths, stamps) if kept_at is not None else None
        if kept is not None:
            return kept
        found = _count(paths, sum(size for size, _ in stamps))
        counts = np.array([count for count, _ in found], np.int64)
        index = cls(list(paths), counts, [np.array(offsets, np.int64) for _, offsets in found])
        if kept_at is not None:
            index._write(kept_at, stamps)
        return index

    def records_from(self, file: int, number: int) -> Iterator[bytes]:
        """Yields the records of a file from the `number`-th on, counted from 0.

        Raises:
            InputError: as `iterate_records`.
        """
        place = number // _RECORDS_BETWEEN_OFFSETS
        if place >= len(self.offsets[file]):
            return
        num_passed = place * _RECORDS_BETWEEN_OFFSETS
        records = iterate_records(self.paths[file], start=(num_passed, int(self.offsets[file][place])))
        for _ in range(number - num_passed):
            next(records, None)
        yield from records

    def _write(self, path: str | os.PathLike, stamps: list[tuple[int, int]]) -> None:
        with atomic_file(path) as file:
            np.savez(
                file,
                paths=np.array(self.paths),
                stamps=np.array(stamps, np.int64),
                counts=self.counts,
                places=np.concatenate(self.offsets),  # the file's own name of them
            )


def _count(paths: Sequence[str], num_bytes: int) -> list[tuple[int, list[int]]]:
    """Returns `record_offsets` of each file, and shows how far it is where that takes longer than a moment."""
    lock = threading.Lock()
    with (
        tqdm(
            total=num_bytes,
            desc="counting records",
            unit="B",
            unit_scale=True,
            mininterval=1,
            delay=_SECONDS_WITHOUT_PROGRESS,
        ) as bar,
        # Unpacking lets go of Python's lock.
        concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads,
    ):

        def on_progress(num_bytes: int) -> None:
            with lock:
                bar.update(num_bytes)

        return list(threads.map(lambda path: record_offsets(path, _RECORDS_BETWEEN_OFFSETS, on_progress), paths))


def _read(path: str | os.PathLike, paths: Sequence[str], stamps: list[tuple[int, int]]) -> RecordIndex | None:
    """Returns the index that is kept at `path`, None when there is none or it is of other files."""
    try:
        with open(path, "rb") as file, np.load(file) as kept:
            if kept["paths"].tolist() != list(paths) or kept["stamps"].tolist() != [list(stamp) for stamp in stamps]:
                return None
            counts, offsets = kept["counts"], kept["places"]
    except (OSError, EOFError, KeyError, ValueError, OverflowError, MemoryError, zipfile.BadZipFile):
        return None  # a header may name any size: NumPy uses no memory before it has read what is there
    ends = np.cumsum(-(-counts // _RECORDS_BETWEEN_OFFSETS))
    if counts.shape != (len(paths),) or offsets.shape != (ends[-1],):
        return None
    return RecordIndex(list(paths), counts, np.split(offsets, ends[:-1]))


def _stamp(path: str) -> tuple[int, int]:
    """Returns the size of a file and the time of its last change, in nanoseconds."""
    import tensorflow as tf

    try:
        found = tf.io.gfile.stat(path)
    except tf.errors.OpError as error:
        raise InputError(f"Cannot read {path}: {error.message}") from None
    return found.length, found.mtime_nsec
