"""Checkpoints while a model trains: when they are due, when they cannot be written, and when SIGTERM comes."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable

import keras

from keras_bert.program.errors import InputError
from keras_bert.training.callbacks import StepCallback
from keras_bert.training.input_probe import InputProbe
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

    Python lets the main thread alone handle signals: in others nothing changes. That thread does so when the operation
    that it is in returns, and one that waits for a batch may never return; so another thread is told of SIGTERM too.

    Args:
        on_sigterm: called in that thread again and again from SIGTERM on; None: there is no such thread.

    Attributes:
        has_heard: whether SIGTERM came.
    """

    def __init__(self, on_sigterm: Callable[[], None] | None = None):
        self.has_heard = False
        self._on_sigterm = on_sigterm
        self._thread = None

    def __enter__(self):
        self._is_listening = threading.current_thread() is threading.main_thread()
        if self._is_listening:
            self._before = signal.signal(signal.SIGTERM, self._hear)
            if self._on_sigterm is not None:
                self._start_thread()
        return self

    def __exit__(self, *error):
        if self._thread is not None:
            self._is_done.set()
            signal.set_wakeup_fd(self._wakeup_before)
            self._told.close()
            self._thread.join()
            self._listening.close()
        if self._is_listening:
            signal.signal(signal.SIGTERM, self._before)

    def _hear(self, number, frame):
        self.has_heard = True
        signal.signal(signal.SIGTERM, self._before)

    def _start_thread(self) -> None:
        # Python writes the number of every signal here at once, whatever the main thread does.
        self._listening, self._told = socket.socketpair()
        self._told.setblocking(False)
        self._wakeup_before = signal.set_wakeup_fd(self._told.fileno(), warn_on_full_buffer=False)
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while (number := self._listening.recv(1)) != bytes([signal.SIGTERM]):
            if not number:  # closed: the block has ended
                return
        while not self._is_done.wait(0.25):
            self._on_sigterm()


class LeaveWhileWaiting:
    """Saves a checkpoint of the last finished step and ends the process, when a batch does not come.

    It is called in another thread than that which trains, see `SigtermListener`, and does nothing until the same batch
    is waited for at two calls in a row: a batch that comes ends the run as `StopAfterSigterm` says. While it is waited
    for, nothing changes the model, as long as an execution is one step.

    The process ends at once with `SIGTERM_EXIT_CODE`: the thread that waits cannot be told to stop.

    Args:
        model: the model that is trained.
        counter: a callback that knows the last finished step.
    """

    def __init__(self, folder: RunFolder, model, probe: InputProbe, counter: StepCallback):
        self._folder, self._model, self._probe, self._counter = folder, model, probe, counter
        self._batch = None

    def __call__(self) -> None:
        batch, step = self._probe.waited_for(), self._counter.step
        is_stuck, self._batch = batch is not None and batch == self._batch, batch
        if not is_stuck:
            return
        try:
            if step and not self._folder.save_checkpoint(self._model, step, lambda: self._probe.waited_for() == batch):
                return  # the batch came in the meantime
        except (InputError, OSError) as error:
            print(f"\nerror: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        say_stopped(step)
        os._exit(SIGTERM_EXIT_CODE)


def say_stopped(step: int) -> None:
    print(f"\nStopped by SIGTERM. The same command goes on from step {step}.", flush=True)


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
