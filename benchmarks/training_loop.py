"""What `fit` costs beside the step itself: masked LM + next sentence, one process, one device, sides that take turns.

    python -m benchmarks.training_loop --size=mini --batch_size=32 --length=128

* bare: a `tf.function` written by hand over batches that are in memory: forward with dropout, loss, gradients,
  clipping, AdamW, and the metrics' terms (not with --nobare_metrics); no callbacks, no input.
* fit: `model.fit` on `pretraining_dataset`, which reads, mixes and parses records; and the same with several steps in
  an execution.
* run: what `run_pretraining` does: `resumable_fit`, with the progress line, the log, the watch for SIGTERM and for
  losses that are not numbers.

A turn is some steps of one side; the first execution of a turn is not counted, and so is not what `fit` does once. The
order of the sides changes from turn to turn. The table has medians over the turns: milliseconds of a step, how much
longer that is than bare, turn by turn, and the share of the time in which the step waited for its batch.
"""

import contextlib
import io
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
from absl import flags

from benchmarks.gpu_core_work import random_batch
from keras_bert.config import SIZES, BertConfig
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.optimization import AdamW
from keras_bert.program.command_line import run_command
from keras_bert.records import features
from keras_bert.records.datasets import pretraining_dataset
from keras_bert.records.encoding import encode_tfrecords
from keras_bert.training.input_probe import InputProbe
from keras_bert.training.resumable_fit import compile_for_training, resumable_fit
from keras_bert.training.run_folder import RunFolder

FLAGS = flags.FLAGS
VOCAB_SIZE = 30522  # of Google's uncased models
NUM_BATCHES = 16  # in the records, and in memory
# As many as a run has that logs every hundredth step.
STEPS_OF_A_LONG_RUN = 10_000


def define_flags() -> None:
    flags.DEFINE_enum("size", "mini", list(SIZES), "The model.")
    flags.DEFINE_integer("batch_size", 32, "Rows of a batch.", lower_bound=1)
    flags.DEFINE_integer("length", 128, "Tokens of a row.", lower_bound=8, upper_bound=512)
    flags.DEFINE_integer("vocab_size", VOCAB_SIZE, "Rows of the embeddings.", lower_bound=10)
    flags.DEFINE_integer("steps", 20, "Counted steps of a turn.", lower_bound=1)
    flags.DEFINE_integer("turns", 12, "Turns of each side that are counted.", lower_bound=1)
    flags.DEFINE_integer("steps_per_execution", 10, "Of the side that has several.", lower_bound=2)
    flags.DEFINE_boolean("bare_metrics", True, "Let the bare step compute the accuracies, too.")
    flags.DEFINE_boolean("xla", False, "Compile the steps of all sides with XLA.")


def main() -> None:
    config = BertConfig.from_size(FLAGS.size, vocab_size=FLAGS.vocab_size)
    predictions = max(1, round(0.15 * FLAGS.length))
    rows = random_batch(FLAGS.batch_size * NUM_BATCHES, FLAGS.length, predictions, config.vocab_size)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/records.tfrecord"
        with open(path, "wb") as file:
            file.write(encode_tfrecords(rows, features.pretraining_features(FLAGS.length, predictions)))

        def dataset(start_step: int = 0) -> tf.data.Dataset:
            return pretraining_dataset(path, FLAGS.batch_size, config=config, start_step=start_step)

        several = f"fit, {FLAGS.steps_per_execution} steps an execution"
        sides = {
            "bare": bare_side(config, rows),
            "fit": fit_side(config, dataset),
            several: fit_side(config, dataset, FLAGS.steps_per_execution),
            "run": run_side(config, dataset, folder),
        }
        turns = {name: [] for name in sides}
        for number in range(-1, FLAGS.turns):  # the first turn compiles
            order = list(sides)
            for name in order[number % len(order) :] + order[: number % len(order)]:
                found = sides[name](FLAGS.steps)
                if number >= 0:
                    turns[name].append(found)
    print("\n".join(table(turns)))


