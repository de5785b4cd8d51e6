"""`model.fit` that goes on where a killed run stopped."""

import contextlib
from collections.abc import Callable

import keras

from keras_bert.program.errors import InputError
from keras_bert.training.callbacks import ProgressLine, TrainingLog
from keras_bert.training.checkpointing import (
    SIGTERM_EXIT_CODE,
    ContinueMetrics,
    LeaveWhileWaiting,
    SaveCheckpoints,
    SigtermListener,
    StopAfterSigterm,
    say_stopped,
)
from keras_bert.training.gradient_norm import GradientNorm
from keras_bert.training.input_probe import InputProbe
from keras_bert.training.non_finite import StopWhenNotFinite
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.strategies import is_chief

# A run is logged at least this many times, and at least every hundred updates, as often as Google's Estimator did.
_MIN_LOG_LINES = 50
_MAX_LOG_STEPS = 100


def resumable_fit(
    model,
    dataset_from: Callable,
    folder: RunFolder,
    *,
    num_train_steps: int,
    batch_size: int,
    save_checkpoints_steps: int,
    tensorboard: bool = False,
    source: str = "the examples",
    stuck_input_seconds: float = 300.0,
    first_callbacks=(),
    extra_callbacks=(),
) -> None:
    """Trains a compiled model up to `num_train_steps` updates, from the newest checkpoint of `folder`.

    Args:
        dataset_from: a function from a step to endless batches, those that a run takes after that many updates.
        source: where the batches come from, in words, for when none comes.
        stuck_input_seconds: after so long a wait for a batch it is said on standard error what is waited for.
        first_callbacks: Keras callbacks whose work for a step is done before its checkpoint is saved.
        extra_callbacks: those that are called after it.

    Raises:
        InputError: all checkpoints are damaged, the loss is not a number, or the last checkpoint cannot be written.
        SystemExit: SIGTERM came, as before a machine is taken away. The step was finished and its checkpoint saved; the
            code is `SIGTERM_EXIT_CODE`. Where the step waits for a batch, see `LeaveWhileWaiting`.
    """
    if save_checkpoints_steps < 1:
        raise InputError(f"save_checkpoints_steps must be at least 1. Received: {save_checkpoints_steps}")
    start_step = folder.restore_checkpoint(model)
    if stuck_input_seconds <= 0:
        raise InputError(f"stuck_input_seconds must be above 0. Received: {stuck_input_seconds}")
    if start_step:
        print(f"{folder.path}: going on from step {start_step} of {num_train_steps}")
    if start_step >= num_train_steps:
        return
    # On several devices TensorFlow rewrites the dataset, and what is handed over is not what one step takes.
    probe = InputProbe(source, stuck_input_seconds) if model.distribute_strategy.num_replicas_in_sync == 1 else None
    steps = (start_step, num_train_steps)
    log = _training_log(model, folder, steps, batch_size, tensorboard and is_chief(), probe)
    listener = _sigterm_listener(model, folder, log, probe)
    callbacks = [
        ContinueMetrics(model),
        # Before the checkpoint: what is not a number must not be saved.
        StopWhenNotFinite(folder, *steps, dataset_from),
        *([ProgressLine(*steps, batch_size, log)] if is_chief() else []),
        log,
        *first_callbacks,
        SaveCheckpoints(folder, *steps, save_checkpoints_steps),
        StopAfterSigterm(folder, *steps, listener),
        *extra_callbacks,
    ]
    # The end of the dataset ends the run: with steps_per_epoch, Keras rounds up to a multiple of steps_per_execution.
    remaining = dataset_from(start_step).take(num_train_steps - start_step)
    _fit_until_stopped(model, remaining, callbacks, folder, listener, probe)


def _fit_until_stopped(model, batches, callbacks, folder: RunFolder, listener, probe: InputProbe | None) -> None:
    """Trains on all batches, and says where the same command goes on when Ctrl-C or SIGTERM comes before their end."""
    try:
        with listener, probe or contextlib.nullcontext():
            model.fit(probe.watch(batches) if probe else batches, callbacks=callbacks, shuffle=False, verbose=0)
    except KeyboardInterrupt:
        print(f"\nStopped. The same command goes on from step {folder.latest_step()}.")
        raise
    if listener.has_heard:
        say_stopped(folder.latest_step())
        raise SystemExit(SIGTERM_EXIT_CODE)


def _training_log(model, folder: RunFolder, steps: tuple[int, int], batch_size: int, tensorboard: bool, probe):
    log_steps = max(1, min(_MAX_LOG_STEPS, steps[1] // _MIN_LOG_LINES))
    with model.distribute_strategy.scope():
        norm = GradientNorm.of(model.optimizer)
    return TrainingLog(folder, *steps, batch_size, log_steps, tensorboard, norm, probe)


def _sigterm_listener(model, folder: RunFolder, log: TrainingLog, probe: InputProbe | None) -> SigtermListener:
    # In an execution of several steps, some may be made when a batch is waited for.
    if probe is None or model.steps_per_execution > 1:
        return SigtermListener()
    return SigtermListener(LeaveWhileWaiting(folder, model, probe, log))


def compile_for_training(
    model,
    optimizer: keras.optimizers.Optimizer,
    *,
    with_xla: bool,
    steps_per_execution: int = 1,
    gradient_accumulation_steps: int = 1,
    gradient_checkpointing: bool = False,
) -> None:
    """Compiles a task model, which brings its own loss and metrics.

    Args:
        with_xla: whether XLA compiles the step, which takes seconds for every shape of batch.
    """
    if steps_per_execution < 1:
        raise InputError(f"iterations_per_loop must be at least 1. Received: {steps_per_execution}")
    model.compile(
        optimizer=optimizer,
        steps_per_execution=steps_per_execution,
        gradient_accumulation_steps=gradient_accumulation_steps,
        gradient_checkpointing=gradient_checkpointing,
        jit_compile=with_xla,
    )
