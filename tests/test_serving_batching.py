"""Joining requests and splitting their answers, with a one-line model."""

import asyncio
import time

import numpy as np
import pytest

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.batching_parameters import Batching, read_batching_file
from keras_bert.tf_serving.server.batching import Batcher, BatchScheduler
from keras_bert.tf_serving.server.status import Code, StatusError


class Doubler:
    """A model: y = 2 x. It keeps what it was given, and fails where a row has -1."""

    def __init__(self):
        self.batches = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def __call__(self, inputs):
        self.batches.append(inputs["x"].tolist())
        await self.may_go_on.wait()
        if (inputs["x"] == -1).any():
            raise StatusError(Code.INVALID_ARGUMENT, "a row has -1")
        return {"y": inputs["x"] * 2}


def run(requests, **options):
    """Returns the answers (or errors) of requests that arrive together, and the batches they became."""

    async def go():
        model, chosen = Doubler(), Batching(**{"num_batch_threads": 1, **options})
        batcher = Batcher(model, chosen, BatchScheduler(chosen.num_threads))
        asked = [batcher.run({"x": np.array(request)}) for request in requests]
        answers = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 10)
        return [a if isinstance(a, Exception) else a["y"].tolist() for a in answers], model.batches

    return asyncio.run(go())


def test_requests_that_arrive_together_are_one_batch_and_each_gets_its_rows():
    assert run([[1], [2, 3], [4]]) == ([[2], [4, 6], [8]], [[1, 2, 3, 4]])


def test_a_batch_has_no_more_rows_than_allowed():
    assert run([[1], [2], [3], [4, 5], [6]], max_batch_size=2)[1] == [[1, 2], [3], [4, 5], [6]]


def test_an_alone_request_waits_no_longer_than_the_time_out():
    async def go():
        loop = asyncio.get_running_loop()
        batcher = Batcher(Doubler(), Batching(batch_timeout_micros=100_000), BatchScheduler(1))
        start = loop.time()
        await batcher.run({"x": np.array([1])})
        return loop.time() - start

    assert 0.09 < asyncio.run(go()) < 5


def test_while_the_thread_is_busy_a_batch_fills_up():
    async def go():
        model = Doubler()
        batcher = Batcher(model, Batching(num_batch_threads=1), BatchScheduler(1))
        model.may_go_on.clear()
        asked = [asyncio.ensure_future(batcher.run({"x": np.array([number])})) for number in range(1)]
        await asyncio.sleep(0.01)
        for number in range(1, 5):
            asked.append(asyncio.ensure_future(batcher.run({"x": np.array([number])})))
            await asyncio.sleep(0.001)
        model.may_go_on.set()
        await asyncio.gather(*asked)
        return model.batches

    assert asyncio.run(go()) == [[0], [1, 2, 3, 4]]


def test_a_batch_that_may_still_wait_is_not_started_when_another_ends():
    async def go():
        model = Doubler()
        options = Batching(max_batch_size=2, batch_timeout_micros=5_000_000, num_batch_threads=1)
        batcher = Batcher(model, options, BatchScheduler(1))
        first = asyncio.ensure_future(batcher.run({"x": np.array([[1, 2]])}))
        await asyncio.sleep(0)
        await batcher.run({"x": np.array([[3], [4]])})
        await asyncio.sleep(0.01)
        await asyncio.gather(first, batcher.run({"x": np.array([[5, 6]])}))
        return model.batches

    assert asyncio.run(asyncio.wait_for(go(), 4)) == [[[3], [4]], [[1, 2], [5, 6]]]


def test_rows_of_different_lengths_share_no_batch_unless_they_are_padded():
    requests = [[[1, 2, 3]], [[4, 5]], [[6, 7, 8]]]
    answers = [[[2, 4, 6]], [[8, 10]], [[12, 14, 16]]]
    assert run(requests) == (answers, [[[1, 2, 3], [6, 7, 8]], [[4, 5]]])
    _, batches = run(requests, pad_variable_length_inputs=True)
    assert batches == [[[1, 2, 3], [4, 5, 4], [6, 7, 8]]], "TensorFlow Serving pads with the first element"


def test_values_of_different_types_share_no_batch():
    assert run([[1], [0.5], [2]])[1] == [[1, 2], [0.5]]


def test_batches_are_filled_up_to_an_allowed_size():
    answers, batches = run([[1], [2, 3]], allowed_batch_sizes=(2, 8), max_batch_size=8)
    assert (answers, batches) == ([[2], [4, 6]], [[1, 2, 3, 1, 1, 1, 1, 1]])
    assert run([[1], [2, 3]], allowed_batch_sizes=(3, 8), max_batch_size=8)[1] == [[1, 2, 3]], "it is that size already"


def test_larger_requests_are_refused_or_cut_up():
    (error,), _ = run([[1, 2, 3]], max_batch_size=2)
    assert error.message == "Task size 3 is larger than maximum input batch size 2"
    options = {"max_batch_size": 8, "max_execution_batch_size": 2, "enable_large_batch_splitting": True}
    assert run([[1, 2, 3]], **options) == ([[2, 4, 6]], [[1, 2], [3]])
    # Even with splitting, TensorFlow Serving refuses requests with more rows than max_batch_size.
    (error,), batches = run([list(range(9))], **options)
    assert (error.message, batches) == ("Task size 9 is larger than maximum input batch size 8", [])


