"""Measures how time and memory grow with what is worked on, beside how they may grow in theory.

    python -m benchmarks.growth
    python -m benchmarks.growth --only=tokenizer --turns=5

Everything in `growing_work` runs at four or five sizes, each twice the one before or more: encoder and training step
with the length and number of rows and of layers, pre-training records and vocabularies with the text (also all in one
document, and in tiny ones), the tokenizers with one long line and one long word, exports of taggers and question
answering with one long text. Texts are made up, models are small and untrained. Processes of data_prep are counted
apart: 1 and as many as there are cores, on the same text.

The sizes take turns, smallest to largest and back; the first turn is not counted. A table has the median time at every
size, and the exponent of the power law through the three largest (least squares on logarithms): 1 is linear. Small
exponents say that a fixed cost weighs more. Memory is what the process has at its peak beyond what it had before
(VmHWM of Linux), after heap that is free was given back; below 4 MB it has no exponent. An exponent more than 0.25
above its order is marked.
"""

import ctypes
import math
import os
import statistics
import sys
import tempfile
import time

from absl import flags

from benchmarks.pictures import save_figure, subplots
from benchmarks.suite_flags import machine_lines
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS
TOLERANCE = 0.25
LEAST_MEMORY = 4e6
HEADER = [
    "| what | grows with | sizes | order | time | exponent | memory, MB | exponent |",
    "|---|---|---|---|---|---|---|---|",
]


def define_flags() -> None:
    flags.DEFINE_string("only", "", "Only what has this in its name.")
    flags.DEFINE_integer("turns", 3, "Turns that are counted; one more goes before.", lower_bound=1)
    flags.DEFINE_boolean("quick", False, "The two smallest sizes of a few, one turn.")
    flags.DEFINE_string("plot", None, "Where to draw a picture (.png).")


def main() -> None:
    from benchmarks.growing_work import growths

    measured = []
    with tempfile.TemporaryDirectory() as folder:
        chosen = [
            growth for growth in growths(folder) if (FLAGS.only or ("word" if FLAGS.quick else "")) in growth.name
        ]
        if not chosen:
            raise InputError(f"--only: nothing has {FLAGS.only!r} in its name.")
        for growth in chosen:
            print(f"{growth.name}, {growth.unit}", file=sys.stderr, flush=True)
            sizes = growth.sizes[:2] if FLAGS.quick else growth.sizes
            measured.append((growth, sizes, measure(growth.prepare, sizes, 1 if FLAGS.quick else FLAGS.turns)))
        lines = [*machine_lines(), "", *HEADER, *(row(*found) for found in measured)]
        if not FLAGS.quick and not FLAGS.only:
            lines += ["", *process_lines(folder)]
    print("\n".join(lines), flush=True)
    if FLAGS.plot:
        draw(measured, FLAGS.plot)


def measure(prepare, sizes, turns: int) -> list[tuple[float, float]]:
    """Returns for each size the seconds, a median, and the bytes of memory, the smallest of all turns."""
    work = [prepare(size) for size in sizes]
    for run in work:
        run()
    seconds, memory = [[] for _ in sizes], [[] for _ in sizes]
    for turn in range(turns):
        for place in range(len(sizes)) if turn % 2 == 0 else reversed(range(len(sizes))):
            before = memory_before()
            start = time.perf_counter()
            work[place]()
            seconds[place].append(time.perf_counter() - start)
            memory[place].append(max(0, resident("VmHWM") - before))
    return [(statistics.median(times), min(peaks)) for times, peaks in zip(seconds, memory, strict=True)]


def memory_before() -> int:
    """Gives free heap back to the system, begins a new peak, and returns what is left in bytes. On Linux; else 0."""
    if sys.platform != "linux":
        return 0
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")
    return resident("VmRSS")


def resident(key: str) -> int:
    """Returns a line of /proc/self/status in bytes; 0 where there is none."""
    if not os.path.exists("/proc/self/status"):
        return 0
    with open("/proc/self/status", encoding="utf-8") as file:
        return next((int(line.split()[1]) * 1024 for line in file if line.startswith(f"{key}:")), 0)


def exponent(sizes, values) -> float:
    """Returns b of `values = a * sizes ** b`, by least squares on logarithms of the three largest.

    >>> exponent([1, 2, 4, 8], [9, 1, 4, 16])
    2.0
    """
    points = [(math.log(size), math.log(value)) for size, value in list(zip(sizes, values, strict=True))[-3:]]
    mean_x, mean_y = (statistics.fmean(values) for values in zip(*points, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def row(growth, sizes, found: list[tuple[float, float]]) -> str:
    """Returns the line of the table of what was measured of a growth."""
    times, peaks = zip(*found, strict=True)
    cells = [growth.name, growth.unit, " ".join(f"{size:,}" for size in sizes), str(growth.order)]
    cells += [" ".join(in_words(seconds) for seconds in times), judged(exponent(sizes, times), growth.order)]
    cells.append(" ".join(f"{peak / 1e6:,.0f}" for peak in peaks))
    larger = min(peaks[-3:]) > LEAST_MEMORY
    cells.append(judged(exponent(sizes, peaks), growth.order) if larger else "-")
    return f"| {' | '.join(cells)} |"


def judged(power: float, order: int) -> str:
    return f"**{power:.2f}**" if power > order + TOLERANCE else f"{power:.2f}"


def in_words(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def process_lines(folder: str) -> list[str]:
    """Returns what more processes gain in making records."""
    from benchmarks.growing_work import GrowingText
    from data_prep.create_pretraining_data import create_pretraining_data

    text = GrowingText(folder)
    path = text.write("processes.txt", 8000, 1200)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    seconds = {}
    for count in (1, cores):
        start = time.perf_counter()
        output = os.path.join(folder, f"processes{count}")
        create_pretraining_data(path, text.vocab_file, output_dir=output, num_shards=4, num_processes=count)
        seconds[count] = time.perf_counter() - start
    gain = seconds[1] / seconds[cores]
    return [
        f"Pre-training records of 8 MB of text: {seconds[1]:.1f} s with one process, {seconds[cores]:.1f} s with "
        f"{cores} on {cores} cores, {gain:.2f} times as fast; starting them is part of it. More cores were not there."
    ]


def draw(measured: list[tuple], path: str) -> None:
    """Draws the time at each size as a multiple of that at the smallest one, beside its order."""
    figure, panels = subplots(-(-len(measured) // 3), 3, figsize=(13, 3.1 * -(-len(measured) // 3)), squeeze=False)
    for panel in panels.flat[len(measured) :]:
        panel.axis("off")
    for panel, (growth, sizes, found) in zip(panels.flat, measured, strict=False):
        times, peaks = zip(*found, strict=True)
        panel.loglog(sizes, times, "o-", color="#3b6ea5", label="seconds")
        panel.loglog(sizes, [times[-1] * (size / sizes[-1]) ** growth.order for size in sizes], ":", color="#8a8a8a")
        if min(peaks) > 0:
            panel.loglog(sizes, [peak / 1e9 for peak in peaks], "s-", color="#d9822b", label="GB")
        panel.set_title(growth.name, fontsize=9)
        panel.set_xlabel(growth.unit, fontsize=8)
        panel.tick_params(labelsize=7, which="both")
        panel.legend(fontsize=7)
    figure.tight_layout()
    save_figure(figure, path)


if __name__ == "__main__":
    run_command(main, define_flags)
