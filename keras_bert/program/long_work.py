"""Shows on standard error how far long work is: bars, and lines for exports, kits and conversions."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 10.0
_of_thread = threading.local()


@contextlib.contextmanager
def long_work(what: str) -> Iterator[None]:
    """Prints every ten seconds what the block is doing, and for how long; nothing if it is done before.

    In a block within a block the inner work is shown behind the outer: `exporting to served: checking it (20 s)`.

    Args:
        what: the work, such as "exporting to served".
    """
    stack = getattr(_of_thread, "stack", None)
    if stack is not None:
        stack.append(what)
        try:
            yield
        finally:
            stack.pop()
        return
    stack, is_done = [what], threading.Event()
    _of_thread.stack = stack
    thread = threading.Thread(target=_print_lines, args=(stack, is_done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()
        _of_thread.stack = None


def _print_lines(stack: list[str], is_done: threading.Event) -> None:
    start = time.monotonic()
    while not is_done.wait(SECONDS_BETWEEN_LINES):
        print(f"{': '.join(stack)} ({time.monotonic() - start:.0f} s)", file=sys.stderr, flush=True)


def progress_bar(iterable: Iterable | None = None, **arguments: Any) -> Any:
    """Returns a bar of tqdm in the main thread, and a bar that shows nothing in other threads.

    Bars of several threads would mix on standard error, and tqdm's own list of bars fails where threads change it.

    Args:
        iterable: what the bar goes through, if it is not moved by `update`.
        arguments: those of `tqdm.tqdm`.
    """
    is_main = threading.current_thread() is threading.main_thread()
    return tqdm(iterable, **arguments) if is_main else _HiddenBar(iterable)


class _HiddenBar(contextlib.nullcontext):
    """Has those methods of a bar of tqdm that the package uses."""

    def __init__(self, iterable: Iterable | None):
        super().__init__(self)
        self._iterable = iterable

    def __iter__(self) -> Iterator:
        return iter(self._iterable or ())

    def update(self, number: float = 1) -> None:
        """Does nothing."""

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""
