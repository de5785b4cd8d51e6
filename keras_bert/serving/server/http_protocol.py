"""uvicorn, fitted: patient with slow models and impatient with slow clients."""

import asyncio
import contextlib

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEADER_SECONDS = 30
_MAX_HEADER_BYTES = 1 << 20


class RestServer(uvicorn.Server):
    """uvicorn's server, whose signals are handled here for both APIs together."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield


class ImpatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which closes connections whose headers do not arrive in time, or never end."""

    _waiting, _num_bytes = None, 0

    def connection_made(self, transport) -> None:
        super().connection_made(_JoinedWrites(transport, self.loop))
        self._wait_for_headers()

    def connection_lost(self, exc) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._waiting is not None:
            self._num_bytes += len(data)
        super().data_received(data)
        if self._waiting is not None and self._num_bytes > _MAX_HEADER_BYTES:
            self.transport.close()

    def on_message_begin(self) -> None:
        self._wait_for_headers()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def _wait_for_headers(self) -> None:
        self._stop_waiting()
        self._waiting, self._num_bytes = self.loop.call_later(_HEADER_SECONDS, self.transport.close), 0

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


class _JoinedWrites:
    """A transport that sends what is written in one step of the loop at once.

    uvicorn writes the headers and the body of an answer one after the other. Each is a system call, after which the
    thread has to wait for its turn among those that run models.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop):
        self._transport, self._loop, self._parts = transport, loop, []

    def __getattr__(self, name: str):
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(data)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._parts:
            self._transport.write(b"".join(self._parts))
            self._parts = []
