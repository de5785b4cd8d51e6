"""The logic of every client, written once as coroutines. Asyncio clients subclass it; blocking ones run its coroutines.

A coroutine of this file waits only through its `channel` and its `wait`. If these block instead of suspending, the
coroutine never suspends, and `waiting.finish` runs it without an event loop.
"""

import random
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert import registry
from keras_bert.program.errors import InputError
from keras_bert.tf_serving.client.errors import DeadlineExceeded, NotFound, ServingError, Unavailable
from keras_bert.tf_serving.client.model_info import ModelMetadata, ModelVersion
from keras_bert.tf_serving.client.request_batches import as_arrays, join_rows, split_rows
from keras_bert.tf_serving.client.waiting import AsyncioWait

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
# The pause while waiting for a model to become available.
_POLL_SECONDS = 0.2


class Asking:
    """Asks one model, by a format (`RestFormat`, `GrpcFormat`), a channel (`RestChannel`, `GrpcChannel`) and a wait."""

    _wait_class, _default_in_flight = AsyncioWait, 16

    def __init__(self, format: Any, channel: Any, wait: Any, timeout: float, retries: int, batch_size: int | None):
        self._format, self._channel, self._wait = format, channel, wait
        self._timeout, self._retries, self._batch_size = timeout, retries, batch_size
        self._only_outputs: dict[str, str] = {}

    async def predict(self, /, signature_name: str = "serving_default", **inputs: Any) -> dict[str, np.ndarray]:
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
        parts = await self._ask("predict", signature_name, inputs)
        if None in parts[0]:  # TF Serving's JSON does not name the output of a signature that has only one.
            name = await self._name_of_only_output(signature_name)
            parts = [{name: part[None]} for part in parts]
        return join_rows(parts)

    async def answers(self, /, signature_name: str = "serving_default", **inputs: Any) -> Any:
        """Returns the answers of a model that `export_for_serving` wrote, as objects.

        They are those of `predict(texts)` of the model: a `LabelAnswer`, `TagsAnswer`, `FoundAnswer`, ... for each row,
        or an array of vectors. A field that the server's outputs do not give is None or empty; the class says which.
        Places in texts count characters.

        Args:
            signature_name, **inputs: as in `predict`; a signature with the outputs of `serving_default`.

        Raises:
            InputError: the outputs of the signature are not answers; or as `predict`.
            ServingError: as `predict`.
        """
        outputs = await self.predict(signature_name, **inputs)
        # JSON has no types: this restores the float32 of exported models.
        outputs = {name: values.astype("f4") if values.dtype == "f8" else values for name, values in outputs.items()}
        found = registry.served_answers(outputs, as_arrays(inputs))
        if found is None:
            raise InputError(
                f"The signature {signature_name} does not give the answers of an exported model. Its outputs: "
                f"{', '.join(sorted(outputs))}. Expected, for example: label, labels, probabilities. Call predict; or "
                "import the package of a task of your own before."
            )
        return found

    async def classify(self, /, signature_name: str = "classify", **features: Any) -> dict[str, np.ndarray]:
        """Returns "classes", strings [B, L], and "scores", float [B, L], from TF Serving's Classify.

        Args:
            signature_name: the signature to run.
            **features: arrays or lists [B] or [B, N]; each row is sent as a tf.train.Example.
        """
        return join_rows(await self._ask("classify", signature_name, features))

    async def regress(self, /, signature_name: str = "regress", **features: Any) -> np.ndarray:
        """Returns scores, float [B], from TF Serving's Regress; `features` as in `classify`."""
        return np.concatenate(await self._ask("regress", signature_name, features))

    async def metadata(self) -> ModelMetadata:
        """Returns the version that answers, and the inputs and outputs of its signatures."""
        return self._format.read_metadata(await self._retried(self._format.metadata()))

    async def status(self) -> list[ModelVersion]:
        """Returns the state of every version that the server knows."""
        return self._format.read_status(await self._retried(self._format.status()))

    async def wait_until_available(self, timeout: float = 60.0) -> int:
        """Waits until the model answers, and returns its newest available version.

        Raises:
            DeadlineExceeded: no version was available within `timeout` seconds; the message has the last state.
        """
        end, last = time.monotonic() + timeout, "the server was never asked"
        while (left := end - time.monotonic()) > 0:
            try:
                answer = await self._channel.send(self._format.status(), min(left, self._timeout))
                versions = self._format.read_status(answer)
                available = [version.version for version in versions if version.state == "AVAILABLE"]
                if available:
                    return max(available)
                last = ", ".join(f"version {version.version} is {version.state}" for version in versions)
            except (NotFound, Unavailable, DeadlineExceeded) as error:  # others do not pass by waiting
                last = error.server_text
            await self._wait.pause(min(_POLL_SECONDS, max(end - time.monotonic(), 0)))
        text = f"no version was available within {timeout:g} seconds: {last}"
        raise DeadlineExceeded(self._format.server, "DEADLINE_EXCEEDED", text)

    async def close(self) -> None:
        """Closes the connections."""
        await self._wait.close()
        await self._channel.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()

    async def _ask(self, verb: str, signature_name: str, inputs: Mapping) -> list:
        """Returns the answers for all rows of `inputs`, in their order."""
        write, read = getattr(self._format, verb), getattr(self._format, f"read_{verb}")
        parts = list(split_rows(as_arrays(inputs), self._batch_size))

        async def ask(part: tuple[range, dict]):
            rows, arrays = part
            try:
                return read(await self._retried(write(signature_name, arrays)))
            except ServingError as error:
                error.rows = rows if len(parts) > 1 else None
                raise

        return [await ask(parts[0])] if len(parts) == 1 else await self._wait.for_all(ask, parts)

    async def _retried(self, request):
        attempts = Attempts(self._timeout, self._retries)
        while True:
            try:
                return await self._channel.send(request, attempts.remaining())
            except ServingError as error:
                pause = attempts.pause_after(error)
            await self._wait.pause(pause)

    async def _name_of_only_output(self, signature_name: str) -> str:
        if signature_name not in self._only_outputs:
            signature = (await self.metadata()).signatures.get(signature_name)
            if signature is None or len(signature.outputs) != 1:
                text = f"{signature_name!r} gave one output without a name, and the metadata has no such signature"
                raise ServingError(self._format.server, "UNKNOWN", text)
            (self._only_outputs[signature_name],) = signature.outputs
        return self._only_outputs[signature_name]


