"""Compares two checkouts of this project: forward passes, training steps and exports, in alternation.

    python -m benchmarks.before_after BEFORE AFTER [--rounds=12] [--cases=forward,training,export]

Each checkout runs in a process of its own (`before_after_work.py`), and the two take turns. For each case this prints
the medians, the median of the ratios after / before with its 95 % confidence interval (bootstrap), the peak memory of
both processes, and a value that both compute and that should be equal.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

WORK = pathlib.Path(__file__).with_name("before_after_work.py")
# Kind -> name of the case, function of the worker, its arguments, and calls in a turn.
CASES = {
    "forward": [
        ("forward 16 x 128", "forward", [16, 128], 5),
        ("forward 1 x 32", "forward", [1, 32], 40),
        ("unpadded 32 texts of up to 128", "forward", [32, 128, True], 4),
    ],
    "training": [
        ("pre-training step 16 x 128", "training", ["pretraining", 16, 128], 3),
        ("classification step 32 x 64", "training", ["classification", 32, 64], 4),
        ("tagging step 32 x 64", "training", ["tagging", 32, 64], 4),
    ],
    "export": [
        ("export 1 x 16", "served", ["EXPORT", 1, 14], 40),
        ("export 8 x 128", "served", ["EXPORT", 8, 126], 5),
    ],
}


class Worker:
    """A process that computes with one checkout."""

    def __init__(self, checkout: str):
        self._process = subprocess.Popen(
            [sys.executable, str(WORK)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": checkout},
        )

    def ask(self, *question):
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def interval(ratios: list[float]) -> tuple[float, float]:
    """Returns the 95 % confidence interval of the median."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[1949]


def compare(checkouts: list[str], name: str, function: str, arguments: list, calls: int, rounds: int) -> str:
    """Returns the row of a case: medians, ratio, interval, seconds to the first result, memory, values."""
    with tempfile.TemporaryDirectory() as folder:
        workers = [Worker(checkout) for checkout in checkouts]
        made = []
        for number, worker in enumerate(workers):
            given = [worker.ask("export", f"{folder}/{number}") if value == "EXPORT" else value for value in arguments]
            made.append(worker.ask("make", function, given))
        for worker in workers:
            worker.ask("time", 2)
        times = [[], []]
        for number in range(rounds):
            for side in (0, 1) if number % 2 else (1, 0):
                times[side].append(workers[side].ask("time", calls))
        peaks = [worker.ask("peak") for worker in workers]
        for worker in workers:
            worker.end()
    ratios = [after / before for before, after in zip(*times, strict=True)]
    low, high = interval(ratios)
    before, after = (1000 * statistics.median(side) for side in times)
    return (
        f"| {name} | {before:.1f} | {after:.1f} | {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f}) | "
        f"{made[0][0]:.1f}, {made[1][0]:.1f} | {peaks[0]:,.0f}, {peaks[1]:,.0f} | {made[0][1]}, {made[1][1]} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="a checkout")
    parser.add_argument("after", help="another one")
    parser.add_argument("--rounds", type=int, default=12, help="turns of each")
    parser.add_argument("--cases", default=",".join(CASES), help="which kinds of cases")
    arguments = parser.parse_args()
    checkouts = [os.path.abspath(path) for path in (arguments.before, arguments.after)]
    print("| case | before, ms | after, ms | ratio | to the first result, s | peak, MB | value |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for kind in arguments.cases.split(","):
        for case in CASES[kind]:
            print(compare(checkouts, *case, arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
