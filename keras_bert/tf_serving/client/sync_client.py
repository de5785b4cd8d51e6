"""Clients that wait for their answers; threads may share one."""

import concurrent.futures
import ssl
import threading
import time
from collections.abc import Mapping

import numpy as np

from keras_bert.tf_serving.client.errors import DeadlineExceeded, ServingError
from keras_bert.tf_serving.client.model_choice import check_choice, newest_available, not_available, only_output
from keras_bert.tf_serving.client.model_info import ModelMetadata, ModelVersion
from keras_bert.tf_serving.client.request_batches import ROWS_OF_A_REQUEST, as_arrays, join_rows, split_rows
from keras_bert.tf_serving.client.retrying import POLL_SECONDS, Attempts


class _Client:
    """What both clients do. `_format` writes requests and reads answers; `_send(request, timeout)` carries them."""

    def __init__(self, format, timeout: float, retries: int, batch_size: int | None, max_in_flight: int):
        self._format, self._timeout, self._retries = format, timeout, retries
        self._batch_size, self._max_in_flight = batch_size, max_in_flight
        self._lock, self._threads, self._only_outputs = threading.Lock(), None, {}

    def predict(self, /, signature_name: str = "serving_default", **inputs) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature, by name.

        Args:
            signature_name: what is asked.
            **inputs: arrays or lists by the names of the signature, all with equally many rows. More than `batch_size`
                rows go as several requests, of which some are under way at once; the rows of the answer keep their
                order, and a narrow output is filled up to the widest (see `rows.join_rows`).

        Returns:
            arrays; strings are `str`, or `bytes` where they are not UTF-8 or where the output is called `..._bytes`.

        Raises:
            InputError: inputs that cannot be sent.
            ServingError: no answer.
        """
        answer = join_rows(self._ask("predict", signature_name, inputs))
        if None in answer:  # JSON does not name an only output
            answer = {self._name_of_only_output(signature_name): answer[None]}
        return answer

    def classify(self, /, signature_name: str = "classify", **features) -> dict[str, np.ndarray]:
        """Returns "classes", strings [B, L], and "scores", float [B, L], from TF Serving's Classify.

        Args:
            signature_name: what is asked.
            **features: arrays or lists [B] or [B, N]; each row is sent as a tf.train.Example.
        """
        return join_rows(self._ask("classify", signature_name, features))

    def regress(self, /, signature_name: str = "regress", **features) -> np.ndarray:
        """Returns scores, float [B], from TF Serving's Regress; `features` as in `classify`."""
        return np.concatenate(self._ask("regress", signature_name, features))

    def metadata(self) -> ModelMetadata:
        """Returns the version that answers, and what its signatures take and give."""
        return self._format.read_metadata(self._retried(self._format.metadata()))

    def status(self) -> list[ModelVersion]:
        """Returns the state of every version that the server knows."""
        return self._format.read_status(self._retried(self._format.status()))

    def wait_until_available(self, timeout: float = 60.0) -> int:
        """Waits until the model answers, and returns the newest version that does.

        Raises:
            DeadlineExceeded: it did not within `timeout` seconds; the error has the last state.
        """
        end, last = time.monotonic() + timeout, "it was never asked"
        while (left := end - time.monotonic()) > 0:
            try:
                versions = self._format.read_status(self._send(self._format.status(), min(left, self._timeout)))
                if (version := newest_available(versions)) is not None:
                    return version
                last = ", ".join(f"version {version.version} is {version.state}" for version in versions)
            except ServingError as error:
                last = not_available(error)
            time.sleep(min(POLL_SECONDS, max(end - time.monotonic(), 0)))
        text = f"no version was available within {timeout:g} seconds: {last}"
        raise DeadlineExceeded(self._format.server, "DEADLINE_EXCEEDED", text)

    def close(self) -> None:
        """Closes the connections."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _send(self, request, timeout: float):
        raise NotImplementedError

    def _ask(self, verb: str, signature_name: str, inputs: Mapping) -> list:
        """Returns the answers for all rows of `inputs`, in their order."""
        write, read = getattr(self._format, verb), getattr(self._format, f"read_{verb}")

        def ask(rows: range, part: dict):
            try:
                return read(self._retried(write(signature_name, part)))
            except ServingError as error:
                error.rows = rows
                raise

        parts = split_rows(as_arrays(inputs), self._batch_size)
        first = next(parts)
        second = next(parts, None)
        if second is None:
            return [ask(range(0), first[1])]
        return self._in_threads(ask, [first, second, *parts])

    def _in_threads(self, ask, parts: list) -> list:
        """Runs `ask` for every part, `max_in_flight` at once; the first error ends it."""
        with self._lock:
            if self._threads is None:
                self._threads = concurrent.futures.ThreadPoolExecutor(self._max_in_flight, "serving-client")
            futures = [self._threads.submit(ask, *part) for part in parts]
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()

    def _retried(self, request):
        attempts = Attempts(self._timeout, self._retries)
        while True:
            try:
                return self._send(request, attempts.remaining())
            except ServingError as error:
                pause = attempts.pause_after(error)
            time.sleep(pause)

    def _name_of_only_output(self, signature_name: str) -> str:
        if signature_name not in self._only_outputs:
            self._only_outputs[signature_name] = only_output(self.metadata(), signature_name)
        return self._only_outputs[signature_name]


class RestClient(_Client):
    """Asks a model over TF Serving's REST API. Needs nothing but numpy.

    Args:
        url: "http://host:8501", or "https://...".
        model: its name on the server.
        version, label: which of its versions; the newest without both.
        timeout: seconds for one request with all its attempts.
        retries: how often a request is sent again when there is no connection, or the server is busy (429, 503).
        batch_size: the most rows of one request; None sends all rows at once.
        max_in_flight: the most requests of one `predict` at once.
        headers: sent with every request.
        tls: for https, an `ssl.SSLContext`; without it certificates are checked as browsers do.

    Raises:
        InputError: arguments that cannot be.
    """

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
        max_in_flight: int = 4,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ):
        from keras_bert.tf_serving.client.http_connections import HttpConnections
        from keras_bert.tf_serving.client.rest_format import RestFormat

        check_choice(model, version, label, timeout, retries, max_in_flight)
        self._connections = HttpConnections(url, headers or {}, tls, max_in_flight)
        format = RestFormat(self._connections.url, self._connections.prefix, model, version, label)
        super().__init__(format, timeout, retries, batch_size, max_in_flight)

    def _send(self, request, timeout: float) -> bytes:
        return self._format.checked(*self._connections.send(request.path, request.body, timeout))

    def close(self) -> None:
        super().close()
        self._connections.close()


class GrpcClient(_Client):
    """Asks a model over TF Serving's gRPC API. Needs the extra `client`.

    Args:
        address: "host:8500".
        credentials: `grpc.ssl_channel_credentials(...)` for TLS.
        Others: as in RestClient.

    Raises:
        InputError: arguments that cannot be, or grpcio is not installed.
    """

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
        max_in_flight: int = 4,
        headers: Mapping[str, str] | None = None,
        credentials=None,
    ):
        from keras_bert.tf_serving.client.grpc_channel import GrpcChannel
        from keras_bert.tf_serving.client.grpc_format import GrpcFormat

        check_choice(model, version, label, timeout, retries, max_in_flight)
        self._channel = GrpcChannel(address, headers or {}, credentials)
        super().__init__(GrpcFormat(address, model, version, label), timeout, retries, batch_size, max_in_flight)

    def _send(self, request, timeout: float):
        return self._channel.send(request, timeout)

    def close(self) -> None:
        super().close()
        self._channel.close()
