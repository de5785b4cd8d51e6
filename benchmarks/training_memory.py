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

import re
import statistics
import sys

from absl import flags

from benchmarks.encoder_sides import config_of_size
from benchmarks.suite_flags import define_suite_flags, machine_lines, sides_of_flag, version_lines
from benchmarks.tables import table_lines
from benchmarks.training_sides import TrainingSide, Work, running_side
from keras_bert.config import SIZES
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS
MEMORY_SIDES = {
    "ours": TrainingSide("keras_bert_training"),
    "ours, recomputed": TrainingSide("keras_bert_training", gradient_checkpointing=1),
    "ours, XLA": TrainingSide("keras_bert_training", xla=1),
    "ours, XLA, recomputed": TrainingSide("keras_bert_training", xla=1, gradient_checkpointing=1),
    "transformers": TrainingSide("transformers_training", "torch"),
    "transformers, recomputed": TrainingSide("transformers_training", "torch", gradient_checkpointing=1),
}
COLUMNS = ["size", "rows x length", "side", "peak, MB", "before the first step, MB", "peak to ours", "ms a step"]


def define_flags() -> None:
    define_suite_flags(turns=1)
    flags.DEFINE_enum("size", "base", ["smoke", "minilm", *SIZES], "The model.")
    flags.DEFINE_list("shapes", ["8x128", "2x512"], "Rows x tokens of a batch.")
    flags.DEFINE_integer("steps", 2, "Steps that are timed.", lower_bound=1)


def main() -> None:
    size, shapes = FLAGS.size, [shape_of(text) for text in FLAGS.shapes]
    names = sides_of_flag(MEMORY_SIDES, quick=["ours", "ours, recomputed"])
    if FLAGS.quick:
        size, shapes = "smoke", [(2, 16)]
    versions, left_out, rows = {}, {}, []
    for shape in shapes:
        runs = {name: [] for name in names}
        for _ in range(FLAGS.turns):
            for name in names:
                print(f"{size}, {shape[0]} x {shape[1]}, {name}", file=sys.stderr, flush=True)
                try:
                    versions[name], run = measure(Work(config_of_size(size), *shape, FLAGS.steps), name)
                    runs[name].append(run)
                except InputError as error:
                    left_out[name] = str(error)
        rows += table_rows(size, *shape, {name: best_of(found) for name, found in runs.items() if found})
    lines = [*machine_lines(), *version_lines(versions, left_out), "", *table_lines(COLUMNS, rows)]
    print("\n".join(lines), flush=True)


def shape_of(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)x(\d+)", text)
    if not found or not int(found[1]) or not 8 <= int(found[2]) <= 512:
        raise InputError(f"--shapes takes rows x tokens, such as 8x128, of 8 to 512 tokens. Received: {text!r}")
    return int(found[1]), int(found[2])


def measure(work: Work, name: str) -> tuple[str, dict[str, float]]:
    """Returns a description of a side, its memory `before` and `peak` in bytes, and the `seconds` of a step."""
    with running_side(MEMORY_SIDES[name], work, FLAGS.environments) as side:
        before = side.memory("VmRSS")
        side.seconds_of_a_step()
        seconds = side.seconds_of_a_step()
        return side.about, {"before": before, "peak": side.memory("VmHWM"), "seconds": seconds}


def best_of(runs: list[dict[str, float]]) -> dict[str, float]:
    """Returns the smallest memory and the median time of several runs."""
    smallest = {key: min(run[key] for run in runs) for key in ("before", "peak")}
    return smallest | {"seconds": statistics.median(run["seconds"] for run in runs)}


def table_rows(size: str, rows: int, length: int, sides: dict[str, dict[str, float]]) -> list[list[str]]:
    """Returns the rows of one shape."""
    lines = []
    for name, found in sides.items():
        ratio = f"{found['peak'] / sides['ours']['peak']:.2f}" if "ours" in sides else "-"
        cells = [size, f"{rows} x {length}", name, f"{found['peak'] / 1e6:,.0f}", f"{found['before'] / 1e6:,.0f}"]
        lines.append([*cells, ratio, f"{1000 * found['seconds']:,.0f}"])
    return lines


if __name__ == "__main__":
    run_command(main, define_flags)
