"""Starts the server and stops it on request."""

import asyncio
import contextlib
import dataclasses
import logging
import queue
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import uvicorn

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.server.http_protocol import ImpatientProtocol, LoopbackHosts, RestServer, is_loopback
from keras_bert.tf_serving.server.request_limits import ServerOptions
from keras_bert.tf_serving.server.rest_app import RestApp

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Address:
    """Where a running server listens."""

    host: str
    port: int


def run_server(
    models: Mapping[str, Any],
    options: ServerOptions,
    *,
    on_start: Callable[[Address], None] = lambda address: None,
) -> None:
    """Serves until SIGTERM or Ctrl-C, then answers the requests in progress and returns.

    Args:
        models: name in requests -> loaded export, from `keras_bert.serving.load`.
        options: the options of the server.
        on_start: called with the address as soon as the server listens.

    Raises:
        InputError: the port cannot be used.
    """

    async def serve() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        signals = (signal.SIGINT, signal.SIGTERM)

        def end() -> None:
            stop.set()
            for number in signals:
                loop.remove_signal_handler(number)  # a second signal ends the process at once

        for number in signals:
            loop.add_signal_handler(number, end)
        await _serve(models, options, on_start, stop)

    asyncio.run(serve())


@contextlib.contextmanager
def background_server(models: Mapping[str, Any], options: ServerOptions) -> Iterator[Address]:
    """Serves in a thread of this process inside the block, for tests and notebooks; `models` as in `run_server`.

    Raises:
        InputError: the port cannot be used.
    """
    started: queue.Queue = queue.Queue()

    async def serve() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()

        def on_start(address: Address) -> None:
            started.put((address, lambda: loop.call_soon_threadsafe(stop.set)))

        await _serve(models, options, on_start, stop)

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            started.put((error, None))
            if not isinstance(error, InputError):
                raise

    thread = threading.Thread(target=run, name="server")
    thread.start()
    address, stop = started.get()
    try:
        if stop is None:
            raise address
        yield address
    finally:
        if stop is not None:
            stop()
        thread.join()


async def _serve(
    models: Mapping[str, Any], options: ServerOptions, on_start: Callable[[Address], None], stop: asyncio.Event
) -> None:
    """Serves until `stop` is set, then answers the requests in progress."""
    app = RestApp(models, options)
    listener = _listen(options.host, options.port)
    server = RestServer(
        uvicorn.Config(
            LoopbackHosts(app) if is_loopback(options.host) else app,
            http=ImpatientProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=int(options.shutdown_seconds) or 1,
            server_header=False,
            proxy_headers=False,
        )
    )
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    on_start(Address(options.host, listener.getsockname()[1]))
    await stop.wait()
    logger.info("Stopping after answering the requests in progress.")
    server.should_exit = True
    await serving
    app.close()


def _listen(host: str, port: int) -> socket.socket:
    listener = None
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio disables Nagle's delay only for sockets with an explicit protocol.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise InputError(
            f"The server cannot listen on {host}:{port}: {error.strerror}. If the port is used, choose another --port."
        ) from None
    return listener
