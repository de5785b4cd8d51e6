"""Starts the server, watches for changes, and stops it on request."""

import asyncio
import contextlib
import dataclasses
import functools
import logging
import os
import queue
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence

import uvicorn

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.loading import load_text_operations
from keras_bert.tf_serving.server.http_protocol import ImpatientProtocol, LoopbackHosts, RestServer, is_loopback
from keras_bert.tf_serving.server.inference import Inference
from keras_bert.tf_serving.server.loaded_model import ServedModel
from keras_bert.tf_serving.server.model_config import EXPORT_FILE, ModelConfig, read_model_configs
from keras_bert.tf_serving.server.model_store import ModelStore
from keras_bert.tf_serving.server.rest_app import RestApp
from keras_bert.tf_serving.server.server_options import ServerOptions
from keras_bert.tf_serving.server.status import StatusError
from keras_bert.tf_serving.server.warm_up import load_and_warm_up

logger = logging.getLogger(__name__)
_loading_operations = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Address:
    """Where a running server listens."""

    host: str
    port: int


def run_server(
    configs: Sequence[ModelConfig],
    options: ServerOptions,
    *,
    on_start: Callable[[Address], None] = lambda address: None,
) -> None:
    """Serves until SIGTERM or Ctrl-C, then answers the requests in progress and returns.

    Args:
        configs: the models.
        options: the options of the server.
        on_start: called with the address as soon as the server listens; models may still be loading.

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
        await _serve(configs, options, on_start, stop)

    asyncio.run(serve())


@contextlib.contextmanager
def background_server(configs: Sequence[ModelConfig], options: ServerOptions) -> Iterator[Address]:
    """Serves in a thread of this process inside the block, for tests and notebooks.

    Raises:
        InputError: the port cannot be used.
    """
    started: queue.Queue = queue.Queue()

    async def serve() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()

        def on_start(address: Address) -> None:
            started.put((address, lambda: loop.call_soon_threadsafe(stop.set)))

        await _serve(configs, options, on_start, stop)

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
    configs: Sequence[ModelConfig],
    options: ServerOptions,
    on_start: Callable[[Address], None],
    stop: asyncio.Event,
) -> None:
    """Serves until `stop` is set, then answers the requests in progress."""
    store = ModelStore(
        configs,
        load=functools.partial(_load, options),
        retry_seconds=options.load_retry_seconds,
        allow_labels_for_unavailable=options.allow_labels_for_unavailable,
    )
    inference = Inference(store, options)
    listener = _listen(options.host, options.port)
    watchers = [asyncio.ensure_future(work) for work in _watchers(store, options)]
    rest = RestServer(_rest_config(inference, options))
    serving = asyncio.ensure_future(rest.serve(sockets=[listener]))
    on_start(Address(options.host, listener.getsockname()[1]))
    await stop.wait()
    logger.info("Stopping after answering the requests in progress.")
    for watcher in watchers:
        watcher.cancel()
    rest.should_exit = True
    await serving
    await inference.wait_until_idle(options.shutdown_seconds)
    await store.unload_all()
    inference.close()


def _load(options: ServerOptions, folder: str) -> ServedModel:
    """Returns the model of a version: a SavedModel, or an exported folder, which needs no TensorFlow."""
    if options.load_export is not None and os.path.isfile(os.path.join(folder, EXPORT_FILE)):
        return options.load_export(folder)
    with _loading_operations:  # models need the operations of the tokenizer
        load_text_operations()
    return load_and_warm_up(folder)


def _rest_config(inference: Inference, options: ServerOptions) -> uvicorn.Config:
    app = RestApp(inference, options)
    return uvicorn.Config(
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


def _watchers(store: ModelStore, options: ServerOptions) -> Iterator[Coroutine]:
    yield store.watch(options.poll_seconds) if options.poll_seconds else store.poll()
    if options.model_config_file and options.config_poll_seconds:
        yield _watch_config(store, options.model_config_file, options.config_poll_seconds)


async def _watch_config(store: ModelStore, path: str, seconds: float) -> None:
    last = None
    while True:
        await asyncio.sleep(seconds)
        try:
            configs = await asyncio.to_thread(read_model_configs, path)
            await store.configure(configs)
            last = None
        except (InputError, StatusError) as error:
            if str(error) != last:
                logger.warning("The served models do not change: %s", error)
                last = str(error)


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
