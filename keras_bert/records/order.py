"""The shuffled order in which pre-training records are read. It is known beforehand, so reading can start at any step.

The order of an epoch depends on (seed, epoch) and on the files' numbers of records only, not on compression or on the
reading process. In every epoch the files are shuffled and cut into groups of up to 16. A group is read in windows of
about 10,000 records. Each file of the group contributes its share of a window, in order, and the records of the window
are shuffled. A start in the middle reads one window from its beginning. Two windows are in memory at a time.
"""

import concurrent.futures
import functools
import itertools
import os
from collections.abc import Iterator, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records.index import RecordIndex

# Records that are shuffled together: about 10 MB at length 128.
_WINDOW_RECORDS = 10_000
# Files that are read at the same time.
_MOST_OPEN_FILES = 16
# Records that Python hands to TensorFlow in one call. A call takes as long as reading some dozens of records.
_RECORDS_AT_ONCE = 256
# Separates these random numbers from others with the same seed, such as those of masks.
_PURPOSE = 0x6F726465


class RecordOrder:
    """Yields batches of serialised records in a shuffled order.

    Args:
        paths: the record files, each with at least one record.
        seed: any integer.
        index_path: a file that keeps the index of the files; see `RecordIndex.of_files`.
    """

    def __init__(self, paths: Sequence[str], seed: int, index_path: str | os.PathLike | None = None):
        self._paths = paths
        self._seed = seed % 2**64
        self._index_path = index_path

    @functools.cached_property
    def index(self) -> RecordIndex:
        """The index of the files, read on first use."""
        return RecordIndex.of_files(self._paths, self._index_path)

    def batches(
        self, batch_size: int, rows: tuple[int, int], start_step: int = 0, num_epochs: int | None = None
    ) -> Iterator[np.ndarray]:
        """Yields groups of batches, after `start_step` batches: object arrays `(batches, rows)` of bytes.

        Args:
            batch_size: records in a batch.
            rows: (first, end) of the rows to yield of every batch.
            num_epochs: None for no end. Otherwise the last batch may be smaller.

        Raises:
            InputError: a record cannot be read.
        """
        group_size = batch_size * max(1, _RECORDS_AT_ONCE // batch_size)
        records = np.empty(0, object)
        for window in self._windows(start_step * batch_size, num_epochs):
            records = np.concatenate([records, window])
            while len(records) >= group_size:
                yield records[:group_size].reshape(-1, batch_size)[:, slice(*rows)]
                records = records[group_size:]
        for first in range(0, len(records), batch_size):
            yield records[None, first : first + batch_size][:, slice(*rows)]

    def _windows(self, position: int, num_epochs: int | None) -> Iterator[np.ndarray]:
        """Yields windows of records from number `position` (counted from epoch 0) on. Reads one window ahead."""
        epoch, position = divmod(position, int(self.index.counts.sum()))
        windows = itertools.chain.from_iterable(
            self._windows_of_epoch(number, position if number == epoch else 0)
            for number in (itertools.count(epoch) if num_epochs is None else range(epoch, num_epochs))
        )
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            next_window = thread.submit(next, windows, None)
            while (window := next_window.result()) is not None:
                next_window = thread.submit(next, windows, None)
                yield window

    def _windows_of_epoch(self, epoch: int, position: int) -> Iterator[np.ndarray]:
        order = self._permutation(len(self.index.paths), epoch, 0)
        num_windows_before = 0
        for files in np.array_split(order, -(-len(order) // _MOST_OPEN_FILES)):
            ends = _window_ends(self.index.counts[files])
            num_records, num_windows = int(ends[:, -1].sum()), ends.shape[1] - 1
            first = int(np.searchsorted(ends.sum(axis=0)[1:], position, side="right"))
            num_skipped = position - int(ends[:, first].sum())
            windows = self._read_windows(files, ends[:, first:])
            for number, records in enumerate(windows, num_windows_before + first + 1):
                window = np.empty(len(records), object)
                window[:] = records
                yield window[self._permutation(len(records), epoch, number)][num_skipped:]
                num_skipped = 0
            position = max(0, position - num_records)
            num_windows_before += num_windows

    def _read_windows(self, files: np.ndarray, ends: np.ndarray) -> Iterator[list[bytes]]:
        """Yields the windows of a group of F files, bounded by the record numbers `ends` `(F, windows + 1)`."""
        readers = [self.index.records_from(file, start) for file, start in zip(files, ends[:, 0].tolist(), strict=True)]
        for sizes in np.diff(ends).T.tolist():
            window = []
            for file, reader, size in zip(files, readers, sizes, strict=True):
                num_before = len(window)
                window.extend(itertools.islice(reader, size))
                if len(window) < num_before + size:
                    raise InputError(
                        f"{self._paths[file]} has fewer records than when they were counted: something is writing "
                        "to it. Run the same command again when that is done."
                    )
            yield window

    def _permutation(self, size: int, epoch: int, number: int) -> np.ndarray:
        # Raw bits, because NumPy promises never to change them.
        bits = np.random.PCG64([self._seed, epoch, number, _PURPOSE]).random_raw(size)
        return np.argsort(bits, kind="stable")


def _window_ends(counts: np.ndarray) -> np.ndarray:
    """Cuts the files of a group into windows, each file into equal parts: counts `(F,)` -> int64 `(F, windows + 1)`.

    Example:
        counts [25_000, 5_000] -> [[0, 8333, 16666, 25000], [0, 1666, 3333, 5000]]
    """
    num_windows = max(1, round(int(counts.sum()) / _WINDOW_RECORDS))
    return counts[:, None] * np.arange(num_windows + 1) // num_windows
