"""Joins requests of several clients into one batch, and splits its answer again."""

import asyncio
import dataclasses
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.server.model_config import read_text_message
from keras_bert.tf_serving.server.status import Code, StatusError, invalid_argument

Arrays = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class BatchingOptions:
    """How requests are joined: the fields of TensorFlow Serving's batching file, with its defaults.

    Attributes:
        max_batch_size: the largest number of rows in a batch, and in a request.
        batch_timeout_micros: how long a batch waits for more rows. While all threads are busy, batches fill up in any
            case.
        max_enqueued_batches: the largest number of waiting batches of a signature.
        num_batch_threads: the number of batches computed at once.
        allowed_batch_sizes: sizes to which batches are padded, with copies of the first row.
        enable_large_batch_splitting: whether requests with more rows than `max_execution_batch_size` are split.
        max_execution_batch_size: with splitting, the largest number of rows in a batch.
        pad_variable_length_inputs: whether rows of different lengths are joined, padded with the first element of the
            request's tensor. This falsifies the answers of models that take a mask: ids need `lengths`.
    """

    max_batch_size: int = 1000
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 10
    num_batch_threads: int = os.cpu_count() or 1
    allowed_batch_sizes: tuple[int, ...] = ()
    enable_large_batch_splitting: bool = False
    max_execution_batch_size: int | None = None
    pad_variable_length_inputs: bool = False

    def __post_init__(self):
        for name in ("max_batch_size", "max_enqueued_batches", "num_batch_threads"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be a whole number of at least 1. Received: {getattr(self, name)}")
        if self.batch_timeout_micros < 0:
            raise InputError(f"batch_timeout_micros must not be negative. Received: {self.batch_timeout_micros}")
        if self.max_execution_batch_size is not None and not 1 <= self.max_execution_batch_size <= self.max_batch_size:
            raise InputError("max_execution_batch_size must be from 1 to max_batch_size.")
        sizes = self.allowed_batch_sizes
        if sizes and (list(sizes) != sorted(set(sizes)) or sizes[0] < 1):
            raise InputError(f"allowed_batch_sizes entries must be monotonically increasing; they are {list(sizes)}.")
        # This also applies to split requests: bundle_factory_util.cc.
        if sizes and sizes[-1] != self.max_batch_size:
            raise InputError(
                f"Last entry in allowed_batch_sizes must match max_batch_size; last entry was {sizes[-1]}; "
                f"expected {self.max_batch_size}."
            )

    @property
    def largest(self) -> int:
        """The number of rows in the largest batch that is computed."""
        if self.enable_large_batch_splitting and self.max_execution_batch_size:
            return self.max_execution_batch_size
        return self.max_batch_size

    @property
    def largest_request(self) -> int:
        """The number of rows of the largest request that is accepted, with splitting too."""
        if not self.enable_large_batch_splitting:
            return self.max_batch_size
        return min(self.max_batch_size, self.max_enqueued_batches * self.largest)


def read_batching_options(path: str) -> BatchingOptions:
    """Reads a batching file. Raises `InputError` if it is damaged or has invalid values."""
    from keras_bert.tf_serving.wire import messages

    message = read_text_message(path, messages.BatchingParameters)
    given = {}
    for field in dataclasses.fields(BatchingOptions):
        if field.name == "allowed_batch_sizes":
            given[field.name] = tuple(message.allowed_batch_sizes)
        elif field.name == "pad_variable_length_inputs":
            given[field.name] = message.pad_variable_length_inputs
        elif message.HasField(field.name):
            given[field.name] = getattr(message, field.name).value
    try:
        return BatchingOptions(**given)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


class _Batch:
    """Requests that are computed together.

    Attributes:
        parts: the inputs of each request, and the future of its answer.
        size: the current number of rows.
        due: the time when the batch stops waiting for more rows.
        is_closed: whether a thread computes the batch, or no request waits for it any more.
    """

    def __init__(self, owner: "Batcher", key, due: float):
        self.owner, self.key, self.due = owner, key, due
        self.parts: list[tuple[Arrays, asyncio.Future]] = []
        self.size = 0
        self.is_closed = False

    @property
    def is_full(self) -> bool:
        return self.size >= self.owner.options.largest


class BatchScheduler:
    """Assigns threads to batches, the longest waiting first. All models share one scheduler."""

    def __init__(self, num_batch_threads: int):
        self._free = num_batch_threads
        self._waiting: list[_Batch] = []
        self._tasks: set[asyncio.Task] = set()

    def add(self, batch: _Batch) -> None:
        self._waiting.append(batch)
        loop = asyncio.get_running_loop()
        # In the next round of the event loop, so that requests that arrived together are seen together.
        loop.call_at(batch.due, self.start_batches) if batch.due > loop.time() else loop.call_soon(self.start_batches)

    def remove(self, batch: _Batch) -> None:
        self._waiting.remove(batch)

    def start_batches(self) -> None:
        """Computes batches that are full or due, while threads are free."""
        now = asyncio.get_running_loop().time()
        for batch in list(self._waiting):
            if not self._free:
                return
            if batch.is_full or batch.due <= now:
                self._waiting.remove(batch)
                batch.owner.close(batch)
                self._free -= 1
                task = asyncio.ensure_future(self._compute(batch))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _compute(self, batch: _Batch) -> None:
        try:
            await batch.owner.compute(batch)
        finally:
            self._free += 1
            self.start_batches()


class Batcher:
    """Joins the requests of one signature of one version.

    Args:
        compute: function from inputs to outputs, whose rows correspond.
        options: how requests are joined.
        scheduler: assigns threads to batches.
        watch: called with the number of rows of each computed batch.
    """

    def __init__(
        self,
        compute: Callable[[Arrays], Awaitable[Arrays]],
        options: BatchingOptions,
        scheduler: BatchScheduler,
        watch: Callable[[int], None] = lambda size: None,
    ):
        self.options = options
        self._compute, self._scheduler, self._watch = compute, scheduler, watch
        self._open: dict[object, _Batch] = {}
        self._num_waiting = 0

    async def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Returns the outputs for the rows of a request, which may be computed together with other requests.

        Raises:
            StatusError: INVALID_ARGUMENT if the inputs have different numbers of rows or too many rows, UNAVAILABLE if
                too many batches wait, and any error of the computation.
        """
        inputs = dict(inputs)
        sizes = {array.shape[:1] for array in inputs.values()}
        if len(sizes) != 1 or sizes == {()}:
            raise invalid_argument("Batching Run() input tensors must have equal 0th-dimension size")
        ((size,),) = sizes
        if not size:
            return await self._compute(inputs)
        # This also holds with splitting: ValidateBatchTaskQueueCapacity in shared_batch_scheduler.h.
        if size > self.options.max_batch_size:
            raise invalid_argument(
                "Task size ", size, " is larger than maximum input batch size ", self.options.max_batch_size
            )
        if size <= self.options.largest:
            return await self._enqueue(inputs, size)
        step = self.options.largest
        parts = [
            {name: array[start : start + step] for name, array in inputs.items()} for start in range(0, size, step)
        ]
        answers = await asyncio.gather(*(self._enqueue(part, len(next(iter(part.values())))) for part in parts))
        return {name: _one_answer(name, [answer[name] for answer in answers]) for name in answers[0]}

    def _enqueue(self, inputs: Arrays, size: int) -> asyncio.Future:
        loop = asyncio.get_running_loop()
        key = self._key(inputs)
        batch = self._open.get(key)
        if batch is not None and batch.size + size > self.options.largest:
            batch.due = 0  # no further row fits
            loop.call_soon(self._scheduler.start_batches)
            self._open.pop(key)
            batch = None
        if batch is None:
            if self._num_waiting >= self.options.max_enqueued_batches:
                raise StatusError(
                    Code.UNAVAILABLE, "The batch scheduling queue to which this task was submitted is full"
                )
            batch = self._open[key] = _Batch(self, key, loop.time() + self.options.batch_timeout_micros / 1e6)
            self._num_waiting += 1
            self._scheduler.add(batch)
        answer = loop.create_future()
        batch.parts.append((inputs, answer))
        batch.size += size
        answer.add_done_callback(lambda answer: self._drop(batch, answer, size))
        if batch.is_full:
            self._open.pop(key, None)
            loop.call_soon(self._scheduler.start_batches)
        return answer

    def _key(self, inputs: Arrays):
        """Returns the key of a request. Requests with equal keys can be computed together."""
        pads = self.options.pad_variable_length_inputs
        return tuple((name, array.ndim if pads else array.shape[1:]) for name, array in sorted(inputs.items()))

    def _drop(self, batch: _Batch, answer: asyncio.Future, size: int) -> None:
        """Removes an ended request from its batch while the batch waits, and removes empty batches from the queue."""
        if batch.is_closed:
            return
        batch.parts = [part for part in batch.parts if part[1] is not answer]
        batch.size -= size
        if not batch.parts:
            self._scheduler.remove(batch)
            self.close(batch)

    def close(self, batch: _Batch) -> None:
        """Closes a batch: no further rows are added."""
        batch.is_closed = True
        self._num_waiting -= 1
        if self._open.get(batch.key) is batch:
            del self._open[batch.key]

    async def compute(self, batch: _Batch) -> None:
        """Computes a batch and gives each request its rows."""
        # A client that has disconnected needs no answer.
        parts = [(inputs, answer) for inputs, answer in batch.parts if not answer.done()]
        if not parts:
            return
        try:
            answers = await self._joint_answers([inputs for inputs, _ in parts])
        except Exception as error:
            if len(parts) == 1:
                _fail(parts[0][1], error)
                return
            # If one request fails, the others must still be answered.
            for part in parts:
                alone = _Batch(self, batch.key, 0)
                alone.parts = [part]
                await self.compute(alone)
            return
        for (_, answer), outputs in zip(parts, answers, strict=True):
            if not answer.done():
                answer.set_result(outputs)

    async def _joint_answers(self, requests: Sequence[Arrays]) -> list[Arrays]:
        sizes = [len(next(iter(inputs.values()))) for inputs in requests]
        total = sum(sizes)
        filled = next((size for size in self.options.allowed_batch_sizes if size >= total), total)
        joint = {name: _joined([inputs[name] for inputs in requests], filled - total) for name in requests[0]}
        self._watch(total)
        outputs = await self._compute(joint)
        for name, array in outputs.items():
            if array.shape[:1] != (filled,):
                raise StatusError(
                    Code.FAILED_PRECONDITION,
                    f"The 0th dimension of output {name!r} does not equal the sum of those of the inputs",
                )
        ends = np.cumsum(sizes)
        return [
            {name: array[end - size : end] for name, array in outputs.items()}
            for size, end in zip(sizes, ends, strict=True)
        ]


def _fail(answer: asyncio.Future, error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _one_answer(name: str, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Joins the parts of an answer. Raises INTERNAL if their rows have different shapes."""
    if len({part.shape[1:] for part in parts}) > 1:
        raise StatusError(
            Code.INTERNAL,
            f"The request was split (enable_large_batch_splitting), but the parts of output {name!r} have different "
            "widths. TensorFlow Serving would give wrong answers or crash: switch splitting off for this model.",
        )
    return np.concatenate(parts)


def _joined(arrays: Sequence[np.ndarray], num_fillers: int) -> np.ndarray:
    """Returns the rows of all arrays, followed by copies of the first row; shorter rows are padded.

    [[1, 2, 3]], [[4, 5]] -> [[1, 2, 3], [4, 5, 4]]: like TensorFlow Serving, it pads with the array's first element.
    """
    shape = tuple(np.max([array.shape[1:] for array in arrays], axis=0).astype(int)) if arrays[0].ndim > 1 else ()
    arrays = [_filled_up(array, shape) for array in arrays]
    fillers = [arrays[0][:1]] * num_fillers
    return np.concatenate([*arrays, *fillers]) if len(arrays) + num_fillers > 1 else arrays[0]


def _filled_up(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if array.shape[1:] == shape:
        return array
    first = array.flat[0] if array.size else (b"" if array.dtype == object else 0)
    filled = np.full((len(array), *shape), first, array.dtype)
    filled[tuple(slice(length) for length in array.shape)] = array
    return filled
