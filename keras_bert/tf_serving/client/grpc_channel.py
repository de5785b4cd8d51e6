"""gRPC channels, for waiting callers and for asyncio."""

from collections.abc import Mapping

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.client.errors import ServingError, serving_error
from keras_bert.tf_serving.client.grpc_format import GrpcRequest
from keras_bert.tf_serving.wire import messages
from keras_bert.tf_serving.wire.methods import METHODS

try:
    import grpc
except ImportError as error:
    raise InputError(
        "grpcio is not installed; a gRPC client needs it. Run: pip install 'keras-bert-pipeline[client]', "
        "or use RestClient."
    ) from error

_OPTIONS = [
    # The server has its own limits; those of the library are 4 MB.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # When a request is sent again is decided in one place: retrying.py.
    ("grpc.enable_retries", 0),
    # A server that has just started is found within a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


def _open(module, address: str, credentials):
    if "://" in address or not address:
        raise InputError(f"{address!r} is no address of a gRPC server. Write host:port; for TLS give credentials.")
    if credentials is None:
        return module.insecure_channel(address, options=_OPTIONS)
    return module.secure_channel(address, credentials, options=_OPTIONS)


def _methods(channel) -> dict:
    return {
        name: channel.unary_unary(
            path,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=getattr(messages, answer).FromString,
        )
        for name, (path, _, answer) in METHODS.items()
    }


def _error(server: str, error: "grpc.RpcError") -> ServingError:
    return serving_error(server, error.code().name, error.details() or "(no text)")


class GrpcChannel:
    """Sends requests to one server; threads share it.

    Args:
        address: "host:port".
        headers: sent with every request, as gRPC's metadata.
        credentials: `grpc.ssl_channel_credentials(...)` for TLS.
    """

    def __init__(self, address: str, headers: Mapping[str, str], credentials: "grpc.ChannelCredentials | None"):
        self._headers = [(name.lower(), value) for name, value in headers.items()]
        self._channel = _open(grpc, address, credentials)
        self._methods = _methods(self._channel)

    def send(self, request: GrpcRequest, timeout: float):
        """Returns the message that answers `request`, or raises a ServingError."""
        try:
            return self._methods[request.method](request.message, timeout=timeout, metadata=self._headers)
        except grpc.RpcError as error:
            raise _error(request.server, error) from error

    def close(self) -> None:
        self._channel.close()


class AsyncGrpcChannel:
    """As GrpcChannel, for the event loop that it is made in."""

    def __init__(self, address: str, headers: Mapping[str, str], credentials: "grpc.ChannelCredentials | None"):
        self._headers = [(name.lower(), value) for name, value in headers.items()]
        self._channel = _open(grpc.aio, address, credentials)
        self._methods = _methods(self._channel)

    async def send(self, request: GrpcRequest, timeout: float):
        """Returns the message that answers `request`, or raises a ServingError."""
        try:
            return await self._methods[request.method](request.message, timeout=timeout, metadata=self._headers)
        except grpc.RpcError as error:
            raise _error(request.server, error) from error

    async def close(self) -> None:
        await self._channel.close()
