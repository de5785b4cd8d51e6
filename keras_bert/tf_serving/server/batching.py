"""Joins requests of several clients into one batch, and splits its answer again."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np

from keras_bert.tf_serving.batching_parameters import Batching
from keras_bert.tf_serving.server.status import Code, StatusError, invalid_argument

Arrays = dict[str, np.ndarray]


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
        return self.size >= self.owner.options.largest_batch


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
    """

    def __init__(
        self,
        compute: Callable[[Arrays], Awaitable[Arrays]],
        options: Batching,
        scheduler: BatchScheduler,
    ):
        self.options = options
        self._compute, self._scheduler = compute, scheduler
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
        if size <= self.options.largest_batch:
            return await self._enqueue(inputs, size)
        step = self.options.largest_batch
        parts = [
            {name: array[start : start + step] for name, array in inputs.items()} for start in range(0, size, step)
        ]
        answers = await asyncio.gather(*(self._enqueue(part, len(next(iter(part.values())))) for part in parts))
        return {name: _one_answer(name, [answer[name] for answer in answers]) for name in answers[0]}

    def _enqueue(self, inputs: Arrays, size: int) -> asyncio.Future:
        loop = asyncio.get_running_loop()
        key = self._key(inputs)
        batch = self._open.get(key)
        if batch is not None and batch.size + size > self.options.largest_batch:
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
        return tuple(
            (name, array.dtype, array.ndim if pads else array.shape[1:]) for name, array in sorted(inputs.items())
        )

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
