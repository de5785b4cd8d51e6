"""The clients on a bad network: busy, slow and broken servers, connections that are closed, TLS."""

import asyncio
import concurrent.futures
import contextlib
import pathlib
import random
import shutil
import socket
import ssl
import subprocess
import threading
import time

import numpy as np
import pytest
from fake_tf_serving import FakeTfServing, probabilities
from kinds_of_clients import make_client

from keras_bert.tf_serving.client import AsyncRestClient, DeadlineExceeded, RestClient, ServingError, Unavailable
from keras_bert.tf_serving.client.grpc_api import GrpcChannel
from keras_bert.tf_serving.client.http_connections import HttpConnections, RestChannel


def test_a_busy_server_is_asked_again_until_it_answers(server, kind):
    server.misbehave(503, 429, "close")
    server.grpc_misbehaviour.extend(["UNAVAILABLE", "RESOURCE_EXHAUSTED", "UNAVAILABLE"])
    with make_client(kind, server) as client:
        assert client.predict(text=["a"])["label"].tolist() == ["short"]
    assert len(server.requests) == 4


def test_patience_ends_with_the_retries(server, kind):
    server.misbehave(503, 503, 503)
    server.grpc_misbehaviour.extend(["UNAVAILABLE"] * 3)
    with make_client(kind, server, retries=1) as client, pytest.raises(Unavailable, match="after 2 attempts"):
        client.predict(text=["a"])
    assert len(server.requests) == 2


def test_no_server_is_unavailable(kind):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    class Nobody:
        url, address = f"http://127.0.0.1:{port}", f"127.0.0.1:{port}"

    with make_client(kind, Nobody, retries=1) as client:
        with pytest.raises(Unavailable, match="after 2 attempts: .*Check that the server runs at this address"):
            client.predict(text=["a"])
        with pytest.raises(DeadlineExceeded, match=r"no version was available within 0.3 seconds: .*onnect"):
            client.wait_until_available(timeout=0.3)


def test_slow_answers_end_at_the_deadline(server, kind):
    server.misbehave(3.0)
    server.grpc_misbehaviour.append(3.0)
    with make_client(kind, server, timeout=0.3) as client:
        with pytest.raises(DeadlineExceeded, match="Allow more time"):
            client.predict(text=["a"])
        assert client.predict(text=["a"])["label"].tolist() == ["short"]


def test_an_answer_that_trickles_in_ends_at_the_deadline(server):
    server.misbehave("drip")
    with make_client("rest", server, timeout=0.4) as client, pytest.raises(DeadlineExceeded):
        client.predict(text=["a"])


