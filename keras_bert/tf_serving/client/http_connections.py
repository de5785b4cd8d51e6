"""Reused HTTP/1.1 connections, shared between threads, with a deadline for each whole answer."""

import collections
import functools
import http.client
import io
import ssl
import threading
import time
import urllib.parse
from collections.abc import Mapping

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.client.errors import DeadlineExceeded, Unavailable, not_http_error
from keras_bert.tf_serving.client.rest_format import HttpRequest, RestFormat
from keras_bert.tf_serving.client.waiting import AsyncioWait, BlockingWait

_READ_BYTES = 1 << 16
# The errors of a connection that the server closed while it was idle.
_STALE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ConnectionAbortedError)


class HttpConnections:
    """Sends requests to one server; every thread takes an idle connection or opens a new one.

    The proxy variables of the environment are ignored. At most `keep` idle connections are kept; for the other
    arguments see `RestClient`. The URL may have a path, if a proxy serves the API below one.

    Raises:
        InputError: the URL or a header is not valid.
    """

    def __init__(self, url: str, headers: Mapping[str, str], tls: ssl.SSLContext | None, keep: int):
        try:
            parts = urllib.parse.urlsplit(url)
            self._host, self._port = parts.hostname, parts.port
        except ValueError as error:
            raise InputError(f"{url!r} is not a URL ({error}). Write http://host:port.") from error
        if parts.scheme not in ("http", "https") or not self._host or parts.query or parts.fragment or parts.username:
            raise InputError(f"{url!r} is not the URL of a server. Write http://host:port or https://host:port.")
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self.url, self.prefix = url.rstrip("/"), parts.path.rstrip("/")
        self._headers = dict(headers)
        for name, value in self._headers.items():
            if not name.isascii() or any(sign in str(name) + str(value) for sign in "\r\n\0"):
                raise InputError(f"The header {name!r}: {value!r} cannot be sent.")
        self._idle: collections.deque = collections.deque()
        self._keep, self._lock, self._closed = keep, threading.Lock(), False

    def send(self, path: str, body: bytes | None, timeout: float) -> tuple[int, bytes]:
        """Returns the HTTP status and the body of the answer.

        Raises:
            Unavailable: there is no connection, or it broke.
            DeadlineExceeded: the answer was not complete after `timeout` seconds.
            ServingError: the server does not speak HTTP/1.1.
        """
        end = time.monotonic() + timeout
        while True:
            connection, is_fresh = self._take()
            try:
                status, answer = self._exchange(connection, path, body, end)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if not is_fresh and isinstance(error, _STALE):
                    # The server closed it while it was idle, and probably the other idle ones too. It did not answer.
                    self._close_idle()
                    continue
                raise self._error(error, timeout) from error
            except BaseException:
                connection.close()
                raise
            self._give_back(connection)
            return status, answer

    def close(self) -> None:
        """Closes the idle connections; the others are closed after their current request."""
        self._closed = True
        self._close_idle()

    def _exchange(self, connection, path: str, body: bytes | None, end: float) -> tuple[int, bytes]:
        connection.timeout, connection.response_class = _remaining(end), functools.partial(_response_until, end)
        if connection.sock is not None:
            connection.sock.settimeout(connection.timeout)
        headers = {"Accept": "application/json", **self._headers}
        if body is not None:
            headers["Content-Type"] = "application/json"
        was_cut_short = False
        try:
            connection.request("POST" if body is not None else "GET", path, body, headers)
        except (BrokenPipeError, ConnectionResetError):
            if connection.sock is None:
                raise
            # A server may refuse a large body without reading all of it; its answer says why.
            was_cut_short = True
        response = connection.getresponse()
        answer = response.status, response.read()
        if was_cut_short:
            connection.close()
        return answer

    def _take(self):
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if connection.sock is not None:
                    return connection, False
        kind = http.client.HTTPSConnection if self._tls else http.client.HTTPConnection
        options = {"context": self._tls} if self._tls else {}
        return kind(self._host, self._port, **options), True

    def _give_back(self, connection) -> None:
        with self._lock:
            if connection.sock is not None and not self._closed and len(self._idle) < self._keep:
                self._idle.append(connection)
                return
        connection.close()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, collections.deque()
        for connection in idle:
            connection.close()

    def _error(self, error: Exception, timeout: float):
        if isinstance(error, TimeoutError):
            return DeadlineExceeded(self.url, "DEADLINE_EXCEEDED", f"no whole answer within {timeout:.3g} seconds")
        if isinstance(error, http.client.BadStatusLine) and not isinstance(error, http.client.RemoteDisconnected):
            return not_http_error(self.url, error.line)
        text = str(error) or type(error).__name__
        if isinstance(error, ssl.SSLError):
            text = f"{text} (does the server speak TLS, with a certificate that is trusted here?)"
        return Unavailable(self.url, "UNAVAILABLE", f"no connection, or it broke: {text}")


def _remaining(end: float) -> float:
    """Returns the seconds until `end`. Raises `TimeoutError` if it has passed."""
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("out of time")
    return seconds


class _DeadlineReader(io.RawIOBase):
    """Reads a socket until a deadline. The socket's own timeout would start again with every byte that arrives."""

    def __init__(self, socket, end: float):
        self._socket, self._end = socket, end
        self._file = socket.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        self._socket.settimeout(_remaining(self._end))
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


def _response_until(end: float, socket, *arguments, **options) -> http.client.HTTPResponse:
    """Returns a response that is read until a deadline."""
    response = http.client.HTTPResponse(socket, *arguments, **options)
    response.fp.close()
    response.fp = io.BufferedReader(_DeadlineReader(socket, end), _READ_BYTES)
    return response


class RestChannel:
    """Sends the requests of a `RestFormat`, which also checks the status of the answers."""

    def __init__(self, connections: HttpConnections, format: RestFormat, wait: BlockingWait | AsyncioWait):
        self._connections, self._format, self._wait = connections, format, wait

    async def send(self, request: HttpRequest, timeout: float) -> bytes:
        """Returns the body of the answer. Raises `ServingError` if there is none within `timeout` seconds."""

        def exchange(seconds: float) -> tuple[int, bytes]:
            return self._connections.send(request.path, request.body, seconds)

        return self._format.checked(*await self._wait.call(exchange, timeout))

    async def close(self) -> None:
        self._connections.close()
