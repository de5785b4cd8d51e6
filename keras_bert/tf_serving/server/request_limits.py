"""Admits requests within the limits of the server: their number, the size of a body, and the time for each part."""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping

from keras_bert.program.options import Options, documented, option

# A refused body is read and dropped up to this multiple of the limit, so that clients get the answer.
_DROPPED_BODIES = 8


class RequestError(Exception):
    """A request is refused, with an HTTP status, a message for clients, and headers of the answer."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers or {}


@documented
@dataclasses.dataclass(frozen=True)
class ServerOptions(Options):
    """The options of a server. `timeout_seconds` is the time limit of an answer."""

    host: str = option("127.0.0.1", "The address to listen on. 0.0.0.0 admits other machines.")
    port: int = option(8501, "The port of REST and the page. 0 selects a free port.", at_least=0, at_most=65535)
    num_threads: int = option(2, "Requests computed at once.", at_least=1)
    max_requests: int = option(1000, "Requests in progress at once; more are refused.", at_least=1)
    max_rows: int = option(10_000, "The largest number of rows in a request.", at_least=1)
    max_body_bytes: int = option(64 << 20, "The largest request in bytes.", at_least=1)
    body_seconds: float = option(60, "The time limit for the arrival of a request.", at_least=0.001)
    timeout_seconds: float = option(30, above=0)
    shutdown_seconds: float = option(30, "The time limit for requests in progress at the end.", at_least=0)


class RequestLimits:
    """Reads bodies and computes answers, within the limits of the options."""

    def __init__(self, options: ServerOptions):
        self._options = options
        self._threads = concurrent.futures.ThreadPoolExecutor(options.num_threads, "model")
        self._num_requests = 0

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """Counts a request as in progress from its first byte to its answer, since slow bodies take memory too.

        Raises `RequestError` 429 if too many requests are in progress.
        """
        if self._num_requests >= self._options.max_requests:
            raise RequestError(429, f"{self._options.max_requests} requests are running; try again later.")
        self._num_requests += 1
        try:
            yield
        finally:
            self._num_requests -= 1

    async def body(self, receive) -> bytes:
        """Returns the body of a request. Raises `RequestError`: 413 too large, 408 too slow, 499 disconnected."""
        most, chunks, size, is_complete = self._options.max_body_bytes, [], 0, False
        close = {"connection": "close"}
        try:
            async with asyncio.timeout(self._options.body_seconds):
                while not is_complete and size <= _DROPPED_BODIES * most:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestError(499, "The client has disconnected.")  # nobody reads it
                    chunk, is_complete = message.get("body", b""), not message.get("more_body", False)
                    size += len(chunk)
                    if size <= most:
                        chunks.append(chunk)
                    else:
                        chunks.clear()
        except TimeoutError:
            seconds = f"{self._options.body_seconds:g} seconds"
            raise RequestError(408, f"The body did not arrive within {seconds}.", close) from None
        if size > most:
            raise RequestError(413, f"The body is larger than {most} bytes, the limit of this server.", close)
        return b"".join(chunks)

    async def computed(self, compute: Callable[[], bytes]) -> bytes:
        """Returns the result of a function that runs in a thread. Raises `RequestError` 504 if it took too long.

        A request that is out of time is not computed, unless a thread has started.
        """
        seconds = self._options.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                # To cancel this future cancels the work, if no thread has started it.
                return await asyncio.get_running_loop().run_in_executor(self._threads, compute)
        except TimeoutError:
            raise RequestError(504, f"Timed out: the answer took longer than {seconds:g} seconds.") from None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
