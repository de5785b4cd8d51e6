"""Measures the memory of a step of pre-training, with and without gradient checkpointing, beside transformers + torch.

    python -m benchmarks.training_memory --size=base --shapes=8x128,2x512

The step and the sides are those of `training_speed`. "recomputed" after a name means gradient checkpointing: only the
input of every layer is kept, and the layer is computed again in the backward pass
(`compile(gradient_checkpointing=True)`, and `gradient_checkpointing_enable()` of transformers).

Every side is a process of its own. The processes run one after the other, because all together would not fit into
memory. Each makes a first step, which compiles, then --steps timed steps. This is repeated --turns times; the table has
the smallest peak and the median time. The peak is the largest resident set of the process, with libraries (VmHWM, Linux
only). "Before the first step" is its value at that time: libraries, weights and, on our side, Adam's two moments, which
torch creates in the first step.
"""

import json
import os
import re
import statistics
import sys
import tempfile

from absl import flags

from benchmarks.encoder_sides import config_of_size, environment_of_sides, python_of
from benchmarks.sides.pretraining_work import num_predictions
from benchmarks.suite_flags import define_suite_flags, machine_lines, version_lines
from benchmarks.workers_in_turns import end_workers, start_worker, take_turn
from keras_bert.config import SIZES
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS
# side -> (module of benchmarks.sides, environment, XLA, gradient checkpointing)
MEMORY_SIDES = {
    "ours": ("keras_bert_training", "", 0, 0),
    "ours, recomputed": ("keras_bert_training", "", 0, 1),
    "ours, XLA": ("keras_bert_training", "", 1, 0),
    "ours, XLA, recomputed": ("keras_bert_training", "", 1, 1),
    "transformers": ("transformers_training", "torch", 0, 0),
    "transformers, recomputed": ("transformers_training", "torch", 0, 1),
}
QUICK_SIDES = ("ours", "ours, recomputed")
HEADER = [
    "| size | rows x length | side | peak, MB | before the first step, MB | peak to ours | ms a step |",
    "|---|---|---|---|---|---|---|",
]


def define_flags() -> None:
    define_suite_flags(turns=1)
    flags.DEFINE_enum("size", "base", ["smoke", "minilm", *SIZES], "The model.")
    flags.DEFINE_list("shapes", ["8x128", "2x512"], "Rows x tokens of a batch.")
    flags.DEFINE_integer("steps", 2, "Steps that are timed.", lower_bound=1)


def main() -> None:
    size, names, shapes = FLAGS.size, FLAGS.sides or list(MEMORY_SIDES), [shape_of(text) for text in FLAGS.shapes]
    if FLAGS.quick:
        size, names, shapes = "smoke", FLAGS.sides or QUICK_SIDES, [(2, 16)]
    unknown = [name for name in names if name not in MEMORY_SIDES]
    if unknown:
        raise InputError(f"--sides: there is no {'; '.join(unknown)}. There are: {'; '.join(MEMORY_SIDES)}")
    versions, left_out, measured = {}, {}, {}
    for rows, length in shapes:
        runs = {name: [] for name in names}
        for _ in range(FLAGS.turns):
            for name in names:
                print(f"{size}, {rows} x {length}, {name}", file=sys.stderr, flush=True)
                try:
                    versions[name], run = measure(config_of_size(size), rows, length, name)
                    runs[name].append(run)
                except InputError as error:
                    left_out[name] = str(error)
        measured[rows, length] = {name: best_of(found) for name, found in runs.items() if found}
    lines = [line for shape, sides in measured.items() for line in table(size, *shape, sides)]
    print("\n".join([*machine_lines(), *version_lines(versions, left_out), "", *HEADER, *lines]), flush=True)


def shape_of(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)x(\d+)", text)
    if not found or not int(found[1]) or not 8 <= int(found[2]) <= 512:
        raise InputError(f"--shapes takes rows x tokens, such as 8x128, of 8 to 512 tokens. Received: {text!r}")
    return int(found[1]), int(found[2])


def measure(config, rows: int, length: int, name: str) -> tuple[str, dict[str, float]]:
    """Returns a description of a side, its memory `before` and `peak` in bytes, and the `seconds` of a step."""
    module, environment, xla, checkpointing = MEMORY_SIDES[name]
    arguments = {"config": json.dumps(config.to_dict()), "batch_size": rows, "length": length, "steps": FLAGS.steps}
    arguments |= {"predictions": num_predictions(length), "xla": xla, "gradient_checkpointing": checkpointing}
    workers = []
    with tempfile.TemporaryFile("w+") as said:
        try:
            python = python_of(environment, os.path.abspath(FLAGS.environments))
            workers.append(start_worker(python, f"benchmarks.sides.{module}", arguments, environment_of_sides(), said))
            about = take_turn(workers[0])["side"]
            before = resident(workers[0].pid, "VmRSS")
            take_turn(workers[0], "train")
            seconds = take_turn(workers[0], "train")["seconds"] / FLAGS.steps
            return about, {"before": before, "peak": resident(workers[0].pid, "VmHWM"), "seconds": seconds}
        except InputError as error:
            said.seek(0)
            raise InputError(([line.strip() for line in said if line.strip()] or [str(error)])[-1]) from None
        finally:
            end_workers(workers)


def resident(pid: int, key: str) -> int:
    """Returns a line of a process' /proc/PID/status in bytes."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{key}:"))
    except (OSError, StopIteration):
        raise InputError("the system does not say how much memory a process has had (this is for Linux)") from None


def best_of(runs: list[dict[str, float]]) -> dict[str, float]:
    """Returns the smallest memory and the median time of several runs."""
    smallest = {key: min(run[key] for run in runs) for key in ("before", "peak")}
    return smallest | {"seconds": statistics.median(run["seconds"] for run in runs)}


def table(size: str, rows: int, length: int, sides: dict[str, dict[str, float]]) -> list[str]:
    """Returns the lines of one shape."""
    lines = []
    for name, found in sides.items():
        ratio = f"{found['peak'] / sides['ours']['peak']:.2f}" if "ours" in sides else "-"
        cells = [size, f"{rows} x {length}", name, f"{found['peak'] / 1e6:,.0f}", f"{found['before'] / 1e6:,.0f}"]
        cells += [ratio, f"{1000 * found['seconds']:,.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    run_command(main, define_flags)
