"""Joining requests and splitting their answers, with a one-line model."""

import asyncio

import numpy as np
import pytest

from keras_bert.program.errors import InputError
from keras_bert.serving.request_joining import RequestJoiner


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
            raise ArithmeticError("a row has -1")
        return {"y": inputs["x"] * 2}


def run(requests, **options):
    """Returns the answers (or errors) of requests that arrive together, and the batches they became."""

    async def go():
        model = Doubler()
        joiner = RequestJoiner(model, **options)
        asked = [joiner.run({"x": np.array(request)}) for request in requests]
        answers = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 10)
        return [a if isinstance(a, Exception) else a["y"].tolist() for a in answers], model.batches

    return asyncio.run(go())


def test_requests_that_arrive_together_are_one_batch_and_each_gets_its_rows():
    assert run([[1], [2, 3], [4]]) == ([[2], [4, 6], [8]], [[1, 2, 3, 4]])


def test_a_batch_has_no_more_rows_than_allowed_and_a_larger_request_is_alone():
    assert run([[1], [2], [3], [4, 5], [6]], max_rows=2)[1] == [[1, 2], [3, 6], [4, 5]]
    assert run([[1, 2, 3], [4]], max_rows=2) == ([[2, 4, 6], [8]], [[1, 2, 3], [4]])


def test_a_request_that_finds_the_model_idle_does_not_wait_and_later_ones_fill_a_batch():
    async def go():
        model = Doubler()
        joiner = RequestJoiner(model)
        model.may_go_on.clear()
        asked = []
        for number in range(5):
            asked.append(asyncio.ensure_future(joiner.run({"x": np.array([number])})))
            await asyncio.sleep(0.001)
        assert model.batches == [[0]]
        model.may_go_on.set()
        answers = await asyncio.gather(*asked)
        return [answer["y"].tolist() for answer in answers], model.batches

    assert asyncio.run(go()) == ([[0], [2], [4], [6], [8]], [[0], [1, 2, 3, 4]])


def test_as_many_batches_as_allowed_are_computed_at_once():
    async def go():
        model = Doubler()
        joiner = RequestJoiner(model, max_rows=1, num_at_once=2)
        model.may_go_on.clear()
        asked = [asyncio.ensure_future(joiner.run({"x": np.array([number])})) for number in range(4)]
        await asyncio.sleep(0.01)
        under_way = list(model.batches)
        model.may_go_on.set()
        await asyncio.gather(*asked)
        return under_way, model.batches

    assert asyncio.run(go()) == ([[0], [1]], [[0], [1], [2], [3]])


def test_rows_of_other_lengths_and_types_share_no_batch():
    assert run([[[1, 2, 3]], [[4, 5]], [[6, 7, 8]]])[1] == [[[1, 2, 3], [6, 7, 8]], [[4, 5]]]
    assert run([[1], [0.5], [2]])[1] == [[1, 2], [0.5]]


def test_what_has_no_common_rows_is_computed_alone():
    async def go():
        seen = []

        async def model(inputs):
            seen.append({name: array.shape for name, array in inputs.items()})
            return inputs

        joiner = RequestJoiner(model)
        odd = {"a": np.zeros(2), "b": np.zeros(3)}
        await asyncio.gather(*(joiner.run(odd) for _ in range(2)), joiner.run({"a": np.zeros(())}), joiner.run({}))
        return seen

    assert asyncio.run(go()) == [{"a": (2,), "b": (3,)}] * 2 + [{"a": ()}, {}]


def test_requests_that_are_given_up_are_not_computed():
    async def go():
        model = Doubler()
        joiner = RequestJoiner(model)
        gone, other = (asyncio.ensure_future(joiner.run({"x": np.array([number])})) for number in (1, 2))
        await asyncio.sleep(0)
        gone.cancel()
        return (await other)["y"].tolist(), model.batches

    assert asyncio.run(go()) == ([4], [[2]])


def test_one_bad_request_spoils_no_other():
    (first, bad, last), batches = run([[1], [-1], [3]])
    assert (first, last) == ([2], [6])
    assert str(bad) == "a row has -1"
    assert batches == [[1, -1, 3], [1], [-1], [3]]


def test_outputs_without_a_row_for_each_input_are_computed_one_request_at_a_time():
    async def total(inputs):
        return {"total": inputs["x"].sum(keepdims=True)}

    async def go():
        joiner = RequestJoiner(total)
        answers = await asyncio.gather(*(joiner.run({"x": np.array([number])}) for number in (1, 2)))
        return [answer["total"].tolist() for answer in answers]

    assert asyncio.run(go()) == [[1], [2]]


def test_limits_are_at_least_one():
    for limits in ({"max_rows": 0}, {"num_at_once": 0}):
        with pytest.raises(InputError, match="must be at least 1"):
            RequestJoiner(None, **limits)
