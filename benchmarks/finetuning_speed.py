"""Measures the time of fine-tuning beside transformers + torch: the same batches, in turns, on the same threads.

    python -m benchmarks.finetuning_speed --model=FOLDER --data=FOLDER --other_python=PYTHON

Both sides make batches of rows of similar length by the same rule, padded to the longest row. For each task, two
processes, one for each side, take turns of some steps while the other waits. The first turns are not counted. A line of
the table has medians over the turns: tokens per second without padding, the seconds of an epoch at that rate, and the
ratio of the two sides' times, turn by turn.
"""

import statistics
import sys

from absl import flags

from benchmarks.finetuning_examples import RECIPES
from benchmarks.finetuning_quality import SIDES, check_tasks, threads_environment
from benchmarks.tables import ratio_of, table_lines
from benchmarks.workers_in_turns import end_workers, start_worker, take_turn
from keras_bert.program.command_line import run_command

FLAGS = flags.FLAGS

COLUMNS = ["task", "tokens/s, ours", "tokens/s, transformers", "epoch, ours", "epoch, transformers", "ratio of times"]
# Steps in a turn.
STEPS = {"MRPC": 10, "CoLA": 20, "SST-2": 20, "WNUT-17": 15, "CODAH": 5, "SQuAD": 3}


def define_flags() -> None:
    flags.DEFINE_string("model", None, "A Hugging Face folder that both sides start from.", required=True)
    flags.DEFINE_string("data", None, "A folder with glue, wnut17, squad and codah.", required=True)
    flags.DEFINE_string("other_python", None, "A Python with torch and transformers.", required=True)
    flags.DEFINE_list("tasks", ["MRPC", "SST-2", "WNUT-17", "SQuAD"], f"Some of {', '.join(RECIPES)}.")
    flags.DEFINE_enum(
        "precision", "float32", ["float32", "bfloat16"], "What both sides compute in; weights are float32."
    )
    flags.DEFINE_integer("threads", 2, "Threads of each side.")
    flags.DEFINE_integer("turns", 6, "Turns of each side that are counted.")
    flags.DEFINE_integer("warm_up_turns", 1, "Turns before these.")


def main() -> None:
    check_tasks(FLAGS.tasks)
    rows = []
    for task in FLAGS.tasks:
        rows.append(table_row(task, measure(task)))
        print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    print("\n".join(table_lines(COLUMNS, rows)))


def measure(task: str) -> list[tuple[dict, dict]]:
    """Returns the reports of both sides for each turn."""
    pythons = {"ours": sys.executable, "transformers": FLAGS.other_python}
    arguments = {"model": FLAGS.model, "data": FLAGS.data, "task": task, "threads": FLAGS.threads}
    arguments |= {"steps_on_request": STEPS[task], "precision": FLAGS.precision}
    environment = threads_environment(FLAGS.threads)
    workers = [start_worker(pythons[side], module, arguments, environment) for side, module in SIDES.items()]
    turns = []
    try:
        for _ in range(FLAGS.warm_up_turns + FLAGS.turns):
            turns.append(tuple(take_turn(worker) for worker in workers))
    finally:
        end_workers(workers)
    return turns[FLAGS.warm_up_turns :]


def table_row(task: str, turns: list[tuple[dict, dict]]) -> list[str]:
    """Returns a row of the table from the reports of both sides."""
    rates = [statistics.median(turn[side]["tokens"] / turn[side]["seconds"] for turn in turns) for side in (0, 1)]
    epochs = [turns[0][side]["all_tokens"] / rates[side] for side in (0, 1)]
    # Texts may differ by a few tokens between the sides, so times are compared per token.
    ours, theirs = ([turn[side]["seconds"] / turn[side]["tokens"] for turn in turns] for side in (0, 1))
    cells = [task, *(f"{rate:,.0f}" for rate in rates), *(f"{seconds:.0f} s" for seconds in epochs)]
    return [*cells, ratio_of(ours, theirs)]


if __name__ == "__main__":
    run_command(main, define_flags)
