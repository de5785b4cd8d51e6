"""Batches for backends other than TensorFlow: tf.data makes them, and a thread reads them ahead of the step."""

import queue
import threading
import time
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.records import features
from keras_bert.training.input_probe import InputProbe

_BATCHES_AHEAD = 2


class HostProbe(InputProbe):
    """An `InputProbe` whose batches are NumPy arrays. In its `with` block, a thread reads them."""

    def __init__(self, source: str, stuck_seconds: float = 300.0):
        self._source = source
        self._stuck_seconds = stuck_seconds
        self._num_requested = 0
        self._totals = dict.fromkeys(self.SUMS, 0.0)

    def measure(self, dataset: tf.data.Dataset, num_batches: int) -> keras.utils.PyDataset:
        """Returns the first batches of the dataset for one `fit`, and counts them when a step takes them."""
        self._dataset = dataset
        return _Batches(self, num_batches)

    def sums(self) -> dict[str, float]:
        return self._totals

    def pending_batch(self) -> int | None:
        num_received, num_requested = self._totals["batches"], self._num_requested
        return num_requested if num_requested > num_received else None

    def next_batch(self) -> Mapping[str, np.ndarray]:
        """Waits for the next batch and returns it, or raises the exception of the thread."""
        self._num_requested += 1
        start = time.monotonic()
        batch = self._queue.get()
        if isinstance(batch, Exception):
            raise batch
        waited = time.monotonic() - start
        amounts = dict(zip(self.SUMS, (1, waited, *_tokens_of(batch)), strict=True))
        # A new dictionary, so that other threads see either all numbers of a batch or none.
        self._totals = {name: total + amounts[name] for name, total in self._totals.items()}
        return batch

    def __enter__(self):
        self._queue: queue.Queue = queue.Queue(_BATCHES_AHEAD)
        self._reader = threading.Thread(target=self._read, daemon=True)
        super().__enter__()
        self._reader.start()
        return self

    def __exit__(self, *error):
        super().__exit__(*error)
        # It may wait for a batch that never comes; then it ends with the process.
        self._reader.join(timeout=1.0)

    def _read(self) -> None:
        try:
            for batch in self._dataset.as_numpy_iterator():
                if not self._put(batch):
                    return
        except Exception as error:  # reported by the step that waits for this batch
            self._put(error)

    def _put(self, batch: Any) -> bool:
        """Returns whether the batch could be put into the queue before the `with` block ended."""
        while not self._is_done.is_set():
            try:
                self._queue.put(batch, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False


class _Batches(keras.utils.PyDataset):
    """What Keras reads. It asks for the batches in their order."""

    gives_features = True  # see `listed_texts`

    def __init__(self, probe: HostProbe, num_batches: int):
        super().__init__()
        self._probe = probe
        self._num_batches = num_batches

    def __len__(self):
        return self._num_batches

    def __getitem__(self, number: int):
        return self._probe.next_batch()


def _tokens_of(batch: Mapping[str, np.ndarray]) -> tuple[int, int, int]:
    """Returns the tokens of a batch, the pairs that attend to each other, and the predictions."""
    mask = batch.get(features.INPUT_MASK)
    if mask is None:
        return 0, 0, 0
    tokens = int(np.count_nonzero(mask))
    predictions = int(np.count_nonzero(batch.get(features.MASKED_LM_WEIGHTS, 0)))
    return tokens, tokens * mask.shape[-1], predictions