def table(turns: dict[str, list[tuple[float, float | None]]]) -> list[str]:
    """Returns the lines of the table: side -> (seconds of a step, seconds of waiting in it or None) of every turn."""
    lines = ["| side | ms a step | longer than bare | waiting for input |", "|---|---|---|---|"]
    for name, found in turns.items():
        seconds = [taken for taken, _ in found]
        longer = statistics.median(taken / bare - 1 for taken, (bare, _) in zip(seconds, turns["bare"], strict=True))
        waits = [waited / taken for taken, waited in found if waited is not None]
        wait = f"{statistics.median(waits):.2%}" if waits else "-"
        lines.append(f"| {name} | {1000 * statistics.median(seconds):.2f} | {longer:+.1%} | {wait} |")
    return lines


def bare_side(config: BertConfig, rows: dict[str, np.ndarray]) -> Callable[[int], tuple[float, None]]:
    """Returns a function that makes so many steps and returns the seconds of one."""
    model, optimizer = BertPretrainer(config), AdamW(1e-4, bias_correction=False)
    optimizer.build(model.trainable_variables)
    parts = [np.array_split(values, NUM_BATCHES) for values in rows.values()]
    batches = [dict(zip(rows, map(tf.constant, values), strict=True)) for values in zip(*parts, strict=True)]

    @tf.function(jit_compile=FLAGS.xla)
    def step(batch):
        with tf.GradientTape() as tape:
            predictions = model(batch, training=True)
            loss = tf.add_n([term.value for term in model.loss_terms(batch, None, predictions, None)])
        gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
        optimizer.apply(gradients, model.trainable_variables)  # clips by the norm of all
        metrics = model.metric_terms(batch, None, predictions, None) if FLAGS.bare_metrics else []
        return [loss, *(term.value for term in metrics)]

    endless = itertools.cycle(batches)

    def turn(steps):
        step(next(endless))
        start = time.perf_counter()
        for _ in range(steps):
            loss, *_ = step(next(endless))
        float(loss)
        return (time.perf_counter() - start) / steps, None

    return turn


class Clock(keras.callbacks.Callback):
    """Notes when the first execution and the last end, and what the probe has counted; ends training after the last."""

    def __init__(self, executions: int, probe: InputProbe | None = None):
        super().__init__()
        self._executions, self._probe = executions, probe
        self._marks = []

    def on_train_batch_end(self, batch, logs=None):
        waited = self._probe.sums()["wait_seconds"] if self._probe and self._is_first_or_last() else 0.0
        self._marks.append((time.perf_counter(), waited))
        if len(self._marks) > self._executions:
            self.model.stop_training = True

    def _is_first_or_last(self) -> bool:
        return len(self._marks) in (0, self._executions)

    def per_step(self, steps_per_execution: int = 1) -> tuple[float, float]:
        """Returns the seconds of a step, and those of them that it waited."""
        (start, waited_before), (end, waited) = self._marks[0], self._marks[self._executions]
        steps = self._executions * steps_per_execution
        return (end - start) / steps, (waited - waited_before) / steps


def compiled(config: BertConfig, steps_per_execution: int = 1) -> BertPretrainer:
    model = BertPretrainer(config)
    optimizer = AdamW(1e-4, bias_correction=False)
    compile_for_training(model, optimizer, with_xla=FLAGS.xla, steps_per_execution=steps_per_execution)
    return model


def fit_side(config: BertConfig, dataset: Callable, steps_per_execution: int = 1) -> Callable[[int], tuple]:
    model = compiled(config, steps_per_execution)

    def turn(steps):
        probe = InputProbe("the records")
        clock = Clock(max(1, steps // steps_per_execution), probe)
        model.fit(probe.measure(dataset()), steps_per_epoch=STEPS_OF_A_LONG_RUN, callbacks=[clock], verbose=0)
        return clock.per_step(steps_per_execution)

    return turn


def run_side(config: BertConfig, dataset: Callable, folder: str) -> Callable[[int], tuple[float, None]]:
    model = compiled(config)
    numbers = itertools.count()

    def turn(steps):
        clock = Clock(steps)
        with contextlib.redirect_stderr(io.StringIO()):  # the progress line
            resumable_fit(
                model,
                dataset,
                RunFolder(f"{folder}/run-{next(numbers)}", {}),
                num_train_steps=STEPS_OF_A_LONG_RUN,
                batch_size=FLAGS.batch_size,
                save_checkpoints_steps=STEPS_OF_A_LONG_RUN,
                extra_callbacks=[clock],
            )
        return clock.per_step()[0], None

    return turn


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
