"""Measures the memory that `data_prep/build_vocabulary.py` takes for little and for much text.

The much is the text several times over, with ten new random words after every line, so that the number of different
words grows without end. Memory is the peak of anonymous memory of all processes together, sampled ten times a second
(Linux only).

Command: python -m benchmarks.vocabulary_memory TEXT_FILE COPIES [NUM_PROCESSES]
"""

import os
import random
import string
import subprocess
import sys
import tempfile
import time

import psutil


def write_copies(text_file: str, path: str, copies: int) -> None:
    """Writes `copies` times the text, with new words."""
    generator = random.Random(0)
    with open(text_file, encoding="utf-8") as file:
        lines = file.readlines()
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(copies):
            for line in lines:
                file.write(line)
                if line.strip():
                    words = ("".join(generator.choices(string.ascii_lowercase, k=8)) for _ in range(10))
                    file.write(f"{' '.join(words)}\n")


def anonymous_memory(process: psutil.Process) -> int:
    """Returns the bytes of anonymous memory of a process and its children."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            with open(f"/proc/{one.pid}/status", encoding="utf-8") as file:
                total += next((int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon")), 0)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total


def measure(path: str, num_processes: int) -> None:
    """Runs the command on a file and prints size, seconds and peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        command = [sys.executable, "-m", "data_prep.build_vocabulary", f"--input_file={path}", "--vocab_size=30000"]
        command += [f"--output_file={folder}/vocab.txt", f"--num_processes={num_processes}"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        peak = 0
        while running.poll() is None:
            peak = max(peak, anonymous_memory(psutil.Process(running.pid)))
            time.sleep(0.1)
        seconds = time.perf_counter() - start
        size = os.path.getsize(path)
        print(f"{size / 1e6:.0f} MB: {seconds:.0f} s, {size / 1e6 / seconds:.2f} MB/s, peak {peak / 1e6:.0f} MB")
        print(f"  {running.stdout.read().strip()}", flush=True)


def main() -> None:
    """Measures the text itself and the copies."""
    text_file, copies = sys.argv[1], int(sys.argv[2])
    num_processes = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    measure(text_file, num_processes)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "copies.txt")
        write_copies(text_file, path, copies)
        measure(path, num_processes)


if __name__ == "__main__":
    main()