def test_the_largest_request_is_what_the_queue_takes_in_parts():
    options = {"max_batch_size": 8, "max_execution_batch_size": 2, "enable_large_batch_splitting": True}
    assert [Batching(**options, max_enqueued_batches=most).largest_request for most in (3, 4, 10)] == [6, 8, 8]
    assert Batching(max_batch_size=8, max_enqueued_batches=1).largest_request == 8


def test_a_batch_into_which_the_next_request_does_not_fit_waits_no_longer():
    start = time.monotonic()
    _, batches = run([[1, 2, 3], [4, 5, 6, 7]], max_batch_size=4, batch_timeout_micros=5_000_000)
    assert (sorted(batches), time.monotonic() - start < 4) == ([[1, 2, 3], [4, 5, 6, 7]], True)


def test_what_a_client_that_has_gone_away_asked_is_not_computed():
    async def go():
        model = Doubler()
        batcher = Batcher(model, Batching(batch_timeout_micros=20_000), BatchScheduler(1))
        gone, other = (asyncio.ensure_future(batcher.run({"x": np.array([number])})) for number in (1, 2))
        await asyncio.sleep(0.001)
        gone.cancel()
        return (await other)["y"].tolist(), model.batches

    assert asyncio.run(go()) == ([4], [[2]])


def test_parts_of_different_widths_are_an_error_and_not_a_wrong_answer():
    async def words(inputs):
        return {"y": np.zeros((len(inputs["x"]), inputs["x"].max()))}

    async def go():
        options = Batching(enable_large_batch_splitting=True, max_execution_batch_size=2)
        return await Batcher(words, options, BatchScheduler(1)).run({"x": np.array([1, 2, 3])})

    with pytest.raises(StatusError, match="parts of output 'y' have different widths"):
        asyncio.run(go())


def test_one_bad_request_spoils_no_other():
    (first, bad, last), batches = run([[1], [-1], [3]])
    assert (first, last) == ([2], [6])
    assert bad.message == "a row has -1"
    assert batches == [[1, -1, 3], [1], [-1], [3]]


def test_a_full_queue_refuses():
    answers, _ = run([[1], [2], [3]], max_batch_size=1, max_enqueued_batches=2)
    assert answers[:2] == [[2], [4]]
    assert answers[2].code == Code.UNAVAILABLE
    assert answers[2].message == "The batch scheduling queue to which this task was submitted is full"


def test_requests_that_are_given_up_leave_their_batch_and_the_queue():
    async def go():
        model, options = Doubler(), Batching(max_batch_size=2, max_enqueued_batches=1, num_batch_threads=1)
        batcher = Batcher(model, options, BatchScheduler(1))
        model.may_go_on.clear()
        first = asyncio.ensure_future(batcher.run({"x": np.array([1, 2])}))
        await asyncio.sleep(0.01)
        for _ in range(3):  # the queue has room for one batch
            given_up = [asyncio.ensure_future(batcher.run({"x": np.array([number])})) for number in (3, 4)]
            await asyncio.sleep(0.01)
            for task in given_up:
                task.cancel()
            await asyncio.sleep(0.01)
        last = [asyncio.ensure_future(batcher.run({"x": np.array([number])})) for number in (5, 6, 7)]
        await asyncio.sleep(0.01)
        last.pop(1).cancel()
        await asyncio.sleep(0.01)
        model.may_go_on.set()
        answers = await asyncio.gather(first, *last, return_exceptions=True)
        return [a if isinstance(a, Exception) else a["y"].tolist() for a in answers], model.batches

    (first, fifth, full), batches = asyncio.run(asyncio.wait_for(go(), 10))
    assert (first, fifth) == ([2, 4], [10])
    assert full.code == Code.UNAVAILABLE
    assert batches == [[1, 2], [5]]


def test_inputs_without_common_rows_are_refused_and_an_empty_batch_is_not():
    async def go(**inputs):
        async def model(given):
            return given

        return await Batcher(model, Batching(), BatchScheduler(1)).run(inputs)

    for inputs in ({"a": np.zeros(2), "b": np.zeros(3)}, {"a": np.zeros(())}):
        with pytest.raises(StatusError, match="must have equal 0th-dimension size"):
            asyncio.run(go(**inputs))
    assert asyncio.run(go(a=np.zeros((0, 3))))["a"].shape == (0, 3)


def test_a_batching_file_is_read(tmp_path):
    path = tmp_path / "batching.txt"
    path.write_text("max_batch_size { value: 8 }\nbatch_timeout_micros { value: 500 }\nallowed_batch_sizes: [2, 8]\n")
    options = read_batching_file(str(path))
    assert (options.max_batch_size, options.batch_timeout_micros, options.allowed_batch_sizes) == (8, 500, (2, 8))
    assert options.max_enqueued_batches == 10


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("max_batch_size: 8", "is not a BatchingParameters in protobuf's text format"),
        ("max_batch_size { value: 0 }", "max_batch_size must be a whole number from 1 to .* Received: 0"),
        ("allowed_batch_sizes: [8, 2]", "must grow from one to the next"),
        ("allowed_batch_sizes: 2", "The last of allowed_batch_sizes must be max_batch_size, 1000"),
        (
            "max_batch_size { value: 8 } enable_large_batch_splitting { value: true } "
            "max_execution_batch_size { value: 4 } allowed_batch_sizes: 4",
            "The last of allowed_batch_sizes must be max_batch_size, 8. Received: .4.",
        ),
        ("batch_timeout_micros { value: -1 }", "batch_timeout_micros must be a whole number from 0"),
        (None, "Cannot read"),
    ],
)
def test_a_wrong_batching_file_is_one_line(tmp_path, text, error):
    path = tmp_path / "batching.txt"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=error):
        read_batching_file(str(path))
