"""Measures how much memory create_pretraining_data takes for little and for much text (Linux only).

The text consists of varied copies of a corpus: each copy has its paragraphs in another order, and about every thirtieth
word is replaced with a made-up one, so the number of different words keeps growing. The anonymous memory (RssAnon) of
every process of the command is measured ten times a second. The system cannot take this memory back. Pages of mapped
files do not count.

  python -m benchmarks.pretraining_memory --text=wikipedia_articles.txt --vocab_file=vocab.txt --work_dir=/tmp/memory \\
      --sizes_mb=100,2000 --num_processes=2 --limit_mb=1000

A run in which a process takes more than --limit_mb is killed, and this command fails. Text and records are removed.
"""

import dataclasses
import os
import random
import shutil
import signal
import string
import subprocess
import sys
import time

from absl import flags

from benchmarks.tables import table_lines
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS

_WORDS_PER_NEW_WORD = 30


def define_flags() -> None:
    flags.DEFINE_string("text", None, "A file of paragraphs, a blank line between documents.", required=True)
    flags.DEFINE_string("vocab_file", None, "An uncased vocabulary.", required=True)
    flags.DEFINE_string("work_dir", None, "A new folder for text and records; it is removed.", required=True)
    flags.DEFINE_list("sizes_mb", ["100", "2000"], "Sizes of the text, in millions of bytes.")
    flags.DEFINE_integer("num_processes", 2, "Processes of the command.")
    flags.DEFINE_integer("dupe_factor", 1, "Passes over the text.")
    flags.DEFINE_integer("limit_mb", 1000, "The most that a process may take, in millions of bytes.")


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The cost of one run; memory in bytes."""

    text_bytes: int
    seconds: float
    main_peak: int
    other_peak: int
    total_peak: int


def main() -> None:
    os.makedirs(FLAGS.work_dir)
    try:
        measurements = [measure(float(size) * 1e6) for size in FLAGS.sizes_mb]
    finally:
        shutil.rmtree(FLAGS.work_dir)
    rows = []
    for found in measurements:
        size, peaks = found.text_bytes / 1e6, (found.main_peak, found.other_peak, found.total_peak)
        cells = [f"{size:,.0f}", f"{found.seconds:,.0f}", f"{size / found.seconds:.2f}"]
        rows.append([*cells, *(f"{peak / 1e6:,.0f}" for peak in peaks)])
    columns = ["text, MB", "seconds", "MB/s", "main process, MB", "largest other, MB", "all together, MB"]
    print("\n".join(table_lines(columns, rows)))
    first, last = (max(found.main_peak, found.other_peak) for found in (measurements[0], measurements[-1]))
    print(f"The largest process: {last / first - 1:+.1%} from the first size to the last.")


def write_copies(text_file: str, path: str, num_bytes: float) -> None:
    """Writes varied copies of a text until there are `num_bytes`; the same bytes every time."""
    with open(text_file, encoding="utf-8") as file:
        documents = [document.split("\n") for document in file.read().strip().split("\n\n")]
    draw = random.Random(0)
    with open(path, "w", encoding="utf-8") as file:
        while True:
            for document in documents:
                for paragraph in draw.sample(document, len(document)):
                    words = paragraph.split(" ")
                    for _ in range(len(words) // _WORDS_PER_NEW_WORD):
                        words[draw.randrange(len(words))] = "".join(draw.choices(string.ascii_lowercase, k=8))
                    file.write(" ".join(words) + "\n")
                file.write("\n")
                if file.tell() >= num_bytes:
                    return


def measure(num_bytes: float) -> Measurement:
    text, records, log_path = (os.path.join(FLAGS.work_dir, name) for name in ("text.txt", "records", "log"))
    write_copies(FLAGS.text, text, num_bytes)
    command = [sys.executable, "-m", "data_prep.create_pretraining_data", f"--input_file={text}"]
    command += [f"--output_dir={records}", f"--vocab_file={FLAGS.vocab_file}", "--split_sentences"]
    command += [f"--num_processes={FLAGS.num_processes}", f"--dupe_factor={FLAGS.dupe_factor}"]
    peaks, total_peak, started = {}, 0, time.perf_counter()
    with open(log_path, "w+", encoding="utf-8") as log:
        # A session of its own: all its processes can be ended together.
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        while process.poll() is None:
            found = anonymous_memory(process.pid)
            total_peak = max(total_peak, sum(found.values()))
            peaks |= {pid: max(size, peaks.get(pid, 0)) for pid, size in found.items()}
            if max(found.values(), default=0) > FLAGS.limit_mb * 1e6:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise InputError(
                    f"A process took {max(found.values()) / 1e6:,.0f} MB, more than {FLAGS.limit_mb}, on "
                    f"{os.path.getsize(text) / 1e6:,.0f} MB of text after {time.perf_counter() - started:.0f} seconds."
                )
            time.sleep(0.1)
        seconds = time.perf_counter() - started
        log.seek(0)
        output = log.read()
    if process.returncode:
        raise InputError(f"{' '.join(command)} failed:\n{output[-2000:]}")
    print(output[output.index("documents ") : output.find("first example")], file=sys.stderr, flush=True)
    found = Measurement(
        text_bytes=os.path.getsize(text),
        seconds=seconds,
        main_peak=peaks[process.pid],
        other_peak=max((size for pid, size in peaks.items() if pid != process.pid), default=0),
        total_peak=total_peak,
    )
    shutil.rmtree(records)
    os.remove(text)
    return found


def anonymous_memory(root: int) -> dict[int, int]:
    """Returns process -> bytes of anonymous memory, for a process and all its descendants."""
    parents, sizes = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/status", encoding="utf-8", errors="replace") as file:
                status = dict(line.split(":", 1) for line in file if line.startswith(("PPid", "RssAnon")))
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
        if "RssAnon" in status:  # processes of the kernel and ended ones have no such line
            parents[int(name)] = int(status["PPid"])
            sizes[int(name)] = int(status["RssAnon"].split()[0]) * 1024
    family = {root} & set(sizes)
    while True:
        children = {pid for pid, parent in parents.items() if parent in family} - family
        if not children:
            return {pid: sizes[pid] for pid in family}
        family |= children


if __name__ == "__main__":
    run_command(main, define_flags)
