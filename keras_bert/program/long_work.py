"""Shows on standard error what long work is doing, and how far it is.

Progress belongs to the main thread. Lines of several threads would mix, and tqdm fails where threads make bars at once.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

SECONDS_BETWEEN_LINES = 10.0
_stack: list[str] = []  # the work of the main thread, the inner behind the outer


@contextlib.contextmanager
def long_work(what: str) -> Iterator[None]:
    """Prints every ten seconds what the block is doing, and for how long; nothing if it is done before.

    In other threads than the main one nothing is printed.

    In a block within a block the inner work is shown behind the outer: `exporting to served: checking it (20 s)`.
    """
    if not shows_progress():
        yield
        return
    is_done = threading.Event()
    thread = None if _stack else threading.Thread(target=_print_lines, args=(is_done,), daemon=True)
    _stack.append(what)
    if thread:
        thread.start()
    try:
        yield
    finally:
        if thread:
            is_done.set()
            thread.join()
        _stack.pop()


def progress_bar(
    iterable: Iterable | None = None, *, total: int | None = None, initial: int = 0, **options: Any
) -> Any:
    """Returns a bar of tqdm; in other threads than the main one, an object that is used like it and shows nothing."""
    if not shows_progress():
        return _HiddenBar(iterable or (), total, initial)
    from tqdm import tqdm

    return tqdm(iterable, total=total, initial=initial, **options)


class _HiddenBar:
    """What the package uses of a bar. A disabled one of tqdm would still enter the list that all its bars share."""

    def __init__(self, iterable: Iterable, total: int | None, initial: int):
        self._iterable, self.total, self.n = iterable, total, initial

    def __iter__(self) -> Iterator:
        return iter(self._iterable)

    def __enter__(self) -> "_HiddenBar":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def update(self, number: int = 1) -> None:
        self.n += number

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        pass

    def close(self) -> None:
        pass


def shows_progress() -> bool:
    """Returns whether this thread shows progress: the main thread does."""
    return threading.current_thread() is threading.main_thread()


def _print_lines(is_done: threading.Event) -> None:
    start = time.monotonic()
    while not is_done.wait(SECONDS_BETWEEN_LINES):
        print(f"{': '.join(_stack)} ({time.monotonic() - start:.0f} s)", file=sys.stderr, flush=True)
