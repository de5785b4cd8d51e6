"""The four clients: REST or gRPC, for callers that wait (threads may share a client) and for asyncio.

A client combines a constructor (`_Rest` or `_Grpc`) with methods that wait (`BlockingClient`) or suspend (`Asking`).
"""

import ssl
from collections.abc import Mapping

import numpy as np

from keras_bert.tf_serving.client.asking import Asking
from keras_bert.tf_serving.client.model_choice import check_choice
from keras_bert.tf_serving.client.model_info import ModelMetadata, ModelVersion
from keras_bert.tf_serving.client.request_batches import ROWS_OF_A_REQUEST
from keras_bert.tf_serving.client.waiting import AsyncioWait, BlockingWait, finish


class BlockingClient:
    """The methods of the clients whose callers wait. `Asking` has the arguments of the constructor."""

    _wait_class, _default_in_flight = BlockingWait, 4

    def __init__(self, *arguments):
        self._asking = Asking(*arguments)

    def predict(self, /, signature_name: str = "serving_default", **inputs) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature, by name.

        Args:
            signature_name: the signature to run.
            **inputs: arrays or lists by the input names of the signature, all with the same number of rows. More than
                `batch_size` rows are sent as several requests, some of them at once. The answer keeps the order of the
                rows, and narrow outputs are padded to the widest one (see `request_batches.join_rows`).

        Returns:
            arrays. Strings are `str`, or `bytes` where they are not UTF-8 or the output is named `..._bytes`.

        Raises:
            InputError: the inputs cannot be sent.
            ServingError: the server did not answer the request.
        """
        return finish(self._asking.predict(signature_name, **inputs))

    def classify(self, /, signature_name: str = "classify", **features) -> dict[str, np.ndarray]:
        """Returns "classes", strings [B, L], and "scores", float [B, L], from TF Serving's Classify.

        Args:
            signature_name: the signature to run.
            **features: arrays or lists [B] or [B, N]; each row is sent as a tf.train.Example.
        """
        return finish(self._asking.classify(signature_name, **features))

    def regress(self, /, signature_name: str = "regress", **features) -> np.ndarray:
        """Returns scores, float [B], from TF Serving's Regress; `features` as in `classify`."""
        return finish(self._asking.regress(signature_name, **features))

    def metadata(self) -> ModelMetadata:
        """Returns the version that answers, and the inputs and outputs of its signatures."""
        return finish(self._asking.metadata())

    def status(self) -> list[ModelVersion]:
        """Returns the state of every version that the server knows."""
        return finish(self._asking.status())

    def wait_until_available(self, timeout: float = 60.0) -> int:
        """Waits until the model answers, and returns its newest available version.

        Raises:
            DeadlineExceeded: no version was available within `timeout` seconds; the message has the last state.
        """
        return finish(self._asking.wait_until_available(timeout))

    def close(self) -> None:
        """Closes the connections."""
        finish(self._asking.close())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class _Rest:
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
        check_choice(model, version, label, timeout, retries, max_in_flight)
        connections = HttpConnections(url, headers or {}, tls, max_in_flight)
        wait = self._wait_class(max_in_flight)
        format = RestFormat(connections.url, connections.prefix, model, version, label)
        super().__init__(format, RestChannel(connections, format, wait), wait, timeout, retries, batch_size)


class _Grpc:
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
        credentials=None,
    ):
        from keras_bert.tf_serving.client.grpc_channel import GrpcChannel
        from keras_bert.tf_serving.client.grpc_format import GrpcFormat

        max_in_flight = self._default_in_flight if max_in_flight is None else max_in_flight
        check_choice(model, version, label, timeout, retries, max_in_flight)
        wait = self._wait_class(max_in_flight)
        channel = GrpcChannel(address, headers or {}, credentials, is_asyncio=isinstance(wait, AsyncioWait))
        format = GrpcFormat(address, model, version, label)
        super().__init__(format, channel, wait, timeout, retries, batch_size)


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
    """Asks a model over TF Serving's gRPC API. Threads may share a client. It needs the extra `client`.

    Args:
        address: "host:8500".
        credentials: `grpc.ssl_channel_credentials(...)` for TLS.
        Others: as in `RestClient`.

    Raises:
        InputError: an argument is not valid, or grpcio is not installed.
    """


class AsyncRestClient(_Rest, Asking):
    """`RestClient` for asyncio. Its requests run in `max_in_flight` threads of the client.

    A cancelled task does not end its request: the request runs on until its answer or its timeout.
    """


class AsyncGrpcClient(_Grpc, Asking):
    """`GrpcClient` for asyncio. Create it in the event loop that uses it."""
