"""Answers requests on arrays: predict, classify, regress and status."""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from keras_bert.tf_serving.server.loaded_model import DEFAULT_SIGNATURE, Arrays, ServedSignature
from keras_bert.tf_serving.server.model_store import ModelStore, ServedVersion
from keras_bert.tf_serving.server.server_options import ServerOptions
from keras_bert.tf_serving.server.status import Code, StatusError, invalid_argument
from keras_bert.tf_serving.wire.strings import string_array

# The names in signatures for Classify and Regress.
EXAMPLES = "inputs"
CLASSES, SCORES, REGRESS_OUTPUTS = "classes", "scores", "outputs"


@dataclasses.dataclass(frozen=True)
class ModelSpec:
    """The model that a request names, and its version, by number or by label."""

    name: str
    version: int | None = None
    label: str | None = None


class Inference:
    """Answers requests with the models of a store.

    Args:
        store: the models.
        options: the options of the server.
    """

    def __init__(self, store: ModelStore, options: ServerOptions):
        self.store, self._options = store, options
        self._threads = concurrent.futures.ThreadPoolExecutor(options.num_threads, "model")
        self._num_requests = 0
        self._computations: set[asyncio.Future] = set()

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """Counts a request as in progress from its first byte to its answer, since slow bodies take memory too.

        Raises:
            StatusError: RESOURCE_EXHAUSTED: too many requests are in progress.
        """
        if self._num_requests >= self._options.max_requests:
            raise StatusError(
                Code.RESOURCE_EXHAUSTED, f"{self._options.max_requests} requests are running; try again later."
            )
        self._num_requests += 1
        try:
            yield
        finally:
            self._num_requests -= 1

    async def wait_until_idle(self, seconds: float) -> None:
        """Waits for the requests in progress, at most for the given time."""
        end = time.monotonic() + seconds
        while (self._num_requests or self._computations) and time.monotonic() < end:
            await asyncio.sleep(0.01)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def find(self, spec: ModelSpec) -> ServedVersion:
        """Returns the version that a request names. Raises `StatusError` if there is none."""
        return self.store.find(spec.name, spec.version, spec.label)

    async def predict(
        self,
        version: ServedVersion,
        signature_name: str,
        inputs: Mapping[str, np.ndarray],
        timeout_seconds: float | None = None,
    ) -> Arrays:
        """Returns the outputs of a signature.

        A request that is cancelled or out of time is not computed, unless a thread has already started it.

        Raises:
            StatusError: FAILED_PRECONDITION: there is no such signature; INVALID_ARGUMENT: wrong inputs or too many
                rows; DEADLINE_EXCEEDED: it took too long; and TensorFlow's errors.
        """
        if signature_name not in version.model.signatures:
            raise StatusError(Code.FAILED_PRECONDITION, f'Serving signature key "{signature_name}" not found.')
        signature = version.model.signatures[signature_name]
        inputs = signature.checked(inputs)
        rows = signature.num_rows(inputs)
        if rows > self._options.max_rows:
            raise invalid_argument(
                "The request has ", rows, " rows, but this server accepts at most ", self._options.max_rows,
                " (--max_rows). Send fewer at a time.",
            )  # fmt: skip
        limit = self._options.timeout_seconds
        if timeout_seconds is not None:
            limit = min(timeout_seconds, limit)
        try:
            if limit <= 0:
                raise TimeoutError
            async with asyncio.timeout(limit):
                return await self._run(version, signature, inputs)
        except TimeoutError:
            raise StatusError(
                Code.DEADLINE_EXCEEDED, f"Timed out: the answer took longer than {max(limit, 0):g} seconds."
            ) from None

    async def _run(self, version: ServedVersion, signature: ServedSignature, inputs: Arrays) -> Arrays:
        async def compute(inputs: Arrays) -> Arrays:
            return await self._compute(version, signature.name, inputs)

        if self._options.join is None or not signature.can_be_joined:
            return await compute(inputs)
        if signature.name not in version.joiners:
            version.joiners[signature.name] = self._options.join(compute)
        return await version.joiners[signature.name].run(inputs)

    async def _compute(self, version: ServedVersion, signature_name: str, inputs: Arrays) -> Arrays:
        # A thread cannot be stopped, so the version must stay until the thread has ended.
        version.acquire()
        work = self._threads.submit(version.model.run, signature_name, inputs)
        done = asyncio.wrap_future(work)
        self._computations.add(done)
        done.add_done_callback(lambda _: version.release())
        done.add_done_callback(self._computations.discard)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            work.cancel()  # effective if no thread has started it
            raise

    async def classify(
        self,
        version: ServedVersion,
        signature_name: str,
        examples: Sequence[bytes],
    ) -> list[list[tuple[bytes, float]]]:
        """Returns (class, score) for each class of each `tf.Example`. A signature may lack one of the two.

        Raises:
            StatusError: as `predict`; INVALID_ARGUMENT for signatures of other kinds.
        """
        inputs = _example_inputs(version, signature_name, examples, "Classify", {CLASSES, SCORES})
        outputs = await self.predict(version, signature_name, inputs)
        found = {name: outputs[name] for name in (CLASSES, SCORES) if name in outputs}
        shape = next(iter(found.values())).shape
        for name, array in found.items():
            dtype = object if name == CLASSES else np.float32
            if array.shape != shape or array.ndim != 2 or len(array) != len(examples) or array.dtype != dtype:
                raise invalid_argument(
                    f"Classify needs classes as strings and scores as float, both [{len(examples)}, classes]. The "
                    f"model returned {_described(found)}"
                )
        classes = found.get(CLASSES, np.full(shape, b"", object)).tolist()
        scores = found.get(SCORES, np.zeros(shape, np.float32)).tolist()
        return [list(zip(*row, strict=True)) for row in zip(classes, scores, strict=True)]

    async def regress(
        self,
        version: ServedVersion,
        signature_name: str,
        examples: Sequence[bytes],
    ) -> list[float]:
        """Returns one number for each `tf.Example`.

        Raises:
            StatusError: as `predict`; INVALID_ARGUMENT for signatures of other kinds.
        """
        inputs = _example_inputs(version, signature_name, examples, "Regress", {REGRESS_OUTPUTS})
        output = (await self.predict(version, signature_name, inputs))[REGRESS_OUTPUTS]
        count = len(examples)
        if output.shape not in ((count,), (count, 1)) or output.dtype != np.float32:
            raise invalid_argument(
                f"Regress needs outputs as float [{count}] or [{count}, 1]. The model returned "
                f"{_described({REGRESS_OUTPUTS: output})}"
            )
        return output.ravel().tolist()

    def status(self, spec: ModelSpec) -> list[ServedVersion]:
        """Returns the named version, or else all current and former versions, the highest first.

        Raises:
            StatusError: NOT_FOUND: there is no such version.
        """
        number = self.store.labelled(spec.name, spec.label) if spec.label is not None else spec.version
        versions = self.store.versions(spec.name)
        if number is not None:
            versions = [version for version in versions if version.number == number]
            if not versions:
                raise StatusError(Code.NOT_FOUND, f"Could not find version {number} of model {spec.name}")
        if not versions:
            raise StatusError(Code.NOT_FOUND, f"Could not find any versions of model {spec.name}")
        return versions


