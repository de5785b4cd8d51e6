"""Saves checkpoints while a model trains: regularly, after SIGTERM, and if a batch does not come."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable

import keras

from keras_bert.accelerate.backend import numpy_of
from keras_bert.program.errors import InputError
from keras_bert.training.callbacks import StepCallback
from keras_bert.training.input_probe import InputProbe
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.strategies import any_worker

# The exit code of a program that SIGTERM has ended, 128 + 15. Schedulers that see it start the program again.
SIGTERM_EXIT_CODE = 143


class SaveCheckpoints(StepCallback):
    """Saves a checkpoint every `save_checkpoints_steps` updates and after the last.

    A checkpoint that cannot be written is reported on standard error, and training goes on: the disk may have space
    again when the next one is due.

    Raises:
        InputError: the last checkpoint cannot be written.
    """

    def __init__(self, folder: RunFolder, start_step: int, num_train_steps: int, save_checkpoints_steps: int):
        super().__init__(folder, start_step, num_train_steps)
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
    """Restores the current values of the metrics after `fit` has reset them at its start.

    So the first line that a resumed run logs is the mean of all updates since the last line, including those before
    the resume.
    """

    def __init__(self, model):
        super().__init__()
        self._values = [numpy_of(variable) for variable in model.metrics_variables]

    def on_epoch_begin(self, epoch, logs=None):
        for variable, value in zip(self.model.metrics_variables, self._values, strict=True):
            variable.assign(value)


class SigtermListener:
    """Records SIGTERM in its `with` block instead of ending the process. A second SIGTERM acts as usual.

    Python handles signals in the main thread only, so in other threads this does nothing. The main thread handles a
    signal when its current operation returns. An operation that waits for a batch may never return, so a second thread
    is told about SIGTERM too.

    Args:
        on_sigterm: called again and again by the second thread after SIGTERM. None: there is no second thread.
    """

    def __init__(self, on_sigterm: Callable[[], None] | None):
        self.is_received = False  # whether SIGTERM has come
        self._on_sigterm = on_sigterm
        self._thread = None

    def __enter__(self):
        self._is_listening = threading.current_thread() is threading.main_thread()
        if self._is_listening:
            self._previous_handler = signal.signal(signal.SIGTERM, self._handle)
            if self._on_sigterm is not None:
                self._start_thread()
        return self

    def __exit__(self, *error):
        if self._thread is not None:
            self._is_done.set()
            signal.set_wakeup_fd(self._previous_wakeup_fd)
            self._sender.close()
            self._thread.join()
            self._receiver.close()
        if self._is_listening:
            signal.signal(signal.SIGTERM, self._previous_handler)

    def _handle(self, number, frame):
        self.is_received = True
        signal.signal(signal.SIGTERM, self._previous_handler)

    def _start_thread(self) -> None:
        # Python writes the number of every signal to this socket at once, even if the main thread is busy.
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        self._previous_wakeup_fd = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while (number := self._receiver.recv(1)) != bytes([signal.SIGTERM]):
            if not number:  # the socket is closed: the block has ended
                return
        while not self._is_done.wait(0.25):
            self._on_sigterm()


class ExitWhileWaiting:
    """Saves a checkpoint of the last finished step and ends the process if a batch does not come.

    Call it from a second thread, see `SigtermListener`. It acts only if training waits for the same batch at two calls
    in a row. If the batch comes, `StopAfterSigterm` ends the run instead. While training waits, nothing changes the
    model, provided that an execution is one step.

    The process ends at once with `SIGTERM_EXIT_CODE`, because the waiting thread cannot be stopped. `probe` knows which
    batch training waits for, and `counter` the last finished step.
    """

    def __init__(self, folder: RunFolder, model, probe: InputProbe, counter: StepCallback):
        self._folder, self._model, self._probe, self._counter = folder, model, probe, counter
        self._batch = None

    def __call__(self) -> None:
        batch, step = self._probe.pending_batch(), self._counter.step
        is_stuck, self._batch = batch is not None and batch == self._batch, batch
        if not is_stuck:
            return
        try:
            if step and not self._folder.save_checkpoint(
                self._model, step, lambda: self._probe.pending_batch() == batch
            ):
                return  # the batch came in the meantime
        except (InputError, OSError) as error:
            print(f"\nerror: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        print_sigterm(step)
        os._exit(SIGTERM_EXIT_CODE)


def print_sigterm(step: int) -> None:
    print(f"\nStopped by SIGTERM. The same command goes on from step {step}.", flush=True)


class StopAfterSigterm(StepCallback):
    """Saves a checkpoint and ends training after the step in which SIGTERM came.

    Raises:
        InputError: the checkpoint cannot be written.
    """

    def __init__(self, folder: RunFolder, start_step: int, num_train_steps: int, listener: SigtermListener):
        super().__init__(folder, start_step, num_train_steps)
        self._listener = listener

    def on_steps(self, previous, logs):
        if any_worker(self._listener.is_received):
            self._listener.is_received = True
            self._folder.save_checkpoint(self.model, self.step)
            self.model.stop_training = True
