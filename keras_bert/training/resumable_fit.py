"""`model.fit` that continues an interrupted run."""

import contextlib
import sys
from collections.abc import Callable

import keras
import tensorflow as tf

from keras_bert.accelerate.backend import on_tensorflow
from keras_bert.program.errors import InputError
from keras_bert.training.callbacks import ProgressLine, StopWhenNotFinite, TrainingLog, draw_learning_curves
from keras_bert.training.checkpointing import (
    SIGTERM_EXIT_CODE,
    ContinueMetrics,
    ExitWhileWaiting,
    SaveCheckpoints,
    SigtermListener,
    StopAfterSigterm,
    print_sigterm,
)
from keras_bert.training.evaluations import Evaluations
from keras_bert.training.gradient_norm import GradientNorm
from keras_bert.training.host_batches import HostProbe
from keras_bert.training.input_probe import InputProbe
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.run_options import RunOptions
from keras_bert.training.strategies import is_chief
from keras_bert.training.tensorboard_log import TensorBoardLog

# A run is logged at least this many times, and at least every hundred updates, as often as Google's Estimator did.
_MIN_LOG_LINES = 50
_MAX_LOG_STEPS = 100
# Compiling a step takes as long as some dozens of steps.
MIN_STEPS_FOR_XLA = 200


def resumable_fit(
    model,
    make_dataset: Callable,
    folder: RunFolder,
    options: RunOptions,
    *,
    num_train_steps: int,
    batch_size: int,
    source: str = "the examples",
    stuck_input_seconds: float = 300.0,
    evaluations: Evaluations | None = None,
    first_callbacks=(),
) -> None:
    """Trains a compiled model up to `num_train_steps` updates, from the newest checkpoint of `folder`.

    Args:
        make_dataset: takes the number of updates made so far and returns the endless batches that follow.
        options: the options of the run. Its callbacks are called after the checkpoint of a step is saved.
        num_train_steps: the number of updates of the whole run.
        batch_size: examples per update.
        source: the origin of the batches, for the report about a missing batch.
        stuck_input_seconds: the wait for a batch, in seconds, after which it is reported on standard error.
        evaluations: evaluates the model while it trains, before the checkpoint of a step is saved.
        first_callbacks: further Keras callbacks that are called before the checkpoint of a step is saved.

    Raises:
        InputError: all checkpoints are damaged, the loss is not a number, or the last checkpoint cannot be written.
        SystemExit: SIGTERM came, which announces that a machine will be taken away. The step is finished and its
            checkpoint saved; the code is `SIGTERM_EXIT_CODE`. For a step that waits for a batch see `ExitWhileWaiting`.
    """
    start_step = folder.restore_checkpoint(model)
    if start_step:
        print(f"{folder.path}: going on from step {start_step} of {num_train_steps}")
    if start_step >= num_train_steps:
        return
    probe = _input_probe(model, source, stuck_input_seconds)
    run = (folder, start_step, num_train_steps)
    metrics = TensorBoardLog(folder.path) if options.tensorboard and is_chief() else None
    if evaluations:
        evaluations.tensorboard = metrics
    log_steps = max(1, min(_MAX_LOG_STEPS, num_train_steps // _MIN_LOG_LINES))
    with model.distribute_strategy.scope() if on_tensorflow() else contextlib.nullcontext():
        norm = GradientNorm.of(model.optimizer)
    log = TrainingLog(*run, batch_size, log_steps, norm, metrics, probe)
    # Only with one step per execution is the model unchanged while a batch is awaited.
    listener = SigtermListener(
        ExitWhileWaiting(folder, model, probe, log) if probe and model.steps_per_execution == 1 else None
    )
    all_callbacks = [
        ContinueMetrics(model),
        # Before the checkpoint, so that weights that are not numbers are never saved.
        StopWhenNotFinite(*run, make_dataset),
        *([ProgressLine(*run, batch_size, log)] if is_chief() else []),
        log,
        *([evaluations] if evaluations else []),
        *first_callbacks,
        SaveCheckpoints(*run, options.save_checkpoints_steps),
        StopAfterSigterm(*run, listener),
        *options.callbacks,
    ]
    # The end of the dataset ends the run. Keras would round steps_per_epoch up to a multiple of steps_per_execution.
    num_steps = num_train_steps - start_step
    batches = _measured(model, make_dataset(start_step).take(num_steps), probe, num_steps)
    with contextlib.closing(metrics) if metrics else contextlib.nullcontext():
        _fit_until_stopped(model, batches, all_callbacks, folder, listener, probe)
    if is_chief():
        try:
            draw_learning_curves(folder.file("learning_curves.png"), folder.path)
        except (InputError, OSError) as error:
            print(f"The learning curves are not drawn. {error}", file=sys.stderr)


def _input_probe(model, source: str, stuck_input_seconds: float) -> InputProbe | None:
    """Returns what counts the batches; None with several devices, where TensorFlow divides the batches of a step."""
    if not on_tensorflow():
        return HostProbe(source, stuck_input_seconds)
    has_one_device = model.distribute_strategy.num_replicas_in_sync == 1
    return InputProbe(source, stuck_input_seconds) if has_one_device else None


def _fit_until_stopped(model, batches, callbacks, folder: RunFolder, listener, probe: InputProbe | None) -> None:
    """Trains on all batches. After Ctrl-C or SIGTERM it prints the step from which the same command will continue."""
    try:
        with listener, probe or contextlib.nullcontext():
            model.fit(batches, callbacks=callbacks, shuffle=False, verbose=0)
    except KeyboardInterrupt:
        print(f"\nStopped. The same command goes on from step {folder.latest_step()}.")
        raise
    if listener.is_received:
        print_sigterm(folder.latest_step())
        raise SystemExit(SIGTERM_EXIT_CODE)


def _measured(model, batches, probe: InputProbe | None, num_batches: int):
    """Returns the same batches, counted by the probe when a step takes them."""
    if probe is None:
        return batches
    if isinstance(probe, HostProbe):
        return probe.measure(batches, num_batches)
    # Without this option, a strategy with one device prefetches, and the probe would count batches before their step.
    options = tf.distribute.InputOptions(experimental_per_replica_buffer_size=0)
    return model.distribute_strategy.experimental_distribute_dataset(probe.measure(batches), options)


def compile_for_training(model, optimizer: keras.optimizers.Optimizer, options: RunOptions, *, with_xla: bool) -> None:
    """Compiles a task model, which has its own loss and metrics.

    Compiling with XLA takes seconds for every shape of batch. On JAX, XLA always compiles the step.
    """
    model.compile(
        optimizer=optimizer,
        steps_per_execution=options.steps_per_execution,
        gradient_accumulation_steps=options.gradient_accumulation_steps,
        gradient_checkpointing=options.gradient_checkpointing,
        # On JAX, False would run each operation of the step by itself.
        jit_compile=with_xla if on_tensorflow() else "auto",
    )
