"""Two ways to wait: blocking the calling thread, or suspending a task of asyncio. Both have the same methods."""

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Coroutine, Sequence


def finish(coroutine: Coroutine):
    """Runs a coroutine that blocks instead of suspending, and returns its result. It needs no event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("The coroutine waits for an event loop.")


class BlockingWait:
    """Waits in the calling thread. Requests that are sent at once run in `max_in_flight` threads."""

    def __init__(self, max_in_flight: int):
        # It starts threads only when they have work.
        self._threads = concurrent.futures.ThreadPoolExecutor(max_in_flight, "serving-client")

    async def call(self, function: Callable[[float], object], timeout: float):
        """Returns `function(timeout)`."""
        return function(timeout)

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def for_all(self, ask: Callable[[object], Coroutine], parts: Sequence) -> list:
        """Returns the results of `ask` for all parts. After the first error no other part begins."""
        failed = threading.Event()

        def answer(part):
            if failed.is_set():
                return None  # nobody sees it: the part that failed raises its error below
            try:
                return finish(ask(part))
            except BaseException:
                failed.set()
                raise

        futures = [self._threads.submit(answer, part) for part in parts]
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()

    async def close(self) -> None:
        self._threads.shutdown()


class AsyncioWait:
    """Waits in the event loop. Functions that block run in `max_in_flight` threads."""

    def __init__(self, max_in_flight: int):
        self._max_in_flight = max_in_flight
        self._threads = concurrent.futures.ThreadPoolExecutor(max_in_flight, "serving-client")

    async def call(self, function: Callable[[float], object], timeout: float):
        """Returns `function(seconds)` with the seconds of `timeout` that are left when a thread is free."""
        end = time.monotonic() + timeout

        def call():
            return function(max(end - time.monotonic(), 0.001))

        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def for_all(self, ask: Callable[[object], Coroutine], parts: Sequence) -> list:
        """Returns the results of `ask` for all parts. The first error cancels the other parts."""
        free = asyncio.Semaphore(self._max_in_flight)

        async def ask_when_free(part):
            async with free:
                return await ask(part)

        tasks = [asyncio.ensure_future(ask_when_free(part)) for part in parts]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
