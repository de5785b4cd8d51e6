"""Checkpoints while a model trains: when they are due, when they cannot be written, and when SIGTERM comes."""

import signal
import sys
import threading

import keras

from keras_bert.errors import InputError
from keras_bert.training.callbacks import StepCallback
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.strategies import is_any

# What a shell reports for a program that SIGTERM ended: 128 + 15. Schedulers know it, and start the program again.
SIGTERM_EXIT_CODE = 143


class SaveCheckpoints(StepCallback):
    """Saves a checkpoint every `save_checkpoints_steps` updates and after the last.

    One that cannot be written is said on standard error, and training goes on: the disk may have space again when the
    next is due.

    Raises:
        InputError: the last one cannot be written.
    """

    def __init__(self, folder: RunFolder, start_step: int, num_train_steps: int, save_checkpoints_steps: int):
        super().__init__(start_step, num_train_steps)
        self._folder = folder
        self._save_checkpoints_steps = save_checkpoints_steps

    def on_steps(self, previous, logs):
        if not self._is_due(previous, self._save_checkpoints_steps):
            return
        try:
            self._folder.save_checkpoint(self.model, self.step)
        except (InputError, OSError) as error:
            if self.step == self._num_train_steps:
                raise InputError(f"The training is done, but its last checkpoint is not saved. {error}") from None
            every = self._save_checkpoints_steps
            print(
                f"\nThe checkpoint of step {self.step} is not saved. {str(error).rstrip('.')}. Training goes on; the "
                f"next is due at step {min((self.step // every + 1) * every, self._num_train_steps)}.",
                file=sys.stderr,
            )


class ContinueMetrics(keras.callbacks.Callback):
    """Gives the metrics what they hold now back when training has begun: `fit` begins by resetting them.

    So the first line that a resumed run logs is the mean of all updates since the line before, made after the resume
    or before.
    """

    def __init__(self, model):
        super().__init__()
        self._values = [variable.value.numpy() for variable in model.metrics_variables]

    def on_epoch_begin(self, epoch, logs=None):
        for variable, value in zip(self.model.metrics_variables, self._values, strict=True):
            variable.assign(value)


class SigtermListener:
    """Notes SIGTERM instead of dying of it, as long as its `with` block lasts; a second one is what it was before.

    Python lets the main thread alone handle signals: in others nothing changes.

    Attributes:
        has_heard: whether SIGTERM came.
    """

    def __init__(self):
        self.has_heard = False

    def __enter__(self):
        self._is_listening = threading.current_thread() is threading.main_thread()
        if self._is_listening:
            self._before = signal.signal(signal.SIGTERM, self._hear)
        return self

    def __exit__(self, *error):
        if self._is_listening:
            signal.signal(signal.SIGTERM, self._before)

    def _hear(self, number, frame):
        self.has_heard = True
        signal.signal(signal.SIGTERM, self._before)


class StopAfterSigterm(StepCallback):
    """Saves a checkpoint and ends training after the step in which SIGTERM came.

    Raises:
        InputError: the checkpoint cannot be written.
    """

    def __init__(self, folder: RunFolder, start_step: int, num_train_steps: int, listener: SigtermListener):
        super().__init__(start_step, num_train_steps)
        self._folder = folder
        self._listener = listener

    def on_steps(self, previous, logs):
        if is_any(self._listener.has_heard):  # in which worker it may be
            self._listener.has_heard = True
            self._folder.save_checkpoint(self.model, self.step)
            self.model.stop_training = True