class Attempts:
    """The attempts of one request. A busy or missing server (`Unavailable`) gets another attempt after a pause.

    Pauses double. Each is drawn between half of its length and all of it, so that clients that failed together do not
    return together. Errors of the request itself (400, 404, ...) are final.

    Args:
        timeout: seconds for all attempts and pauses together.
        retries: the most attempts after the first.
        clock, draw: sources of time and of random numbers in [0, 1), replaced in tests.
    """

    def __init__(self, timeout: float, retries: int, clock=time.monotonic, draw=random.random):
        self._clock, self._draw = clock, draw
        self._timeout, self._retries = timeout, retries
        self._end = clock() + timeout
        self._count = 0

    def remaining(self) -> float:
        """Returns the seconds left, at least 0.001: some libraries read 0 as no limit."""
        return max(self._end - self._clock(), 0.001)

    def pause_after(self, error: ServingError) -> float:
        """Returns the seconds to wait before the next attempt; raises `error` if there is no next attempt."""
        self._count += 1
        error.attempts = self._count
        if not isinstance(error, Unavailable) or self._count > self._retries:
            raise error
        longest = min(_FIRST_PAUSE_SECONDS * 2 ** (self._count - 1), _LONGEST_PAUSE_SECONDS)
        pause = longest * (0.5 + 0.5 * self._draw())
        if self._clock() + pause >= self._end:
            text = f"no answer within {self._timeout:g} seconds; the last attempt ended with: {error.server_text}"
            late = DeadlineExceeded(error.server, "DEADLINE_EXCEEDED", text)
            late.attempts = self._count
            raise late from error
        return pause