@pytest.mark.parametrize("kind", ["rest", "async rest"])
def test_proxy_variables_of_the_environment_are_ignored(server, kind, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            monkeypatch.setenv(variable, "http://127.0.0.1:1")  # nobody listens there
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    with make_client(kind, server, retries=0) as client:
        assert client.predict(text=["a"])["label"].tolist() == ["short"]


def test_connections_are_kept_and_those_that_the_server_has_closed_are_replaced(server):
    server.connections = 0
    with make_client("rest", server, retries=0) as client:
        for _ in range(20):
            client.predict(text=["a"])
        assert server.connections == 1
        for kind in ("close", "reset"):  # without retries: the server has not failed
            server.misbehave(kind)
            assert client.predict(text=["a"])["label"].tolist() == ["short"]
        assert server.connections == 3
    server.misbehave("close")
    with make_client("rest", server, retries=0) as client, pytest.raises(Unavailable, match="no connection"):
        client.predict(text=["a"])


def test_half_an_answer_is_no_answer(server):
    with make_client("rest", server, retries=1) as client:
        # A connection that is used again gets no other chances: the server has received the request.
        for _ in ("new", "used again"):
            server.misbehave("cut", "cut")
            with pytest.raises(Unavailable, match="after 2 attempts: .*IncompleteRead"):
                client.predict(text=["a"])
            server.misbehave("cut")
            assert client.predict(text=["a"])["label"].tolist() == ["short"]


def test_an_attempt_has_the_time_that_the_others_have_left(server, kind, monkeypatch):
    channel = RestChannel if "rest" in kind else GrpcChannel
    given, send = [], channel.send
    monkeypatch.setattr(channel, "send", lambda *arguments: given.append(arguments[-1]) or send(*arguments))
    server.misbehave(503)
    server.grpc_misbehaviour.append("UNAVAILABLE")
    with make_client(kind, server, timeout=20.0) as client:
        client.predict(text=["a"])
    first, second = given
    assert 19 < first <= 20
    assert 15 < second <= first - 0.05, "the first pause is 0.05 seconds or longer"


def test_the_time_in_the_queue_for_a_thread_counts(server):
    async def ask():
        async with AsyncRestClient(server.url, "toy", timeout=0.9, retries=0, max_in_flight=1) as client:
            answers = [client.predict(text=["a"]) for _ in range(2)]
            return await asyncio.gather(*answers, return_exceptions=True)

    server.misbehave(0.6, 0.6)
    first, second = asyncio.run(ask())
    assert first["label"].tolist() == ["short"]
    assert isinstance(second, DeadlineExceeded), "0.6 of its 0.9 seconds were gone when the thread was free"


def test_the_first_error_ends_the_other_requests(server, kind):
    server.misbehave(500)
    server.grpc_misbehaviour.append("INTERNAL")
    with make_client(kind, server, batch_size=1, max_in_flight=1) as client:
        with pytest.raises(ServingError, match="INTERNAL"):
            client.predict(text=["a"] * 500)
        time.sleep(0.1)  # other requests would continue in this time
    assert len(server.requests) < 10


def test_a_connection_that_is_at_work_when_its_client_is_closed_is_not_kept(server):
    connections = HttpConnections(server.url, {}, None, keep=4)
    server.misbehave(0.2)
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        answer = thread.submit(connections.send, "/v1/models/toy", None, 5.0)
        while not server.at_work:
            time.sleep(0.001)
        connections.close()
        assert answer.result()[0] == 200
    assert not connections._idle


def test_a_server_may_refuse_a_large_body_before_it_has_read_it():
    def refuse(listener):
        connection, _ = listener.accept()
        connection.recv(1000)
        text = b'{"error": "too large"}'
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
        connection.shutdown(socket.SHUT_WR)
        time.sleep(0.3)
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse, args=(listener,))
        thread.start()
        client = RestClient(f"http://127.0.0.1:{listener.getsockname()[1]}", "toy", retries=0, timeout=5)
        with client, pytest.raises(ServingError, match="HTTP 413.*too large"):
            client.predict(text=["x" * 20_000_000])
        thread.join()


@pytest.mark.parametrize("kind", ["rest", "grpc"])
def test_nothing_is_lost_or_mixed_up_on_a_server_that_fails_now_and_then(server, kind):
    chance, count = random.Random(1), 600
    server.misbehave(*chance.choices([None, 503, 429, "close", "reset", "cut"], [20, 1, 1, 1, 1, 1], k=count))
    server.grpc_misbehaviour.extend(chance.choices([None, "UNAVAILABLE", "RESOURCE_EXHAUSTED"], [10, 1, 1], k=count))
    texts = ["x" * (number % 50) for number in range(count)]
    with make_client(kind, server, retries=10) as client, concurrent.futures.ThreadPoolExecutor(32) as pool:
        found = list(pool.map(lambda text: client.predict(text=[text])["probabilities"][0], texts))
    assert np.array(found, np.float32).tobytes() == probabilities(texts).tobytes()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """The files of a certificate for 127.0.0.1 that signs itself, and of its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=toy"
    command += " -addext subjectAltName=IP:127.0.0.1 -out certificate.pem -keyout key.pem"
    subprocess.run(command.split(), check=True, capture_output=True, cwd=folder)
    return str(folder / "certificate.pem"), str(folder / "key.pem")


@pytest.fixture(scope="module")
def tls_server(certificate):
    with contextlib.closing(FakeTfServing(certificate)) as server:
        yield server


def test_tls_checks_the_certificate(tls_server, certificate):
    import grpc

    trusted = ssl.create_default_context(cafile=certificate[0])
    credentials = grpc.ssl_channel_credentials(pathlib.Path(certificate[0]).read_bytes())
    for kind, tls in (("rest", {"tls": trusted}), ("grpc", {"credentials": credentials})):
        with make_client(kind, tls_server, **tls) as client:
            for _ in range(2):
                assert client.predict(text=["a"])["label"].tolist() == ["short"]
        # Certificates of the system do not have this one.
        other = {} if kind == "rest" else {"credentials": grpc.ssl_channel_credentials()}
        with make_client(kind, tls_server, retries=0, **other) as client, pytest.raises(Unavailable):
            client.predict(text=["a"])
    plain = RestClient(tls_server.url.replace("https", "http"), "toy", retries=0)
    with plain, pytest.raises(Unavailable):
        plain.predict(text=["a"])
