"""Mapping a function over any number of items in several processes, in order and in bounded memory."""

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from keras_bert.errors import InputError
from keras_bert.quiet_tensorflow import quiet_tensorflow

Item = TypeVar("Item")
Result = TypeVar("Result")


def available_cores() -> int:
    """Returns how many processes can run at once on the cores that this one may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], num_processes: int) -> Iterator[Result]:
    """Yields `function(item)` for every item, in the order of the items, as `map` does.

    Items are taken only when a process is about to be free: at most `num_processes` + 1 are held. With more than one
    process the calling script needs the usual `if __name__ == "__main__":`.

    Raises:
        InputError: a process was killed.
    """
    if num_processes == 1:
        yield from map(function, items)
        return
    # Spawned, not forked: TensorFlow's threads, should it be loaded, do not survive a fork.
    context = multiprocessing.get_context("spawn")
    executor = concurrent.futures.ProcessPoolExecutor(num_processes, context, initializer=quiet_tensorflow)
    try:
        waiting = deque()
        for item in items:
            with ctrl_c_held_back():
                waiting.append(executor.submit(function, item))
            if len(waiting) > num_processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise InputError(
            "A process was killed, most often for lack of memory. Use fewer processes (--num_processes)."
        ) from None
    finally:
        executor.shutdown(cancel_futures=True)


@contextlib.contextmanager
def ctrl_c_held_back() -> Iterator[None]:
    """Keeps Ctrl-C, which reaches every process of a terminal, from processes that are started in this block.

    The main process, whose part it is to answer, sees it when the block ends. (A process that ignores it on its own
    is not deaf yet while it starts.)
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
