"""The Beam pipeline on its direct runner beside the local run: processor time, memory, bytes.

  python -m benchmarks.beam_and_local TEXT VOCAB FOLDER [MEGABYTES...]

Run it in the environment of Beam (make test-beam makes one). Of TEXT, which has 10 MB or more, as much is taken as
MEGABYTES say (0.05, 2 and 10; the smallest shows what starting costs), one sentence a line; above 10, the same 10 MB
are repeated. Sequences have 128 tokens, and there are 10 passes. "In process" is the memory of the program that was
started, without its workers.
"""

import filecmp
import os
import resource
import shutil
import subprocess
import sys
import time

from benchmarks.sample_text import write_sample

_LARGEST_SAMPLE = 10
_NUM_SHARDS = 8


def main() -> None:
    text, vocab, folder, *sizes = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    print(f"{'':>26}{'processor':>11}{'clock':>8}{'in process':>13}{'bytes written':>15}")
    for megabytes in map(float, sizes or ["0.05", "2", "10"]):
        sample = os.path.join(folder, f"{megabytes}.txt")
        _write_text(text, sample, megabytes)
        print(f"{os.path.getsize(sample) / 1e6:.2f} MB")
        _compare(sample, vocab, folder)


def _write_text(text: str, sample: str, megabytes: float) -> None:
    write_sample(text, sample, int(min(megabytes, _LARGEST_SAMPLE) * 1e6))
    with open(sample, encoding="utf-8") as file:
        part = file.read()
    with open(sample, "a", encoding="utf-8") as file:
        for _ in range(round(megabytes / _LARGEST_SAMPLE) - 1):
            file.write(part)


def _compare(sample: str, vocab: str, folder: str) -> None:
    outputs = {name: os.path.join(folder, name) for name in ("corpus", "local", "gzip", "beam", "beam2")}
    for output in outputs.values():
        shutil.rmtree(output, ignore_errors=True)
    common = [f"--vocab_file={vocab}", f"--input_file={sample}"]
    local = [*common, f"--tokenized_corpus={outputs['corpus']}", "--num_processes=1"]
    shards = f"--num_shards={_NUM_SHARDS}"
    workers = ["--", "--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    _run("local: tokenising", "tokenize_corpus", local, outputs["corpus"])
    _run("local: records", "create_pretraining_data", [*local, shards], outputs["local"])
    _run("local: records, gzip", "create_pretraining_data", [*local, shards, "--compression=gzip"], outputs["gzip"])
    _run("Beam", "beam_pretraining_data", [*common, shards], outputs["beam"])
    _run("Beam, two processes", "beam_pretraining_data", [*common, shards], outputs["beam2"], workers)
    for name in ("beam", "beam2"):
        names = os.listdir(outputs["local"])
        same, _, _ = filecmp.cmpfiles(outputs["local"], outputs[name], names, shallow=False)
        assert len(same) == len(names), f"{name} differs from the local run"


def _run(title: str, module: str, flags: list[str], output: str, beam_options: list[str] | None = None) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    if module != "tokenize_corpus":
        flags = [*flags, f"--output_dir={output}"]
    command = [sys.executable, "-m", f"data_prep.{module}", *flags, *(beam_options or [])]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    stderr = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(stderr)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    size = sum(os.path.getsize(os.path.join(output, name)) for name in os.listdir(output))
    print(
        f"{title:>26}{processor:>9.1f} s{seconds:>6.1f} s{usage.ru_maxrss / 1e3:>10.0f} MB{size / 1e6:>12.1f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