def _example_inputs(
    version: ServedVersion, name: str, examples: Sequence[bytes], api: str, outputs: set[str]
) -> Arrays:
    """Returns the inputs of a signature for Classify or Regress, which has some of these outputs and no others."""
    if name not in version.model.signatures:
        raise invalid_argument("No signature was found with the name: ", name)
    fitting = [
        key
        for key, signature in version.model.signatures.items()
        if set(signature.inputs) == {EXAMPLES} and signature.outputs and set(signature.outputs) <= outputs
    ]
    if name not in fitting:
        signature = version.model.signatures[name]
        others = f'Give "signature_name": "{fitting[0]}".' if fitting else "This model has no such signature."
        raise invalid_argument(
            f"{api} needs a signature with the input {EXAMPLES} and the output {' or '.join(sorted(outputs))}. {name} "
            f"has the inputs {', '.join(signature.inputs)} and the outputs {', '.join(signature.outputs)}. {others}"
        )
    if not examples:
        raise invalid_argument("Input is empty.")
    return {EXAMPLES: string_array(examples)}


def _described(arrays: Arrays) -> str:
    return ", ".join(f"{name} as {array.dtype} {list(array.shape)}" for name, array in arrays.items())


def signature_or_default(name: str) -> str:
    """Returns the signature of a request; an empty name means the default signature."""
    return name or DEFAULT_SIGNATURE
