"""The four clients: REST or gRPC, for callers that wait (threads may share a client) and for asyncio.

A client combines a constructor (`_Rest` or `_Grpc`) with methods that wait (`BlockingClient`) or suspend (`Asking`).
"""

import functools
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from keras_bert.program.errors import InputError
from keras_bert.program.options import check_number, check_whole
from keras_bert.tf_serving.client.asking import Asking
from keras_bert.tf_serving.client.request_batches import ROWS_OF_A_REQUEST
from keras_bert.tf_serving.client.waiting import AsyncioWait, BlockingWait, finish


def _blocking(method):
    """Returns the method of `BlockingClient` that runs a coroutine of `Asking`."""

    @functools.wraps(method)
    def run(self, /, *arguments, **options):
        return finish(method(self._asking, *arguments, **options))

    return run


class _Waiting:
    """What the constructors below take from the class beside them: how it waits, and the arguments of `Asking`."""

    _wait_class: Any
    _default_in_flight: int

    if TYPE_CHECKING:

        def __init__(self, *arguments: Any): ...


class BlockingClient:
    """The methods of the clients whose callers wait. `Asking` has the arguments of the constructor."""

    _wait_class, _default_in_flight = BlockingWait, 4

    def __init__(self, *arguments: Any):
        self._asking = Asking(*arguments)

    predict = _blocking(Asking.predict)
    answers = _blocking(Asking.answers)
    classify = _blocking(Asking.classify)
    regress = _blocking(Asking.regress)
    metadata = _blocking(Asking.metadata)
    status = _blocking(Asking.status)
    wait_until_available = _blocking(Asking.wait_until_available)
    close = _blocking(Asking.close)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class _Rest(_Waiting):
    """The constructor of the REST clients; see `RestClient` for its arguments."""

    def __init__(
        self,
        url: str,
        model: str,
        version: int | None = None,
        label: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 3,
        batch_size: int | None = ROWS_OF_A_REQUEST,
        max_in_flight: int | None = None,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ):
        from keras_bert.tf_serving.client.http_connections import HttpConnections, RestChannel
        from keras_bert.tf_serving.client.rest_format import RestFormat

        max_in_flight = self._default_in_flight if max_in_flight is None else max_in_flight
        _check(model, version, label, timeout, retries, max_in_flight)
        connections = HttpConnections(url, headers or {}, tls, max_in_flight)
        wait = self._wait_class(max_in_flight)
        format = RestFormat(connections.url, connections.prefix, model, version, label)
        super().__init__(format, RestChannel(connections, format, wait), wait, timeout, retries, batch_size)


class _Grpc(_Waiting):
    """The constructor of the gRPC clients; see `GrpcClient` for its arguments."""

    def __init__(
        self,
        address: str,
        model: str,
        version: int | None = None,
        label: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 3,
        batch_size: int | None = ROWS_OF_A_REQUEST,
        max_in_flight: int | None = None,
        headers: Mapping[str, str] | None = None,
        credentials: Any = None,
    ):
        from keras_bert.tf_serving.client.grpc_api import GrpcChannel, GrpcFormat

        max_in_flight = self._default_in_flight if max_in_flight is None else max_in_flight
        _check(model, version, label, timeout, retries, max_in_flight)
        wait = self._wait_class(max_in_flight)
        channel = GrpcChannel(address, headers or {}, credentials, is_asyncio=isinstance(wait, AsyncioWait))
        format = GrpcFormat(address, model, version, label)
        super().__init__(format, channel, wait, timeout, retries, batch_size)


def _check(
    model: str, version: int | None, label: str | None, timeout: float, retries: int, max_in_flight: int
) -> None:
    """Raises `InputError` if one of these arguments of a client is not valid."""
    if not isinstance(model, str) or not model or any("\ud800" <= sign <= "\udfff" for sign in model):
        raise InputError(f"The model is {model!r}; give its name on the server.")
    if version is not None and label is not None:
        raise InputError(f"version={version} and label={label!r} are given; a version has a number or a label.")
    check_whole("version", version, at_least=0, at_most=2**63 - 1, or_none=True)
    check_number("timeout", timeout, above=0)
    check_whole("retries", retries, at_least=0)
    check_whole("max_in_flight", max_in_flight, at_least=1)


class RestClient(_Rest, BlockingClient):
    """Asks a model over TF Serving's REST API. Threads may share a client. It needs nothing but numpy.

    Args:
        url: "http://host:8501", or "https://...".
        model: the model's name on the server.
        version, label: the version to ask; the newest if neither is given.
        timeout: seconds for one request with all its attempts.
        retries: how often a request is sent again if the connection fails or the server is busy (429, 503).
        batch_size: the most rows of one request; None sends all rows at once.
        max_in_flight: the most requests of one `predict` at once; by default 4, and 16 for the asyncio clients.
        headers: sent with every request.
        tls: for https, an `ssl.SSLContext`; by default the certificates of the system are trusted.

    Raises:
        InputError: an argument is not valid.
    """


class GrpcClient(_Grpc, BlockingClient):
    """Asks a model over TF Serving's gRPC API. Threads may share a client.

    It needs the extra `client`, tensorflow-serving-api, and imports TensorFlow when it is made.

    Args:
        address: "host:8500".
        credentials: `grpc.ssl_channel_credentials(...)` for TLS.
        Others: as in `RestClient`.

    Raises:
        InputError: an argument is not valid, or tensorflow-serving-api is not installed.
    """


class AsyncRestClient(_Rest, Asking):
    """`RestClient` for asyncio. Its requests run in `max_in_flight` threads of the client.

    A cancelled task does not end its request: the request runs on until its answer or its timeout.
    """


class AsyncGrpcClient(_Grpc, Asking):
    """`GrpcClient` for asyncio. Create it in the event loop that uses it."""
