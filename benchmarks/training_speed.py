"""Measures a step of pre-training beside other engines.

    python -m benchmarks.training_speed --size=minilm --lengths=128,512

The step: masked LM and next sentence on a random batch of full rows, dropout 0.1, gradients clipped by their
norm, AdamW, on all cores. Every side runs the code that its users run:

* ours: the function that `fit` runs for a batch of `BertPretrainer`.
* ours_jax: `fit` on Keras' JAX backend, which always compiles with XLA.
* keras_hub: the same function of `BertMaskedLM`, which has no next-sentence head and so computes a little less.
* transformers: `BertForPreTraining` on torch with its own loss, which scores the vocabulary at every token.
* "XLA" after a name: Keras' jit_compile=True, which is the default of `keras.Model.compile`.

All run on a GPU if they find one; all but keras_hub have --dtype=bfloat16.

Sides are processes that take turns of --steps steps; the first turn is not counted. A cell has the milliseconds of a
step, the median over the turns. A ratio is a side's time to the first side's, turn by turn: median, smallest and
largest. Memory is the largest resident set of the process, with libraries. GPU memory is the peak of
the tensors, without CUDA's libraries, and 0 without a GPU.
"""

import contextlib
import dataclasses
import os
import statistics
import sys
import tempfile

from absl import flags

from benchmarks.encoder_sides import config_of_size, write_model
from benchmarks.suite_flags import define_suite_flags, machine_lines, numbers_of_flag, sides_of_flag, version_lines
from benchmarks.tables import ratio_of, table_lines
from benchmarks.training_sides import TrainingSide, Work, running_side
from keras_bert import registry
from keras_bert.config import SIZES
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS
TRAINING_SIDES = {
    "ours": TrainingSide("keras_bert_training", has_dtypes=True),
    "ours, XLA": TrainingSide("keras_bert_training", xla=1, has_dtypes=True),
    "ours_jax": TrainingSide("keras_bert_training_on_jax", "jax", has_dtypes=True),
    "keras_hub": TrainingSide("keras_hub_training", "keras_hub"),
    "keras_hub, XLA": TrainingSide("keras_hub_training", "keras_hub", xla=1),
    "transformers": TrainingSide("transformers_training", "torch", has_dtypes=True),
}
COLUMNS = ["size", "rows x length", "side", "ms a step", "times the first", "tokens/s", "memory, MB", "GPU memory, MB"]


def define_flags() -> None:
    define_suite_flags(turns=4)
    flags.DEFINE_enum("size", "minilm", ["smoke", "minilm", *SIZES, *registry.FAMILIES], "The model.")
    flags.DEFINE_list("lengths", ["128", "512"], "Tokens of a row.")
    flags.DEFINE_enum("dtype", "float32", ["float32", "bfloat16"], "What sides compute in; others are left out.")
    flags.DEFINE_integer("tokens", 2048, "Tokens of a batch.", lower_bound=16)
    flags.DEFINE_integer("steps", 2, "Steps of a turn.", lower_bound=1)


def main() -> None:
    longest = config_of_size(FLAGS.size).max_sequence_length
    lengths, size, turns = numbers_of_flag("lengths", 8, longest), FLAGS.size, FLAGS.turns
    names = sides_of_flag(TRAINING_SIDES, quick=["ours"])
    if FLAGS.quick:
        lengths, size, turns = [16], "smoke", 1
    rows, left_out, versions = [], {}, {}
    for length in lengths:
        print(f"{size}, rows of {length}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
            work = Work(config_of_size(size), max(1, FLAGS.tokens // length), length, FLAGS.steps, dtype=FLAGS.dtype)
            if work.config.model_type != "bert":
                work = dataclasses.replace(work, folder=os.path.join(folder, "model"))
                write_model(work.folder, work.config)
            rows += table_rows(size, work, measure(work, names, turns, versions, left_out))
    lines = [*machine_lines(), *version_lines(versions, left_out), "", *table_lines(COLUMNS, rows)]
    print("\n".join(lines), flush=True)


def measure(work: Work, names, turns: int, versions: dict, left_out: dict) -> dict[str, tuple]:
    """Returns side -> (seconds of a step in every turn, peak memory, that of the GPU); notes versions and reasons."""
    sides, found = {}, {}
    with contextlib.ExitStack() as running:
        for name in names:
            try:
                sides[name] = running.enter_context(running_side(TRAINING_SIDES[name], work, FLAGS.environments))
                versions[name] = sides[name].about
                sides[name].seconds_of_a_step()
                found[name] = []
            except InputError as error:
                left_out[name] = str(error)
        if not found:
            raise InputError(
                f"No side can be measured: {'; '.join(f'{name}: {why}' for name, why in left_out.items())}"
            )
        order = list(found)
        for number in range(turns):
            for name in order[number % len(order) :] + order[: number % len(order)]:
                found[name].append(sides[name].seconds_of_a_step())
        return {name: (seconds, sides[name].memory("VmHWM"), sides[name].gpu_memory) for name, seconds in found.items()}


def table_rows(size: str, work: Work, measured: dict[str, tuple]) -> list[list[str]]:
    """Returns the rows of one length; `measured` is the result of `measure`."""
    rows = []
    for name, (seconds, memory, gpu_memory) in measured.items():
        step = statistics.median(seconds)
        first = next(iter(measured))
        ratio = ratio_of(seconds, measured[first][0]) if name != first else "-"
        milliseconds = f"{1000 * step:.0f}" if step >= 0.1 else f"{1000 * step:.3g}"
        speed = f"{work.rows * work.length / step:,.0f}"
        memories = [f"{memory / 1e6:,.0f}", f"{gpu_memory / 1e6:,.0f}"]
        rows.append([size, f"{work.rows} x {work.length}", name, milliseconds, ratio, speed, *memories])
    return rows


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
