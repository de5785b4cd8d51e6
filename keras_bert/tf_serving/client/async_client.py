"""Clients for asyncio: as those of sync_client.py, with `await`."""

import asyncio
import concurrent.futures
import ssl
import time
from collections.abc import Mapping

import numpy as np

from keras_bert.tf_serving.client.errors import DeadlineExceeded, ServingError
from keras_bert.tf_serving.client.model_choice import check_choice, newest_available, not_available, only_output
from keras_bert.tf_serving.client.model_info import ModelMetadata, ModelVersion
from keras_bert.tf_serving.client.request_batches import ROWS_OF_A_REQUEST, as_arrays, join_rows, split_rows
from keras_bert.tf_serving.client.retrying import POLL_SECONDS, Attempts


class _AsyncClient:
    """What both clients do; see `sync_client._Client` for what the methods take, return and raise."""

    def __init__(self, format, timeout: float, retries: int, batch_size: int | None, max_in_flight: int):
        self._format, self._timeout, self._retries = format, timeout, retries
        self._batch_size, self._max_in_flight = batch_size, max_in_flight
        self._only_outputs: dict[str, str] = {}

    async def predict(self, /, signature_name: str = "serving_default", **inputs) -> dict[str, np.ndarray]:
        answer = join_rows(await self._ask("predict", signature_name, inputs))
        if None in answer:
            answer = {await self._name_of_only_output(signature_name): answer[None]}
        return answer

    async def classify(self, /, signature_name: str = "classify", **features) -> dict[str, np.ndarray]:
        return join_rows(await self._ask("classify", signature_name, features))

    async def regress(self, /, signature_name: str = "regress", **features) -> np.ndarray:
        return np.concatenate(await self._ask("regress", signature_name, features))

    async def metadata(self) -> ModelMetadata:
        return self._format.read_metadata(await self._retried(self._format.metadata()))

    async def status(self) -> list[ModelVersion]:
        return self._format.read_status(await self._retried(self._format.status()))

    async def wait_until_available(self, timeout: float = 60.0) -> int:
        end, last = time.monotonic() + timeout, "it was never asked"
        while (left := end - time.monotonic()) > 0:
            try:
                versions = self._format.read_status(await self._send(self._format.status(), min(left, self._timeout)))
                if (version := newest_available(versions)) is not None:
                    return version
                last = ", ".join(f"version {version.version} is {version.state}" for version in versions)
            except ServingError as error:
                last = not_available(error)
            await asyncio.sleep(min(POLL_SECONDS, max(end - time.monotonic(), 0)))
        text = f"no version was available within {timeout:g} seconds: {last}"
        raise DeadlineExceeded(self._format.server, "DEADLINE_EXCEEDED", text)

    async def close(self) -> None:
        raise NotImplementedError

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()

    async def _send(self, request, timeout: float):
        raise NotImplementedError

    async def _ask(self, verb: str, signature_name: str, inputs: Mapping) -> list:
        write, read = getattr(self._format, verb), getattr(self._format, f"read_{verb}")
        free = asyncio.Semaphore(self._max_in_flight)
        parts = list(split_rows(as_arrays(inputs), self._batch_size))

        async def ask(rows: range, part: dict):
            async with free:
                try:
                    return read(await self._retried(write(signature_name, part)))
                except ServingError as error:
                    error.rows = rows if len(parts) > 1 else None
                    raise

        tasks = [asyncio.ensure_future(ask(*part)) for part in parts]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _retried(self, request):
        attempts = Attempts(self._timeout, self._retries)
        while True:
            try:
                return await self._send(request, attempts.remaining())
            except ServingError as error:
                pause = attempts.pause_after(error)
            await asyncio.sleep(pause)

    async def _name_of_only_output(self, signature_name: str) -> str:
        if signature_name not in self._only_outputs:
            self._only_outputs[signature_name] = only_output(await self.metadata(), signature_name)
        return self._only_outputs[signature_name]


class AsyncRestClient(_AsyncClient):
    """RestClient for asyncio. Its requests run in `max_in_flight` threads of its own; a task that is cancelled leaves
    its request to end by itself, at its timeout at the latest."""

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
        max_in_flight: int = 16,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ):
        from keras_bert.tf_serving.client.http_connections import HttpConnections
        from keras_bert.tf_serving.client.rest_format import RestFormat

        check_choice(model, version, label, timeout, retries, max_in_flight)
        self._connections = HttpConnections(url, headers or {}, tls, max_in_flight)
        self._threads = concurrent.futures.ThreadPoolExecutor(max_in_flight, "serving-client")
        format = RestFormat(self._connections.url, self._connections.prefix, model, version, label)
        super().__init__(format, timeout, retries, batch_size, max_in_flight)

    async def _send(self, request, timeout: float) -> bytes:
        # The time in the queue of the threads is part of it.
        end = time.monotonic() + timeout

        def send() -> bytes:
            left = max(end - time.monotonic(), 0.001)
            return self._format.checked(*self._connections.send(request.path, request.body, left))

        return await asyncio.get_running_loop().run_in_executor(self._threads, send)

    async def close(self) -> None:
        self._connections.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


class AsyncGrpcClient(_AsyncClient):
    """GrpcClient for asyncio; made inside the event loop that it works in."""

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
        max_in_flight: int = 16,
        headers: Mapping[str, str] | None = None,
        credentials=None,
    ):
        from keras_bert.tf_serving.client.grpc_channel import AsyncGrpcChannel
        from keras_bert.tf_serving.client.grpc_format import GrpcFormat

        check_choice(model, version, label, timeout, retries, max_in_flight)
        self._channel = AsyncGrpcChannel(address, headers or {}, credentials)
        super().__init__(GrpcFormat(address, model, version, label), timeout, retries, batch_size, max_in_flight)

    async def _send(self, request, timeout: float):
        return await self._channel.send(request, timeout)

    async def close(self) -> None:
        await self._channel.close()
