"""Stops a run when the loss is not a number, and saves the batch."""

import math
from collections.abc import Callable

import numpy as np

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.training.callbacks import StepCallback
from keras_bert.training.run_folder import RunFolder


class StopWhenNotFinite(StepCallback):
    """Ends a run when the loss is infinite or NaN, and writes the batch to `batch_of_step_N.npz`.

    If an execution has several updates, all their batches are written.

    Args:
        folder: the folder of the run.
        start_step, num_train_steps: as in `StepCallback`.
        make_dataset: as in `resumable_fit`. It reads the batch again.

    Raises:
        InputError: the loss is infinite or NaN.
    """

    def __init__(self, folder: RunFolder, start_step: int, num_train_steps: int, make_dataset: Callable):
        super().__init__(start_step, num_train_steps)
        self._folder = folder
        self._make_dataset = make_dataset

    def on_steps(self, previous, logs):
        if math.isfinite(logs["loss"]):
            return
        paths = []
        for step, batch in enumerate(self._make_dataset(previous).take(self.step - previous), start=previous + 1):
            arrays = {name: values.numpy() for name, values in batch.items()}
            paths.append(self._folder.file(f"batch_of_step_{step}.npz"))
            with atomic_file(paths[-1]) as file:
                np.savez(file, **arrays)
        raise InputError(
            f"The loss is {logs['loss']} at step {self.step}. Use a lower learning_rate, or a longer warm-up. The "
            f"batch is in {', '.join(paths)}; the newest checkpoint is that of step {self._folder.latest_step()}."
        )
