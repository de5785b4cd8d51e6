"""Loads the development server with many clients, and checks every answer.

    python -m benchmarks.serving_load --requests=50000 --clients=64

The models are a tiny classifier and one of MiniLM's size, both with random weights. The server runs in a process of its
own, once with requests joined (--enable_batching) and once without; --joined=yes runs only the first. Clients in other
processes send texts of 1 to 100 words, one per request, over persistent connections. Every answer is compared with a
direct call of the SavedModel in this process. The output has requests per second, latencies, the server's memory after
each tenth of the time, and wrong and lost answers. The last line is the additional time of a REST request over a direct
call: medians of one client, in turns.
"""

import asyncio
import contextlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np
import psutil
from absl import flags

from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS

SIZES = {
    "tiny": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32},
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
}
JOINED = {"yes": True, "no": False}
NUM_TEXTS = 500
MAX_WORDS = 100
TOLERANCE = 1e-5
WARM_UP = 20
HEADER = [
    "| model | requests joined | requests/s | median ms | 99 % ms | memory, MB, after each tenth "
    "| largest difference | wrong | refused | lost |",
    "|---|---|---|---|---|---|---|---|---|---|",
]


def define_flags() -> None:
    flags.DEFINE_list("models", list(SIZES), f"Some of {', '.join(SIZES)}.")
    flags.DEFINE_list("joined", list(JOINED), "Some of yes (with --enable_batching) and no.")
    flags.DEFINE_integer("requests", 50_000, "Requests to each server.", lower_bound=1)
    flags.DEFINE_integer("clients", 64, "Clients that ask at a time.", lower_bound=1)
    flags.DEFINE_integer("client_processes", 2, "Processes that the clients run in.", lower_bound=1)
    flags.DEFINE_integer("pairs", 300, "Requests in turns with direct calls.", lower_bound=1)
    flags.DEFINE_string("client", None, "Used by the program itself: be clients, as this file says.")


def main() -> None:
    if FLAGS.client:
        asyncio.run(_be_clients(FLAGS.client))
        return
    unknown = set(FLAGS.models) - set(SIZES)
    if unknown:
        raise InputError(f"--models has {', '.join(sorted(unknown))}; there are {', '.join(SIZES)}.")
    if not FLAGS.joined or set(FLAGS.joined) - set(JOINED):
        raise InputError(f"--joined takes {' and '.join(JOINED)}. Received: {', '.join(FLAGS.joined) or 'nothing'}")
    overheads = []
    print("\n".join(HEADER))
    with tempfile.TemporaryDirectory() as folder:
        for name in FLAGS.models:
            path = os.path.join(folder, name)
            texts = _export(path, SIZES[name])
            direct, expected = _direct_answers(path, texts)
            speeds = {}
            for joined in [JOINED[answer] for answer in FLAGS.joined]:
                with _server(path, folder, joined) as (port, process):
                    _overhead(name, port, texts[:WARM_UP], direct)  # the first calls of a model are slow
                    speeds[joined] = _load(name, joined, port, process, texts, expected, folder)
                    if not joined:
                        overheads.append(_overhead(name, port, texts, direct))
            if len(speeds) == 2:
                times = speeds[True] / speeds[False]
                print(f"{name}: joining gives {times:.2f} times the requests a second", flush=True)
    print("\n".join(overheads))


def _export(path: str, size: dict) -> list[str]:
    """Exports a classifier of this size with random weights, and returns texts to send."""
    from keras_bert import BertConfig, SequenceClassifier, Vocabulary

    words = [f"w{number}" for number in range(2000)]
    vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    # Weights so large that the answers to two texts differ by far more than the tolerance, but rounding errors do not.
    config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=128, initializer_range=0.1, **size)
    model = SequenceClassifier(config, labels=["a", "b", "c"])
    model.vocabulary = vocabulary
    model.export_for_serving(path)
    draw = random.Random(0)
    return [" ".join(draw.choices(words, k=draw.randint(1, MAX_WORDS))) for _ in range(NUM_TEXTS)]


def _direct_answers(path: str, texts: list[str]):
    """Returns a function that calls the SavedModel with one text, and the probabilities of all texts."""
    from keras_bert.tf_serving.loading import load_text_operations
    from keras_bert.tf_serving.server.loaded_model import ServedModel

    load_text_operations()
    model = ServedModel(os.path.join(path, "1"))

    def ask(text: str) -> list[float]:
        inputs = {"text": np.array([text.encode()], object)}
        return model.run("serving_default", inputs)["probabilities"][0].tolist()

    return ask, [ask(text) for text in texts]


