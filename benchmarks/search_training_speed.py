"""Measures a training step of `SparseEncoder` and `MultiVectorEncoder` beside sentence-transformers.

    python -m benchmarks.search_training_speed --model=MODEL --pairs=debian_train.tsv --other_python=PYTHON

The step: in-batch negatives of a batch of pairs, for SPLADE with the FLOPS of queries and documents, dropout as the
model says, gradients clipped by their norm, AdamW. Both sides load MODEL, a masked LM in the format of transformers
with its vocabulary. Queries and documents are the last two columns of the first lines of --pairs; their tokens are
computed before. PYTHON has sentence-transformers 6.

Sides are processes that take turns of --steps steps; the first turn is not counted. A cell has the steps a second, the
median over the turns. The ratio is our speed to theirs, turn by turn: median, smallest and largest.
"""

import contextlib
import statistics
import sys
import tempfile

from absl import flags

from benchmarks.encoder_sides import environment_of_sides
from benchmarks.suite_flags import machine_lines
from benchmarks.tables import ratio_of, table_lines
from benchmarks.workers_in_turns import end_workers, start_worker, take_turn
from keras_bert.program.command_line import run_command

FLAGS = flags.FLAGS
KINDS, SIDES = ("SPLADE", "multi-vector"), ("ours", "theirs")


def define_flags() -> None:
    flags.DEFINE_string("model", None, "A masked LM in the format of transformers, with its vocabulary.", required=True)
    flags.DEFINE_string(
        "pairs", None, "A tab-separated file: queries and documents in the last columns.", required=True
    )
    flags.DEFINE_string("other_python", None, "A Python with sentence-transformers 6.", required=True)
    flags.DEFINE_integer("batch_size", 32, "Pairs of a step.", lower_bound=2)
    flags.DEFINE_integer("length", 64, "Documents are cut to this many tokens.", lower_bound=3)
    flags.DEFINE_integer("steps", 2, "Steps of a turn.", lower_bound=1)
    flags.DEFINE_integer("turns", 7, "Turns of each side that are counted.", lower_bound=1)


def main() -> None:
    rows, versions = [], {}
    for kind in KINDS:
        seconds = measure(kind, versions)
        speeds = [f"{FLAGS.steps / statistics.median(seconds[side]):.3g}" for side in SIDES]
        rows.append([kind, *speeds, ratio_of(seconds["theirs"], seconds["ours"])])
    about = f"{'; '.join(f'{side}: {version}' for side, version in versions.items())}."
    print("\n".join([*machine_lines(), about, "", *table_lines(["model", *SIDES, "ours to theirs"], rows)]))


def measure(kind: str, versions: dict[str, str]) -> dict[str, list[float]]:
    """Returns the seconds of each turn of each side; notes versions."""
    arguments = {name: FLAGS[name].value for name in ("model", "pairs", "batch_size", "length", "steps")}
    pythons, workers = {"ours": sys.executable, "theirs": FLAGS.other_python}, {}
    with contextlib.ExitStack() as stack:
        for side, python in pythons.items():
            said = stack.enter_context(tempfile.TemporaryFile("w+"))
            module = f"benchmarks.sides.search_training_{side}"
            workers[side] = start_worker(python, module, {"kind": kind, **arguments}, environment_of_sides(""), said)
            stack.callback(end_workers, [workers[side]])
        seconds: dict[str, list[float]] = {side: [] for side in SIDES}
        for side in SIDES:
            versions[side] = take_turn(workers[side])["side"]
        for turn in range(FLAGS.turns + 1):
            for side in SIDES[:: 1 if turn % 2 else -1]:
                found = take_turn(workers[side], "train")["seconds"]
                seconds[side] += [found] if turn else []
        return seconds


if __name__ == "__main__":
    run_command(main, define_flags)
