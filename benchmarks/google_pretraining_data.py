"""Times google-research/bert's create_pretraining_data.py against ours: same machine, text and flags, run in turns.

The text is the first part of a corpus, rewritten with one sentence per line. Both write records of 128 tokens with at
most 20 masks, in five passes. Google's script comes from a checkout of its repository and is run unmodified.

  python -m benchmarks.google_pretraining_data --google_bert=bert --text=wikipedia_articles.txt --vocab_file=vocab.txt

Prints medians: examples per second of processor time (all processes together) and of wall-clock time, each for the work
alone and with the time that Python takes to start, import and end; and the largest resident memory of one process. With
several processes, everything that the other processes do counts as work.
"""

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from absl import flags

from benchmarks.tables import table_lines
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Timing:
    """One run of one program."""

    num_examples: int
    wall_seconds: float
    cpu_seconds: float
    work_wall_seconds: float
    work_cpu_seconds: float
    resident_mb: float


def define_flags() -> None:
    flags.DEFINE_string("google_bert", None, "A checkout of google-research/bert.", required=True)
    flags.DEFINE_string("text", None, "A file of paragraphs, a blank line between documents.", required=True)
    flags.DEFINE_string("vocab_file", None, "An uncased vocabulary.", required=True)
    flags.DEFINE_integer("text_bytes", 2_000_000, "How much of the text is used.")
    flags.DEFINE_list("num_processes", ["1", "2"], "For ours: numbers of processes.")
    flags.DEFINE_integer("repetitions", 3, "Runs of each.")
    flags.DEFINE_integer("max_seq_length", 128, "Tokens in a record.")
    flags.DEFINE_integer("max_predictions_per_seq", 20, "Masks in a record at most.")
    flags.DEFINE_integer("dupe_factor", 5, "Passes over the text.")


def main() -> None:
    from benchmarks.sample_text import write_sample

    if not os.path.isfile(os.path.join(FLAGS.google_bert, "create_pretraining_data.py")):
        raise InputError(f"{FLAGS.google_bert} is no checkout of google-research/bert: no create_pretraining_data.py.")
    with tempfile.TemporaryDirectory() as folder:
        text, warm_up = os.path.join(folder, "text.txt"), os.path.join(folder, "warm_up.txt")
        num_documents = write_sample(FLAGS.text, text, FLAGS.text_bytes)
        write_sample(FLAGS.text, warm_up, 20_000)
        print(f"{os.path.getsize(text):,} bytes, {num_documents} documents, one sentence a line", flush=True)
        # These runs write the list of our imports, and load all files into the page cache.
        programs = {"google-research/bert": None} | {f"ours, {n} processes": int(n) for n in FLAGS.num_processes}
        for num_processes in programs.values():
            run(folder, warm_up, num_processes)
        timings = {name: [] for name in programs}
        for _ in range(FLAGS.repetitions):
            for name, num_processes in programs.items():
                timings[name].append(run(folder, text, num_processes))
    print_table(timings)


def run(folder: str, text: str, num_processes: int | None) -> Timing:
    """Runs Google's script, or ours with a number of processes."""
    report, modules = os.path.join(folder, "report.json"), os.path.join(folder, "modules.json")
    records = os.path.join(folder, "records.tfrecord")
    if num_processes is None:
        program, outputs = ["google", FLAGS.google_bert], [records]
    else:
        # Each process writes one file at a time.
        program = ["ours", modules, f"--num_processes={num_processes}"]
        outputs = [f"{records}-{number}" for number in range(num_processes)]
    command = [sys.executable, "-m", "benchmarks.timed_program", report, *program]
    command += [f"--input_file={text}", f"--output_file={','.join(outputs)}", f"--vocab_file={FLAGS.vocab_file}"]
    names = ("max_seq_length", "max_predictions_per_seq", "dupe_factor")
    command += [f"--{name}={FLAGS[name].value}" for name in names]
    with open(os.path.join(folder, "log"), "w+", encoding="utf-8") as log:
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        wall_seconds = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            log.seek(0)
            raise InputError(f"{' '.join(command)} failed:\n{log.read()[-2000:]}")
    with open(report, encoding="utf-8") as file:
        work = json.load(file)
    timing = Timing(
        num_examples=sum(count_records(path) for path in outputs),
        wall_seconds=wall_seconds,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        work_wall_seconds=work["wall_seconds"],
        work_cpu_seconds=work["cpu_seconds"],
        resident_mb=usage.ru_maxrss / 1000,
    )
    # Otherwise ours finds finished work and does nothing.
    for name in os.listdir(folder):
        if name.startswith("records"):
            os.remove(os.path.join(folder, name))
    return timing


def count_records(path: str) -> int:
    from keras_bert.program.record_files import iterate_records

    return sum(1 for _ in iterate_records(path))


# Column -> its value in one run.
COLUMNS = {
    "examples": lambda run: run.num_examples,
    "wall s": lambda run: run.wall_seconds,
    "of it work": lambda run: run.work_wall_seconds,
    "CPU s": lambda run: run.cpu_seconds,
    "of these work": lambda run: run.work_cpu_seconds,
    "examples / CPU s of work": lambda run: run.num_examples / run.work_cpu_seconds,
    "of all": lambda run: run.num_examples / run.cpu_seconds,
    "examples / wall s of work": lambda run: run.num_examples / run.work_wall_seconds,
    "of the whole": lambda run: run.num_examples / run.wall_seconds,
    "largest process, MB": lambda run: run.resident_mb,
}


def print_table(timings: dict[str, list[Timing]]) -> None:
    rows = []
    for name, runs in timings.items():
        medians = [statistics.median(map(value, runs)) for value in COLUMNS.values()]
        rows.append([name, *(f"{median:,.1f}" if median < 100 else f"{median:,.0f}" for median in medians)])
    print("\n".join(table_lines(["program", *COLUMNS], rows)))


if __name__ == "__main__":
    run_command(main, define_flags)
