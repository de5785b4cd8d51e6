"""What a training step waits for, and what it gets: measured where the batches are handed over."""

import sys
import threading
from collections.abc import Mapping

import tensorflow as tf

from keras_bert.records import features

# What is added up over all batches, in this order.
_SUMS = ("batches", "wait_seconds", "tokens", "attended_pairs", "predictions")


class InputProbe:
    """Counts the batches of a dataset and the time that is waited for them; says when one does not come.

    It costs a few TensorFlow operations a batch, no call of Python. While its `with` block lasts, a thread looks
    whether a batch has been waited for longer than allowed, and says so on standard error, again and again.

    Args:
        source: where the batches come from, in words.
        stuck_seconds: how long a batch may take.
    """

    def __init__(self, source: str, stuck_seconds: float = 300.0):
        self._source = source
        self._stuck_seconds = stuck_seconds
        with tf.device("/cpu:0"):
            self._asked = tf.Variable(0.0, trainable=False, dtype=tf.float64)
            self._sums = tf.Variable([0.0] * len(_SUMS), trainable=False, dtype=tf.float64)

    def watch(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Returns the same batches, watched. Nothing may prefetch them, or it is that which waits."""
        asking = tf.data.Dataset.range(1).repeat().map(self._ask)
        watched = tf.data.Dataset.zip((asking, dataset)).map(self._get)
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False
        options.autotune.enabled = False  # for the reason given in input_pipeline.py
        return watched.with_options(options)

    def sums(self) -> dict[str, float]:
        """Returns what was counted so far.

        `batches`; `wait_seconds`; `tokens` that are not padding; `attended_pairs`: each token times the columns of its
        row; `predictions`: masked tokens.
        """
        return dict(zip(_SUMS, self._sums.numpy().tolist(), strict=True))

    def waited_for(self) -> int | None:
        """Returns the number of the batch that is waited for, from 1, or None when none is."""
        got = self.sums()["batches"]  # before what was asked for: that one may come in between
        asked = float(self._asked.numpy())
        return int(asked) if asked > got else None

    def __enter__(self):
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._look_out, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._is_done.set()
        self._thread.join()

    @tf.autograph.experimental.do_not_convert
    def _ask(self, _) -> tf.Tensor:
        with tf.control_dependencies([self._asked.assign_add(1.0)]):
            return tf.timestamp()

    @tf.autograph.experimental.do_not_convert
    def _get(self, asked_at: tf.Tensor, batch):
        tokens = columns = predictions = tf.zeros([], tf.float64)
        if isinstance(batch, Mapping) and features.INPUT_MASK in batch:
            mask = batch[features.INPUT_MASK]
            tokens = tf.math.count_nonzero(mask, dtype=tf.float64)
            columns = tf.cast(tf.shape(mask)[-1], tf.float64)
            if features.MASKED_LM_WEIGHTS in batch:
                predictions = tf.math.count_nonzero(batch[features.MASKED_LM_WEIGHTS], dtype=tf.float64)
        one = tf.ones([], tf.float64)
        added = tf.stack([one, tf.timestamp() - asked_at, tokens, tokens * columns, predictions])
        with tf.control_dependencies([self._sums.assign_add(added)]):
            return tf.nest.map_structure(tf.identity, batch)

    def _look_out(self) -> None:
        number, waited, interval = 0.0, 0.0, min(1.0, self._stuck_seconds / 4)
        while not self._is_done.wait(interval):
            asked, got = float(self._asked.numpy()), self.sums()["batches"]
            waited = waited + interval if asked > got and asked == number else 0.0
            number = asked
            if waited >= self._stuck_seconds:
                print(
                    f"\nNo batch for {waited:.0f} seconds: training waits for batch {int(asked)} since its start, from "
                    f"{self._source}. It goes on waiting.",
                    file=sys.stderr,
                    flush=True,
                )
                waited = 0.0
