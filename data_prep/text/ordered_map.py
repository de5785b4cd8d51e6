"""Maps a function over any number of items in several processes, in order and in bounded memory."""

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import forkserver
from typing import TypeVar

from keras_bert.program.errors import InputError
from keras_bert.program.quiet_tensorflow import quiet_tensorflow

Item = TypeVar("Item")
Result = TypeVar("Result")


def available_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


class WorkerPool:
    """Processes for one or several calls of `map`, one after the other. They start when they are first needed.

    With more than one process the calling script needs the usual `if __name__ == "__main__":`.
    """

    def __init__(self, num_processes: int):
        self.num_processes = num_processes
        self._executor = None
        # Spawned instead of forked: if TensorFlow is loaded, its threads do not survive a fork.
        self._context = multiprocessing.get_context("spawn")

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def preload(self, module: str) -> None:
        """Starts importing a module once for all processes of the pool, if they have not started yet.

        A server process imports it and is then forked, so the module must not start threads.
        """
        if self._executor is None and "forkserver" in multiprocessing.get_all_start_methods():
            self._context = multiprocessing.get_context("forkserver")
            self._context.set_forkserver_preload([module])
            with ctrl_c_held_back():
                forkserver.ensure_running()

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], num_processes: int | None = None
    ) -> Iterator[Result]:
        """As `ordered_map`, with up to `num_processes` processes of the pool (by default all)."""
        num_processes = min(num_processes or self.num_processes, self.num_processes)
        if num_processes == 1:
            yield from map(function, items)
            return
        waiting = deque()
        try:
            for item in items:
                with ctrl_c_held_back():
                    waiting.append(self._started().submit(function, item))
                if len(waiting) > num_processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise InputError(
                "A process was killed, most often for lack of memory. Use fewer processes (--num_processes)."
            ) from None
        finally:
            # Started work is awaited: it may be writing to files that the caller is about to remove.
            concurrent.futures.wait([future for future in waiting if not future.cancel()])

    def close(self) -> None:
        """Stops the processes after their current work."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            self._executor = None

    def _started(self) -> concurrent.futures.ProcessPoolExecutor:
        if self._executor is None:
            self._executor = concurrent.futures.ProcessPoolExecutor(
                self.num_processes, self._context, initializer=_start_worker
            )
        return self._executor


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], num_processes: int) -> Iterator[Result]:
    """Yields `function(item)` for every item, in the order of the items, like `map`.

    Items are taken only when a process is about to become free: at most `num_processes` + 1 are in memory. Raises
    `InputError` if a process was killed.
    """
    with WorkerPool(num_processes) as pool:
        yield from pool.map(function, items)


def _start_worker() -> None:
    quiet_tensorflow()
    # The processes are the threads: the package tokenizers starts none of its own.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


@contextlib.contextmanager
def ctrl_c_held_back() -> Iterator[None]:
    """Blocks Ctrl-C, which reaches every process of a terminal, for processes that are started in this block.

    The main process receives it when the block ends. (A process cannot ignore it by itself while it starts.)
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
