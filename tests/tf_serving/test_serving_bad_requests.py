"""Invalid requests never cause a crash, a status 500, a hang or another client's answer."""

import concurrent.futures
import contextlib
import json
import random
import socket
import time

import pytest
from served_models import MODEL, HttpClient, half_plus_two

from keras_bert.tf_serving.server.request_limits import ServerOptions
from keras_bert.tf_serving.server.run_server import background_server


@pytest.fixture(scope="module")
def port():
    options = ServerOptions(port=0, max_body_bytes=1 << 20, body_seconds=2, max_requests=3, num_threads=1)
    with background_server({MODEL: half_plus_two()}, options) as address:
        yield address.port


@pytest.fixture
def client(port):
    with HttpClient(port) as client:
        yield client


def http_request(body: bytes, headers: str = "", length: int | None = None) -> bytes:
    length = len(body) if length is None else length
    head = f"POST /v1/models/{MODEL}:predict HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {length}\r\n\r\n"
    return head.encode() + body


def still_answers(port) -> bool:
    with HttpClient(port) as client:
        return client.ask({"instances": [2.0]}) == (200, {"predictions": [3.0]})


def exchange(port, data: bytes, wait: float = 5) -> bytes:
    """Sends bytes and returns the answer, which ends when the server closes or is silent for `wait` seconds."""
    parts = []
    with (
        socket.create_connection(("127.0.0.1", port), timeout=wait) as connection,
        contextlib.suppress(TimeoutError, ConnectionResetError),
    ):
        connection.sendall(data)
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def test_a_body_of_100_mb_is_413_and_memory_does_not_grow(port, client):
    import psutil

    process = psutil.Process()
    before = process.memory_info().rss
    chunk = b" " * (1 << 20)
    status, body = client.raw("POST", client.path + ":predict", iter([chunk] * 4))
    assert status == 413
    assert json.loads(body) == {"error": "The body is larger than 1048576 bytes, the limit of this server."}
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as connection,
        contextlib.suppress(OSError),  # it has closed the connection
    ):
        connection.sendall(http_request(b"", length=100 << 20))
        for _ in range(100):
            connection.sendall(chunk)
    assert process.memory_info().rss - before < 50 << 20
    assert still_answers(port)


def test_clients_that_send_slowly_are_told_and_let_go(port):
    answer = exchange(port, http_request(b'{"inst', length=30))
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"The body did not arrive within 2 seconds." in answer
    assert still_answers(port)


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("LOCALHOST:8501", 200), ("127.0.0.1:1", 200), ("[::1]:8501", 200), ("evil.example", 403),
     ("127.0.0.1.evil.example", 403), ("0.0.0.0:8501", 403), ("a:b:c", 403)],
)  # fmt: skip
def test_a_server_on_loopback_answers_only_to_its_own_names(port, host, status):
    for path in ("/models", f"/v1/models/{MODEL}"):
        answer = exchange(port, f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert status == 200 or f"The Host header is '{host}', but this server listens".encode() in answer


def test_a_server_for_other_machines_answers_to_any_name():
    options = ServerOptions(host="0.0.0.0", port=0)
    with background_server({}, options) as address:
        request = b"GET /models HTTP/1.1\r\nHost: models.example\r\nConnection: close\r\n\r\n"
        assert exchange(address.port, request).startswith(b"HTTP/1.1 200 ")


def test_headers_that_never_end_close_the_connection(port):
    answer = exchange(port, b"GET / HTTP/1.1\r\nX: " + b"a" * (3 << 20))
    assert b"200" not in answer[:20]
    assert still_answers(port)


def test_more_requests_than_allowed_are_429(port):
    body = json.dumps({"signature_name": "slow", "instances": [0.3]}).encode()
    request = http_request(body, "Connection: close\r\n")
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: exchange(port, request, wait=30), range(6)))
    assert sorted(answer.split()[1] for answer in answers) == [b"200"] * 3 + [b"429"] * 3
    assert any(b"3 requests are running; try again later." in answer for answer in answers)
    assert still_answers(port)


def test_half_sent_bodies_count_as_requests_that_are_under_way_and_probes_do_not(port):
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.sendall(http_request(b'{"inst', length=30))
        time.sleep(0.1)
        answer = exchange(port, http_request(b'{"instances": [1]}', "Connection: close\r\n"))
        assert answer.startswith(b"HTTP/1.1 429 ")
        probe = f"GET /v1/models/{MODEL} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert exchange(port, probe.encode()).startswith(b"HTTP/1.1 200 ")
    assert still_answers(port)


def test_a_client_that_goes_away_leaves_no_answer_to_the_next(port):
    request = http_request(json.dumps({"signature_name": "slow", "instances": [0.3]}).encode())
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(request)
    time.sleep(0.05)
    assert still_answers(port)


RAW = [
    b"\r\n\r\n", b"GET\r\n\r\n", b"\x00\x01\x02\xff" * 50, b"POST /v1/models/x:predict HTTP/9.9\r\n\r\n",
    b"GET /v1/models/%zz%00%ff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: 5, 6\r\n\r\nhello",
    b"POST /v1/models/m:predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
]  # fmt: skip


def test_what_is_no_http_is_refused(port):
    for data in RAW:
        answer = exchange(port, data, wait=0.7)
        assert not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 5")), data
    assert still_answers(port)


def random_json(draw: random.Random, depth: int = 0):
    kinds = [
        lambda: draw.choice([0, -1, 1.5, 1e38, 2**31, 2**63, 2**64, 10**30, True, False, None]),
        lambda: "".join(chr(draw.choice([0, 34, 65, 92, 233, 0x1F600])) for _ in range(draw.randrange(5))),
    ]
    if depth < 5:
        kinds += [
            lambda: [random_json(draw, depth + 1) for _ in range(draw.randrange(4))],
            lambda: {draw.choice(["x", "a", "b", "b64", "y", ""]): random_json(draw, depth + 1) for _ in range(3)},
        ] * 2
    return draw.choice(kinds)()


@pytest.mark.parametrize("seed", range(4))
def test_random_requests_are_answered_and_never_with_500(port, client, seed):
    draw = random.Random(seed)
    names = ["serving_default", "pair", "kinds", "scalar", "complex", "x", "", 5]
    for _ in range(150):
        keys = ["instances", "inputs", "signature_name", "model"]
        body = {key: random_json(draw) for key in draw.sample(keys, draw.randrange(1, 4))}
        if draw.random() < 0.8:
            body["signature_name"] = draw.choice(names)
        data = json.dumps(body, ensure_ascii=draw.random() < 0.5).encode()
        if draw.random() < 0.3:
            data = bytearray(data)
            for _ in range(draw.randrange(1, 5)):
                data[draw.randrange(len(data))] = draw.randrange(256)
        if draw.random() < 0.2:
            data = draw.randbytes(draw.randrange(200))
        path = draw.choice([f"{client.path}:predict", f"{client.path}:predict", "/v1/embeddings"])
        status, answer = client.raw("POST", path, bytes(data))
        assert status in (200, 400, 404), (data, status, answer)
        json.loads(answer.decode("utf-8", "replace"))
    assert still_answers(port)
