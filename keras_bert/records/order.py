"""The order in which pre-training records are read: mixed, and known beforehand, so that reading can begin anywhere.

The order of an epoch follows from (seed, epoch) and the files' numbers of records, not from their packing or from who
reads them. The files come in an order of their own in every epoch and are cut into groups of up to 16. A group is read
in windows of about 10,000 records, of which each file of the group gives its share, in order; the records of a window
are mixed. So whoever begins in the middle reads one window from its start, and memory holds two.
"""

import concurrent.futures
import functools
import itertools
import os
from collections.abc import Iterator, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records.index import RecordIndex

# Records that are mixed: about 10 MB at length 128.
_WINDOW_RECORDS = 10_000
# Files that are read at once.
_MOST_OPEN_FILES = 16
# Records that are handed from Python to TensorFlow at once: a call costs as much as reading some dozens.
_RECORDS_AT_ONCE = 256
# Tells these draws from others of the same seed, such as those of masks.
_PURPOSE = 0x6F726465


class RecordOrder:
    """Batches of serialised records in a mixed order.

    Args:
        paths: the record files, one record or more in each.
        seed: any integer.
        index_path: where to keep the index of the files; see `RecordIndex.of_files`.
    """

    def __init__(self, paths: Sequence[str], seed: int, index_path: str | os.PathLike | None = None):
        self._paths = paths
        self._seed = seed % 2**64
        self._index_path = index_path

    @functools.cached_property
    def index(self) -> RecordIndex:
        """What is in the files; read when it is first asked for."""
        return RecordIndex.of_files(self._paths, self._index_path)

    def batches(
        self, batch_size: int, rows: tuple[int, int], start_step: int = 0, num_epochs: int | None = None
    ) -> Iterator[np.ndarray]:
        """Yields several batches at once: object arrays `(batches, rows)` of bytes.

        Args:
            batch_size: records in a batch.
            rows: which rows of every batch are wanted, from the first to before the second.
            start_step: the number of batches that were taken before.
            num_epochs: `None`: without end. After the last epoch comes what is left, a smaller batch.

        Raises:
            InputError: a record cannot be read.
        """
        at_once = batch_size * max(1, _RECORDS_AT_ONCE // batch_size)
        waiting = np.empty(0, object)
        for window in self._windows(start_step * batch_size, num_epochs):
            waiting = np.concatenate([waiting, window])
            while len(waiting) >= at_once:
                yield waiting[:at_once].reshape(-1, batch_size)[:, slice(*rows)]
                waiting = waiting[at_once:]
        for first in range(0, len(waiting), batch_size):
            yield waiting[None, first : first + batch_size][:, slice(*rows)]

    def _windows(self, position: int, num_epochs: int | None) -> Iterator[np.ndarray]:
        """Yields the records from the `position`-th of the first epoch on, window by window; one is read ahead."""
        epoch, position = divmod(position, int(self.index.counts.sum()))
        windows = itertools.chain.from_iterable(
            self._windows_of_epoch(number, position if number == epoch else 0)
            for number in (itertools.count(epoch) if num_epochs is None else range(epoch, num_epochs))
        )
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            ahead = thread.submit(next, windows, None)
            while (window := ahead.result()) is not None:
                ahead = thread.submit(next, windows, None)
                yield window

    def _windows_of_epoch(self, epoch: int, position: int) -> Iterator[np.ndarray]:
        order = self._permutation(len(self.index.paths), epoch, 0)
        number = 0
        for files in np.array_split(order, -(-len(order) // _MOST_OPEN_FILES)):
            ends = _window_ends(self.index.counts[files])
            num_records, num_windows = int(ends[:, -1].sum()), ends.shape[1] - 1
            first = int(np.searchsorted(ends.sum(axis=0)[1:], position, side="right"))
            passed = position - int(ends[:, first].sum())
            for place, records in enumerate(self._read_windows(files, ends[:, first:]), number + first + 1):
                window = np.empty(len(records), object)
                window[:] = records
                yield window[self._permutation(len(records), epoch, place)][passed:]
                passed = 0
            position = max(0, position - num_records)
            number += num_windows

    def _read_windows(self, files: np.ndarray, ends: np.ndarray) -> Iterator[list[bytes]]:
        """Reads windows of a group of files; `ends` (F, windows + 1): record numbers at which each file is cut."""
        readers = [self.index.records_from(file, start) for file, start in zip(files, ends[:, 0].tolist(), strict=True)]
        for sizes in np.diff(ends).T.tolist():
            window = []
            for file, reader, size in zip(files, readers, sizes, strict=True):
                num_before = len(window)
                window.extend(itertools.islice(reader, size))
                if len(window) < num_before + size:
                    raise InputError(
                        f"{self._paths[file]} has fewer records than when they were counted: something is writing "
                        "to it. Run the same again when that is done."
                    )
            yield window

    def _permutation(self, size: int, epoch: int, number: int) -> np.ndarray:
        # Raw bits are what NumPy promises never to change.
        bits = np.random.PCG64([self._seed, epoch, number, _PURPOSE]).random_raw(size)
        return np.argsort(bits, kind="stable")


def _window_ends(counts: np.ndarray) -> np.ndarray:
    """Cuts the files of a group into windows, each file into equal parts: (F,) -> int64 (F, windows + 1).

    Example:
        counts [25_000, 5_000] -> [[0, 8333, 16666, 25000], [0, 1666, 3333, 5000]]
    """
    num_windows = max(1, round(int(counts.sum()) / _WINDOW_RECORDS))
    return counts[:, None] * np.arange(num_windows + 1) // num_windows
