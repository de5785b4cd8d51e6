"""Metrics for Prometheus: requests and their times under TensorFlow Serving's names, and some additional ones."""

import collections

import prometheus_client
from prometheus_client.core import Metric

_MICROSECONDS = [10 * 1.8**power for power in range(33)]  # TensorFlow Serving's buckets
_ROWS = [2**power for power in range(11)]


class _RequestCount:
    """A counter with exactly this name; the client library would append "_total"."""

    NAME = ":tensorflow:serving:request_count"

    def __init__(self):
        self.counts = collections.Counter()

    def collect(self):
        metric = Metric(self.NAME, "The total number of requests.", "unknown")
        for (model, status), count in sorted(self.counts.items()):
            metric.add_sample(self.NAME, {"model_name": model, "status": status}, count)
        yield metric


class ServerMetrics:
    """The metrics of one server."""

    def __init__(self):
        prometheus_client.disable_created_metrics()
        self.registry = prometheus_client.CollectorRegistry()
        self._requests = _RequestCount()
        self.registry.register(self._requests)
        self._latency = prometheus_client.Histogram(
            ":tensorflow:serving:request_latency",
            "Microseconds from the arrival of a request to its answer.",
            ["model_name", "API", "entrypoint"],
            buckets=_MICROSECONDS,
            registry=self.registry,
        )
        self._batch_size = prometheus_client.Histogram(
            "keras_bert:serving:batch_size",
            "Rows of computed batches, with batching.",
            ["model_name", "signature_name"],
            buckets=_ROWS,
            registry=self.registry,
        )
        self._in_flight = prometheus_client.Gauge(
            "keras_bert:serving:requests_in_flight", "Requests in progress.", registry=self.registry
        )

    def count_request(self, model: str, api: str, entrypoint: str, status: str, seconds: float) -> None:
        """Counts a request. `model` must exist, otherwise clients could create any number of metrics."""
        self._requests.counts[model, status] += 1
        if status == "OK":
            self._latency.labels(model, api, entrypoint).observe(seconds * 1e6)

    def count_batch(self, model: str, signature: str, rows: int) -> None:
        self._batch_size.labels(model, signature).observe(rows)

    def show_in_flight(self, number: int) -> None:
        self._in_flight.set(number)

    def page(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return prometheus_client.generate_latest(self.registry)
