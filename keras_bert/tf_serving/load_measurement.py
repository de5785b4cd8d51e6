"""Measures latency and rows per second of a server, by batch size and number of clients."""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.batching_proposal import Measurement, best_batch_size
from keras_bert.tf_serving.client.errors import ServingError
from keras_bert.tf_serving.kit.sample_requests import as_arrays, made_up_row

# Made-up rows per text length, from which requests are drawn.
_ROWS_PER_LENGTH = 64


def made_up_rows(signature, lengths: Sequence[int], seed: int = 0) -> list[dict]:
    """Returns made-up rows for the text inputs of a signature, the same number for each length.

    Args:
        signature: one of the client's `metadata().signatures`.
        lengths: the numbers of words per text.

    Raises:
        InputError: an input of the signature is not a text.
    """
    draw = random.Random(seed)
    inputs = {
        name: (tensor.dtype, None if tensor.shape is None else len(tensor.shape))
        for name, tensor in signature.inputs.items()
    }
    return [made_up_row(inputs, length, draw) for length in lengths for _ in range(_ROWS_PER_LENGTH)]


def measure(
    ask: Callable[[dict], object], rows: Sequence[Mapping], batch_size: int, concurrency: int, seconds: float
) -> Measurement:
    """Runs `concurrency` clients, each with one request at a time, for `seconds`, and returns their measurements.

    Args:
        ask: sends the inputs of one request and waits for the answer; called by several threads.
        rows: the rows that requests are drawn from.

    Raises:
        InputError: no request was answered; the message has the first reason.
    """
    latencies, failures = [[] for _ in range(concurrency)], []
    with contextlib.suppress(ServingError):  # an error that lasts is counted below
        ask(_request(rows, batch_size, random.Random(0)))  # opens connections and warms the graph up for this size
    start = time.perf_counter()
    end = start + seconds

    def client(number: int) -> None:
        draw = random.Random(number)
        while True:
            request = _request(rows, batch_size, draw)
            asked = time.perf_counter()
            if asked >= end:
                return
            try:
                ask(request)
            except ServingError as error:
                failures.append(error)
            else:
                latencies[number].append(time.perf_counter() - asked)

    threads = [threading.Thread(target=client, args=[number]) for number in range(concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.perf_counter() - start
    answered = np.concatenate(latencies) * 1000
    if not len(answered):
        raise InputError(f"No request of {batch_size} row(s) was answered: {failures[0] if failures else 'none ended'}")
    p50, p90, p99 = np.percentile(answered, [50, 90, 99])
    return Measurement(batch_size, concurrency, len(answered), len(failures), taken, float(p50), float(p90), float(p99))


def measure_all(
    ask: Callable[[dict], object],
    rows: Sequence[Mapping],
    batch_sizes: Sequence[int],
    concurrencies: Sequence[int],
    seconds: float,
    on_measurement: Callable[[Measurement], None] = lambda measurement: None,
    latency_ms: float | None = None,
) -> list[Measurement]:
    """Measures every batch size with one client, then one row and the best batch size with more clients.

    Args:
        ask, rows: as in `measure`.
        batch_sizes, concurrencies: the values to measure; one client is always measured.
        seconds: the time of each measurement.
        on_measurement: called with each new measurement.
        latency_ms: as in `propose_batching`.

    Raises:
        InputError: no request was answered, or none within `latency_ms`.
    """
    measurements = []

    def add(batch_size: int, concurrency: int) -> None:
        measurements.append(measure(ask, rows, batch_size, concurrency, seconds))
        on_measurement(measurements[-1])

    sizes = sorted(set(batch_sizes))
    for size in sizes:
        add(size, 1)
    for size in sorted({sizes[0], best_batch_size(measurements, latency_ms)}):
        for concurrency in sorted(set(concurrencies) - {1}):
            add(size, concurrency)
    return measurements


def _request(rows: Sequence[Mapping], batch_size: int, draw: random.Random) -> dict:
    return as_arrays(draw.choices(rows, k=batch_size))
