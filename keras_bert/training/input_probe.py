"""Measures the input of a training step: how long it waits, and how many tokens it gets."""

import sys
import threading
import time
from collections.abc import Callable, Mapping

import tensorflow as tf

from keras_bert.records import features


class InputProbe:
    """Counts the batches and tokens of a dataset and the time spent waiting for them. Reports a batch that does not
    come.

    It adds a few TensorFlow operations to each batch, and a call of Python only if operations must be deterministic. In
    its `with` block, a thread checks how long training has waited for a batch, and reports a wait that is too long on
    standard error, again and again. The report names `source`, the origin of the batches.
    """

    # The totals over all batches, in this order.
    SUMS = ("batches", "wait_seconds", "tokens", "attended_pairs", "predictions")

    def __init__(self, source: str, stuck_seconds: float = 300.0):
        self._source = source
        self._stuck_seconds = stuck_seconds
        self._now = _clock()
        with tf.device("/cpu:0"):
            self._num_requested = tf.Variable(0.0, trainable=False, dtype=tf.float64)
            self._sums = tf.Variable([0.0] * len(self.SUMS), trainable=False, dtype=tf.float64)

    def measure(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Returns the same batches and counts them. Do not prefetch after this dataset: the wait would be hidden."""
        requests = tf.data.Dataset.range(1).repeat().map(self._request)
        measured = tf.data.Dataset.zip((requests, dataset)).map(self._count)
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False
        options.autotune.enabled = False  # for the reason given in records/datasets.py
        return measured.with_options(options)

    def sums(self) -> dict[str, float]:
        """Returns the totals so far.

        `batches`; `wait_seconds`; `tokens` without padding; `attended_pairs`: each token times the columns of its row;
        `predictions`: masked tokens, or all of a stream.
        """
        return dict(zip(self.SUMS, self._sums.numpy().tolist(), strict=True))

    def pending_batch(self) -> int | None:
        """Returns the number, counted from 1, of the batch that training waits for, or None if it does not wait."""
        num_received = self.sums()["batches"]  # read before the requests: a batch may come in between
        num_requested = float(self._num_requested.numpy())
        return int(num_requested) if num_requested > num_received else None

    def __enter__(self):
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._report_waits, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._is_done.set()
        self._thread.join()

    @tf.autograph.experimental.do_not_convert
    def _request(self, _) -> tf.Tensor:
        with tf.control_dependencies([self._num_requested.assign_add(1.0)]):
            return self._now()

    @tf.autograph.experimental.do_not_convert
    def _count(self, requested_at: tf.Tensor, batch):
        tokens = columns = predictions = tf.zeros([], tf.float64)
        has_mask = isinstance(batch, Mapping) and features.INPUT_MASK in batch
        # The rows of a language model have no padding, and every token is predicted.
        is_stream = not has_mask and isinstance(batch, Mapping) and features.TARGET_IDS in batch
        if is_stream or has_mask:
            mask = tf.ones_like(batch[features.INPUT_IDS]) if is_stream else batch[features.INPUT_MASK]
            tokens = tf.math.count_nonzero(mask, dtype=tf.float64)
            columns = tf.cast(tf.shape(mask)[-1], tf.float64)
            if features.MASKED_LM_WEIGHTS in batch:
                predictions = tf.math.count_nonzero(batch[features.MASKED_LM_WEIGHTS], dtype=tf.float64)
            predictions = tokens if is_stream else predictions
        one = tf.ones([], tf.float64)
        amounts = tf.stack([one, self._now() - requested_at, tokens, tokens * columns, predictions])
        with tf.control_dependencies([self._sums.assign_add(amounts)]):
            return tf.nest.map_structure(tf.identity, batch)

    def _report_waits(self) -> None:
        last, waited, interval = None, 0.0, min(1.0, self._stuck_seconds / 4)
        while not self._is_done.wait(interval):
            number = self.pending_batch()
            waited = waited + interval if number is not None and number == last else 0.0
            last = number
            if waited >= self._stuck_seconds:
                print(
                    f"\nNo batch for {waited:.0f} seconds: training waits for batch {number} since its "
                    f"start, from {self._source}. It goes on waiting.",
                    file=sys.stderr,
                    flush=True,
                )
                waited = 0.0


def _clock() -> Callable[[], tf.Tensor]:
    """Returns a function that returns the time in seconds.

    TensorFlow refuses to read its own clock if operations must be deterministic; Python's is slower.
    """
    try:
        tf.timestamp()
    except tf.errors.FailedPreconditionError:
        return lambda: tf.ensure_shape(tf.numpy_function(time.time, [], tf.float64), [])
    return tf.timestamp
