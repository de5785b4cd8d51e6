"""Proposes how a server should join requests, from measured latencies of different request sizes."""

import dataclasses
import math
from collections.abc import Sequence

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.batching_parameters import Batching
from keras_bert.tf_serving.client.request_batches import ROWS_OF_A_REQUEST

# A setting with this share of the best throughput is good enough.
_GOOD_ENOUGH = 0.85
# Joining requests must raise the throughput of single rows by this factor.
_WORTH_JOINING = 1.2
# The longest wait for other requests, relative to the latency of a single row.
_WAITING_SHARE = 0.1
# Padding a batch to the next size must not slow it down by more than this factor.
_FILLED_UP_COSTS = 1.1
# Requests that would wait longer are refused.
_LONGEST_QUEUE_SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The speed of a server that `concurrency` clients ask at once with requests of `batch_size` rows.

    Attributes:
        batch_size: rows per request.
        concurrency: number of clients, each with one request at a time.
        requests, failed: the numbers of answered and failed requests.
        seconds: duration of the measurement.
        p50_ms, p90_ms, p99_ms: percentiles of the latency in milliseconds.
    """

    batch_size: int
    concurrency: int
    requests: int
    failed: int
    seconds: float
    p50_ms: float
    p90_ms: float
    p99_ms: float

    @property
    def rows_per_second(self) -> float:
        return self.batch_size * self.requests / self.seconds


@dataclasses.dataclass(frozen=True)
class Proposal:
    """Batching parameters, and the reason for each value as a sentence."""

    batching: Batching
    reasons: tuple[str, ...]


def propose_batching(
    measurements: Sequence[Measurement], latency_ms: float | None = None, *, can_split: bool = False
) -> Proposal:
    """Proposes batching parameters from measurements.

    A server refuses requests with more rows than `max_batch_size`. So this is the largest request that was measured or
    that clients of this package send. Smaller batches need splitting.

    Args:
        measurements: one client with several batch sizes, and several clients with `best_batch_size`.
        latency_ms: the limit for the 99th percentile of the latency; None sets no limit.
        can_split: whether every output of the model has rows of one width, so that servers may split requests.

    Raises:
        InputError: there is no measurement with one client, or none within `latency_ms`.

    Example:
        1 row in 10 ms, 8 rows in 20 ms, 16 rows in 40 ms; 2 clients double the throughput, 4 do not raise it; can_split
        -> max_batch_size 64, max_execution_batch_size 8, batch_timeout_micros 1000, num_batch_threads 2
    """
    by_size = _with_one_client(measurements, latency_ms)
    single, best = by_size[0], _best(by_size)
    largest = max(ROWS_OF_A_REQUEST, *(one.batch_size for one in measurements))
    gain = best.rows_per_second / single.rows_per_second
    is_worth_joining = gain >= _WORTH_JOINING
    if not is_worth_joining:
        best = single
    splits = can_split and is_worth_joining and best.batch_size < largest
    reasons = [
        f"max_batch_size {largest}: the largest request, of those measured and those that clients of this package "
        "send. A server refuses larger ones."
    ]
    if not is_worth_joining:
        reasons[0] += (
            f" Larger batches give {gain:.2f} times the rows a second, which is not worth the waiting: switch batching "
            "off (leave out --enable_batching), or use this file."
        )
    else:
        reasons.append(_size_reason(by_size, gain, splits, largest))
    timeout, timeout_reason = _timeout(single, is_worth_joining)
    threads, threads_reason = _threads(measurements, best)
    # With splitting, all batches of one request must fit into the queue.
    queue, queue_reason = _queue(threads, best, math.ceil(largest / best.batch_size) if splits else 1)
    sizes, sizes_reason = _allowed_sizes(_with_one_client(measurements, None), largest, splits)
    reasons += [timeout_reason, threads_reason, queue_reason, sizes_reason]
    batching = Batching(
        max_batch_size=largest,
        batch_timeout_micros=timeout,
        num_batch_threads=threads,
        max_enqueued_batches=queue,
        enable_large_batch_splitting=splits,
        max_execution_batch_size=best.batch_size if splits else None,
        allowed_batch_sizes=sizes,
    )
    return Proposal(batching, tuple(reasons))


def _size_reason(by_size: Sequence[Measurement], gain: float, splits: bool, largest: int) -> str:
    """Returns the reason for the size of batches where joining requests is worth it."""
    single, best = by_size[0], _best(by_size)
    why = (
        f"the smallest batch that gives {_GOOD_ENOUGH:.0%} of the most rows a second; {gain:.1f} times those of "
        f"{single.batch_size}, in {best.p50_ms:.1f} ms instead of {single.p50_ms:.1f}."
        + (" Larger ones were not tried or take too long." if best is by_size[-1] else "")
    )
    if splits:
        return f"enable_large_batch_splitting, max_execution_batch_size {best.batch_size}: {why}"
    if best.batch_size == largest:
        return f"enable_large_batch_splitting not set: {largest} rows are {why}"
    return (
        f"enable_large_batch_splitting not set: {best.batch_size} rows are {why} But servers can cut requests up only "
        f"where all answers have one width. To keep batches at {best.batch_size} rows, let clients send no more "
        f"(batch_size={best.batch_size}) and set max_batch_size {best.batch_size}."
    )


def best_batch_size(measurements: Sequence[Measurement], latency_ms: float | None = None) -> int:
    """Returns the smallest batch size with nearly the best throughput; `propose_batching` uses it."""
    return _best(_with_one_client(measurements, latency_ms)).batch_size


def _with_one_client(measurements: Sequence[Measurement], latency_ms: float | None) -> list[Measurement]:
    by_size = sorted((one for one in measurements if one.concurrency == 1), key=lambda one: one.batch_size)
    if not by_size:
        raise InputError("Batching can be proposed only from measurements with one client, and there are none.")
    in_time = [one for one in by_size if latency_ms is None or one.p99_ms <= latency_ms]
    if not in_time:
        raise InputError(
            f"Not even requests of {by_size[0].batch_size} row(s) meet the limit of {latency_ms:g} ms: 99 of 100 take "
            f"up to {by_size[0].p99_ms:.1f} ms. Allow more, or use a smaller model or a faster machine."
        )
    return in_time


def _best(by_size: Sequence[Measurement]) -> Measurement:
    most = max(one.rows_per_second for one in by_size)
    return next(one for one in by_size if one.rows_per_second >= _GOOD_ENOUGH * most)


def _threads(measurements: Sequence[Measurement], best: Measurement) -> tuple[int, str]:
    by_clients = [one for one in measurements if one.batch_size == best.batch_size]
    by_clients.sort(key=lambda one: one.concurrency)
    most = max(one.rows_per_second for one in by_clients)
    enough = next(one for one in by_clients if one.rows_per_second >= _GOOD_ENOUGH * most)
    return enough.concurrency, (
        f"num_batch_threads {enough.concurrency}: {enough.concurrency} batches of {best.batch_size} rows at once give "
        f"{enough.rows_per_second:.0f} rows a second; the most with up to {by_clients[-1].concurrency} is {most:.0f}."
    )


def _timeout(single: Measurement, is_worth_joining: bool) -> tuple[int, str]:
    if not is_worth_joining:
        return 0, "batch_timeout_micros 0: nothing is gained by waiting."
    timeout = round(single.p50_ms * 1000 * _WAITING_SHARE)
    return timeout, (
        f"batch_timeout_micros {timeout}: {_WAITING_SHARE:.0%} of the {single.p50_ms:.1f} ms of a lone request. "
        "While the server is busy, requests gather without waiting."
    )


def _queue(threads: int, best: Measurement, batches_of_a_request: int) -> tuple[int, str]:
    queue = max(threads, batches_of_a_request, math.ceil(threads * _LONGEST_QUEUE_SECONDS * 1000 / best.p50_ms))
    return queue, (
        f"max_enqueued_batches {queue}: {threads} at a time, {best.p50_ms:.1f} ms each, are done in "
        f"{_LONGEST_QUEUE_SECONDS:g} s; requests that would wait longer are refused at once and can be sent again."
    )


def _allowed_sizes(by_size: Sequence[Measurement], largest: int, splits: bool) -> tuple[tuple[int, ...], str]:
    if splits:
        return (), (
            "allowed_batch_sizes not set: servers want the last of them to be both max_batch_size and "
            "max_execution_batch_size."
        )
    if by_size[-1].batch_size != largest:
        return (), f"allowed_batch_sizes not set: {largest} rows, which would be the last of them, were not measured."
    pairs = zip(by_size, by_size[1:], strict=False)
    costs = [(one, following, following.p50_ms / one.p50_ms) for one, following in pairs]
    if not costs:
        return (), "allowed_batch_sizes not set: there is one size only."
    one, following, cost = max(costs, key=lambda item: item[2])
    if cost > _FILLED_UP_COSTS:
        return (), (
            f"allowed_batch_sizes not set: {following.batch_size} rows take {cost:.1f} times as long as "
            f"{one.batch_size}, so filling batches up would cost time."
        )
    sizes = tuple(one.batch_size for one in by_size)
    return sizes, (
        f"allowed_batch_sizes {', '.join(map(str, sizes))}: filling a batch up to the next size costs almost nothing, "
        "and the server meets few shapes."
    )
