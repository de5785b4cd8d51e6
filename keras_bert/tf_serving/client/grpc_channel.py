"""A gRPC channel to one server, blocking or for asyncio."""

from collections.abc import Mapping

from keras_bert.program.errors import InputError, how_to_install
from keras_bert.tf_serving.client.errors import serving_error
from keras_bert.tf_serving.client.grpc_format import GrpcRequest
from keras_bert.tf_serving.wire import messages
from keras_bert.tf_serving.wire.methods import METHODS

try:
    import grpc
except ImportError as error:
    raise InputError(
        f"grpcio is not installed; GrpcClient needs it, RestClient does not. {how_to_install('client')}"
    ) from error

_OPTIONS = [
    # The server limits sizes itself; the library's limit is 4 MB.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # Only retrying.py decides when a request is sent again.
    ("grpc.enable_retries", 0),
    # A server that has just started must be found within a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


class GrpcChannel:
    """Sends requests to one server. Threads may share it; one for asyncio belongs to the event loop it is created in.

    Args:
        address: "host:port".
        headers: sent with every request, as gRPC's metadata.
        credentials: `grpc.ssl_channel_credentials(...)` for TLS.
        is_asyncio: whether `send` suspends its task instead of blocking its thread.

    Raises:
        InputError: the address is a URL or empty.
    """

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str],
        credentials: "grpc.ChannelCredentials | None",
        *,
        is_asyncio: bool,
    ):
        if "://" in address or not address:
            raise InputError(
                f"{address!r} is not the address of a gRPC server. Write host:port; for TLS give credentials."
            )
        self._headers = [(name.lower(), value) for name, value in headers.items()]
        self._is_asyncio = is_asyncio
        library = grpc.aio if is_asyncio else grpc
        if credentials is None:
            self._channel = library.insecure_channel(address, options=_OPTIONS)
        else:
            self._channel = library.secure_channel(address, credentials, options=_OPTIONS)
        self._methods = {
            name: self._channel.unary_unary(
                path,
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=getattr(messages, answer).FromString,
            )
            for name, (path, _, answer) in METHODS.items()
        }

    async def send(self, request: GrpcRequest, timeout: float):
        """Returns the message that answers `request`.

        Raises:
            ServingError: the server refused the request, or did not answer within `timeout` seconds.
        """
        try:
            answer = self._methods[request.method](request.message, timeout=timeout, metadata=self._headers)
            return await answer if self._is_asyncio else answer
        except grpc.RpcError as error:
            raise serving_error(request.server, error.code().name, error.details() or "(no text)") from error

    async def close(self) -> None:
        closing = self._channel.close()
        if self._is_asyncio:
            await closing
