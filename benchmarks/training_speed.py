"""Measures a step of pre-training beside other engines.

    python -m benchmarks.training_speed --size=minilm --lengths=128,512

The step: masked LM and next sentence on a random batch of full rows in float32, dropout 0.1, gradients clipped by their
norm, AdamW, on all cores. Every side runs the code that its users run:

* ours: the function that `fit` runs for a batch of `BertPretrainer`.
* keras_hub: the same function of `BertMaskedLM`, which has no next-sentence head and so computes a little less.
* transformers: `BertForPreTraining` on torch with its own loss, which scores the vocabulary at every token.
* "XLA" after a name: Keras' jit_compile=True, which is the default of `keras.Model.compile`.

Sides are processes that take turns of --steps steps; the first turn is not counted. A cell has the milliseconds of a
step, the median over the turns. A ratio is a side's time to ours without XLA, turn by turn: median, smallest and
largest. Memory is the largest resident set of the process, with libraries.
"""

import contextlib
import json
import os
import statistics
import sys
import tempfile

from absl import flags

from benchmarks.encoder_sides import config_of_size, environment_of_sides, python_of, write_model
from benchmarks.sides.pretraining_work import num_predictions
from benchmarks.suite_flags import define_suite_flags, machine_lines, numbers_of_flag, version_lines
from benchmarks.workers_in_turns import end_workers, start_worker, take_turn
from keras_bert.config import SIZES
from keras_bert.families import FAMILIES
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS
# side -> (module of benchmarks.sides, environment, XLA)
TRAINING_SIDES = {
    "ours": ("keras_bert_training", "", 0),
    "ours, XLA": ("keras_bert_training", "", 1),
    "keras_hub": ("keras_hub_training", "keras_hub", 0),
    "keras_hub, XLA": ("keras_hub_training", "keras_hub", 1),
    "transformers": ("transformers_training", "torch", 0),
}
QUICK_SIDES = ("ours",)


def define_flags() -> None:
    define_suite_flags(turns=4)
    flags.DEFINE_enum("size", "minilm", ["smoke", "minilm", *SIZES, *FAMILIES], "The model.")
    flags.DEFINE_list("lengths", ["128", "512"], "Tokens of a row.")
    flags.DEFINE_integer("tokens", 2048, "Tokens of a batch.", lower_bound=16)
    flags.DEFINE_integer("steps", 2, "Steps of a turn.", lower_bound=1)


def main() -> None:
    lengths, size, names, turns = numbers_of_flag("lengths", 8, 512), FLAGS.size, FLAGS.sides, FLAGS.turns
    if FLAGS.quick:
        lengths, size, names, turns = [16], "smoke", names or QUICK_SIDES, 1
    unknown = [name for name in names or () if name not in TRAINING_SIDES]
    if unknown:
        raise InputError(f"--sides: there is no {', '.join(unknown)}. There are: {', '.join(TRAINING_SIDES)}")
    lines, left_out, versions, measured = [], {}, {}, {}
    for length in lengths:
        print(f"{size}, rows of {length}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
            sides = names or TRAINING_SIDES
            measured[length] = measure(config_of_size(size), length, sides, turns, versions, left_out, folder)
        lines += table(size, batch_size_of(length), length, measured[length])
    print("\n".join([*machine_lines(), *version_lines(versions, left_out), "", *HEADER, *lines]), flush=True)


def batch_size_of(length: int) -> int:
    return max(1, FLAGS.tokens // length)


HEADER = [
    "| size | rows x length | side | ms a step | times ours | tokens/s | memory, MB |",
    "|---|---|---|---|---|---|---|",
]


def measure(config, length: int, names, turns: int, versions: dict, left_out: dict, folder: str) -> dict[str, tuple]:
    """Returns side -> (seconds of a step in every turn, peak memory in bytes); notes versions and reasons."""
    arguments = {"config": json.dumps(config.to_dict()), "batch_size": batch_size_of(length)}
    arguments |= {"length": length, "predictions": num_predictions(length), "steps": FLAGS.steps}
    if config.model_type != "bert":
        arguments["folder"] = os.path.join(folder, "model")
        write_model(arguments["folder"], config)
    workers, found = {}, {}
    with contextlib.ExitStack() as files:
        try:
            for name in names:
                module, environment, xla = TRAINING_SIDES[name]
                said = files.enter_context(tempfile.TemporaryFile("w+"))
                try:
                    python = python_of(environment, FLAGS.environments)
                    own = arguments | {"xla": xla}
                    workers[name] = start_worker(
                        python, f"benchmarks.sides.{module}", own, environment_of_sides(), said
                    )
                    versions[name] = take_turn(workers[name])["side"]
                    take_turn(workers[name], "train")
                    found[name] = []
                except InputError as error:
                    said.seek(0)
                    left_out[name] = ([line.strip() for line in said if line.strip()] or [str(error)])[-1]
            order = list(found)
            for number in range(turns):
                for name in order[number % len(order) :] + order[: number % len(order)]:
                    found[name].append(take_turn(workers[name], "train")["seconds"] / FLAGS.steps)
            return {name: (seconds, peak_memory(workers[name].pid)) for name, seconds in found.items()}
        finally:
            end_workers(list(workers.values()))


def peak_memory(pid: int) -> int:
    """Returns the largest resident set of a process so far, in bytes; 0 if the system does not report it."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return 0


def table(size: str, rows: int, length: int, measured: dict[str, tuple]) -> list[str]:
    """Returns the lines of the table of one length; `measured` is the result of `measure`."""
    lines = []
    for name, (seconds, memory) in measured.items():
        step = statistics.median(seconds)
        ratio = "-"
        if "ours" in measured and name != "ours":
            ratios = [other / own for other, own in zip(seconds, measured["ours"][0], strict=True)]
            ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        cells = [size, f"{rows} x {length}", name, f"{1000 * step:.0f}", ratio, f"{rows * length / step:,.0f}"]
        lines.append(f"| {' | '.join([*cells, f'{memory / 1e6:,.0f}' if memory else '-'])} |")
    return lines


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
