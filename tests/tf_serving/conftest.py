"""Shared by the tests of clients: a fake TF Serving, and the kinds of clients."""

import contextlib

import pytest
from fake_tf_serving import FakeTfServing
from kinds_of_clients import CLIENTS


@pytest.fixture(scope="module")
def running():
    with contextlib.closing(FakeTfServing()) as server:
        yield server


@pytest.fixture
def server(running):
    """The fake without faults and without requests of other tests."""
    running.forget()
    return running


@pytest.fixture(params=CLIENTS)
def kind(request):
    return request.param
