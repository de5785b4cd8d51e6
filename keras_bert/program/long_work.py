"""Shows on standard error what exports, kits and conversions are doing, if they take longer than ten seconds."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

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