@contextlib.contextmanager
def _server(path: str, folder: str, joined: bool) -> Iterator[tuple[int, psutil.Process]]:
    batching = ["--enable_batching"] if joined else []
    command = [sys.executable, "-m", "run_scripts.serve", f"model={path}", "--port=0", *batching]
    with open(os.path.join(folder, "server.log"), "w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        port = int(re.search(r":(\d+)/$", process.stdout.readline())[1])
        while _get(port, "/healthz/ready") != 200:
            time.sleep(0.1)
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def _get(port: int, path: str) -> int:
    import http.client

    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status


def _load(name: str, joined: bool, port: int, server: psutil.Process, texts, expected, folder: str) -> float:
    """Runs the clients, prints a line of the table and returns requests per second."""
    share = FLAGS.clients // FLAGS.client_processes or 1
    asked = {"port": port, "texts": texts, "expected": expected, "clients": share}
    memory, clients = [], []
    for number in range(FLAGS.client_processes):
        path = os.path.join(folder, f"client{number}.json")
        with open(path, "w") as file:
            json.dump({**asked, "requests": FLAGS.requests // FLAGS.client_processes, "seed": number}, file)
        command = [sys.executable, "-m", "benchmarks.serving_load", f"--client={path}"]
        clients.append(subprocess.Popen(command))
    while any(client.poll() is None for client in clients):
        memory.append(server.memory_info().rss)
        time.sleep(0.2)
    results = []
    for number in range(FLAGS.client_processes):
        with open(os.path.join(folder, f"client{number}.json.answer")) as file:
            results.append(json.load(file))
    times = sorted(time for result in results for time in result["times"])
    seconds = max(result["end"] for result in results) - min(result["start"] for result in results)
    speed = len(times) / seconds
    lost = FLAGS.requests // FLAGS.client_processes * FLAGS.client_processes - len(times)
    tenths = [memory[min(len(memory) * tenth // 10, len(memory) - 1)] / 2**20 for tenth in range(1, 11)]
    print(
        f"| {name} | {'yes' if joined else 'no'} | {speed:,.0f} | {times[len(times) // 2] * 1e3:.1f} | "
        f"{times[int(len(times) * 0.99)] * 1e3:.1f} | {' '.join(f'{size:,.0f}' for size in tenths)} | "
        f"{max(result['difference'] for result in results):.1e} | {sum(result['wrong'] for result in results)} | "
        f"{sum(result['refused'] for result in results)} | {lost} |",
        flush=True,
    )
    return speed


async def _be_clients(path: str) -> None:
    """Sends the requests that a file describes, and writes times and errors to a file beside it."""
    with open(path) as file:
        asked = json.load(file)
    bodies = [json.dumps({"instances": [text]}).encode() for text in asked["texts"]]
    numbers = iter(random.Random(asked["seed"]).choices(range(len(bodies)), k=asked["requests"]))
    result = {"times": [], "wrong": 0, "refused": 0, "difference": 0.0, "start": time.time()}

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", asked["port"])
        for number in numbers:
            start = time.perf_counter()
            status, body = await _ask(reader, writer, bodies[number])
            result["times"].append(time.perf_counter() - start)
            if status != 200:
                result["refused"] += 1
                continue
            answer = json.loads(body)["predictions"][0]["probabilities"]
            difference = float(np.abs(np.subtract(answer, asked["expected"][number])).max())
            result["difference"] = max(difference, result["difference"])
            result["wrong"] += difference > TOLERANCE
        writer.close()

    await asyncio.gather(*(client() for _ in range(asked["clients"])))
    # Not to a pipe, which would fill up because nothing reads it.
    with open(f"{path}.answer", "w") as file:
        json.dump({**result, "end": time.time()}, file)


async def _ask(reader, writer, body: bytes) -> tuple[int, bytes]:
    head = f"POST /v1/models/model:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(re.search(rb"content-length: (\d+)", answer)[1])
    return int(answer.split(b" ", 2)[1]), await reader.readexactly(length)


def _overhead(name: str, port: int, texts: list[str], direct) -> str:
    """Returns a line with the additional time of a request over a direct call, measured in turns."""
    import http.client

    differences, calls = [], []
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        for number in range(FLAGS.pairs):
            text = texts[number % len(texts)]
            body = json.dumps({"instances": [text]}).encode()
            start = time.perf_counter()
            direct(text)
            middle = time.perf_counter()
            connection.request("POST", "/v1/models/model:predict", body)
            connection.getresponse().read()
            end = time.perf_counter()
            calls.append(middle - start)
            differences.append((end - middle) - (middle - start))
    return (
        f"{name}: a direct call takes {statistics.median(calls) * 1e3:.2f} ms, "
        f"a REST request {statistics.median(differences) * 1e3:.2f} ms more (medians of {FLAGS.pairs})"
    )


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
