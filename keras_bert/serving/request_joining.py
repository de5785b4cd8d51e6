"""Joins requests that wait for the same model into one batch, and gives each its rows of the answer.

Joining raised the rate of SavedModels in TensorFlow (docs/results_serving.md, with an earlier class). ONNX Runtime
became slower with it, and the streams of OpenVINO were as fast without it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError

Arrays = dict[str, np.ndarray]


class _Request:
    """The inputs of a request and the future of its answer. Requests with equal keys can be joined."""

    def __init__(self, inputs: Arrays):
        self.inputs, self.answer = inputs, asyncio.get_running_loop().create_future()
        sizes = {array.shape[:1] for array in inputs.values()}
        has_rows = len(sizes) == 1 and sizes != {()}
        self.num_rows = next(iter(sizes))[0] if has_rows else 0
        forms = tuple((name, array.dtype, array.shape[1:]) for name, array in sorted(inputs.items()))
        self.key = forms if has_rows else object()  # without rows it equals no other


class RequestJoiner:
    """Joins the requests that arrive while others are computed. A request that finds the model idle does not wait.

    Call it from one event loop only.

    Args:
        compute: coroutine function from inputs to outputs, arrays by name, whose rows correspond.
        max_rows: the most rows of several joined requests. A larger request is computed alone.
        num_at_once: how many batches are computed at once.

    Raises:
        InputError: `max_rows` or `num_at_once` is less than 1.
    """

    def __init__(self, compute: Callable[[Arrays], Awaitable[Arrays]], *, max_rows: int = 64, num_at_once: int = 1):
        if max_rows < 1 or num_at_once < 1:
            raise InputError(f"max_rows and num_at_once must be at least 1. Received: {max_rows} and {num_at_once}")
        self._compute, self._max_rows, self._num_at_once = compute, max_rows, num_at_once
        self._waiting: list[_Request] = []
        self._tasks: set[asyncio.Task] = set()

    async def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Returns the outputs for the rows of a request. Raises what `compute` raises for this request."""
        request = _Request(dict(inputs))
        self._waiting.append(request)
        # In the next round of the event loop, so that requests that arrived together are joined.
        asyncio.get_running_loop().call_soon(self._start_batches)
        return await request.answer

    def _start_batches(self) -> None:
        # A client that has gone away needs no answer.
        self._waiting = [request for request in self._waiting if not request.answer.done()]
        while self._waiting and len(self._tasks) < self._num_at_once:
            task = asyncio.ensure_future(self._answer(self._next_batch()))
            self._tasks.add(task)
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task) -> None:
        self._tasks.discard(task)
        self._start_batches()

    def _next_batch(self) -> list[_Request]:
        """Takes the longest waiting request, and those that can be joined with it, in their order."""
        first, *others = self._waiting
        batch, num_rows, self._waiting = [first], first.num_rows, []
        for request in others:
            if request.key == first.key and num_rows + request.num_rows <= self._max_rows:
                batch.append(request)
                num_rows += request.num_rows
            else:
                self._waiting.append(request)
        return batch

    async def _answer(self, batch: Sequence[_Request]) -> None:
        try:
            answers = await self._answers(batch)
        except Exception as error:
            if len(batch) > 1:  # if one request fails, the others must still be answered
                for request in batch:
                    await self._answer([request])
            elif not batch[0].answer.done():
                batch[0].answer.set_exception(error)
            return
        for request, answer in zip(batch, answers, strict=True):
            if not request.answer.done():
                request.answer.set_result(answer)

    async def _answers(self, batch: Sequence[_Request]) -> list[Arrays]:
        if len(batch) == 1:
            return [await self._compute(batch[0].inputs)]
        outputs = await self._compute(
            {name: np.concatenate([request.inputs[name] for request in batch]) for name in batch[0].inputs}
        )
        ends = np.cumsum([request.num_rows for request in batch])
        if any(array.shape[:1] != (ends[-1],) for array in outputs.values()):
            raise ValueError("an output does not have one row for each row of the inputs")
        parts = {name: np.split(array, ends[:-1]) for name, array in outputs.items()}
        return [{name: parts[name][number] for name in parts} for number in range(len(batch))]
