"""Adapts uvicorn: slow models may take their time, slow clients are disconnected."""

import contextlib
import dataclasses
import ipaddress
import json
import urllib.parse
from collections.abc import Mapping

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEADER_SECONDS = 30
_MAX_HEADER_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class HttpAnswer:
    """The answer to an HTTP request; `headers` are those besides the type and the length of the body."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


def error_body(message: str) -> bytes:
    """Returns the body of an answer that refuses a request."""
    return json.dumps({"error": message}).encode()


async def send_answer(scope, send, answer: HttpAnswer) -> None:
    """Sends an answer with the `send` of an ASGI application; to HEAD without its body."""
    headers = {"content-type": answer.content_type, "content-length": str(len(answer.body)), **answer.headers}
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.body})


class RestServer(uvicorn.Server):
    """uvicorn's server without its signal handlers: `run_server` has its own."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield


class ImpatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with connections closed if their headers do not arrive in time or are too long."""

    _waiting, _num_bytes = None, 0

    def connection_made(self, transport) -> None:
        super().connection_made(transport)
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


class LoopbackHosts:
    """An ASGI application that answers only requests with a loopback name of this machine as Host.

    Otherwise a web page could let its own host name point to 127.0.0.1 (DNS rebinding) and read the answers of a server
    that is meant for this machine only. Requests without a Host do not come from browsers.
    """

    def __init__(self, app):
        self._app = app

    async def __call__(self, scope, receive, send) -> None:
        hosts = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name == b"host"]
        foreign = [host for host in hosts if host and not is_loopback(_host_name(host))]
        if not foreign:
            await self._app(scope, receive, send)
            return
        body = error_body(
            f"The Host header is {foreign[0]!r}, but this server listens on this machine only and answers to "
            "localhost, 127.0.0.1 and [::1]. Use one of these names, let a proxy send one, or start the server with "
            "--host."
        )
        await send_answer(scope, send, HttpAnswer(403, body))


def _host_name(host: str) -> str:
    """Returns the name in a Host header: "LocalHost:8501" -> "localhost", "[::1]:80" -> "::1", "" -> ""."""
    try:
        return (urllib.parse.urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Returns whether only this machine can reach a host's address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
