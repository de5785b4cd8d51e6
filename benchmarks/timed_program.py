"""Runs a program that makes pre-training records, and reports its working time. Used by google_pretraining_data.

  python -m benchmarks.timed_program REPORT google CHECKOUT FLAGS...    create_pretraining_data.py of the checkout
  python -m benchmarks.timed_program REPORT ours MODULES FLAGS...       python -m data_prep.create_pretraining_data

Google's script is run unmodified. It was written for TensorFlow 1. TensorFlow 2 still has the functions that it uses,
in `tf.compat.v1`, which replaces the module `tensorflow` that the script imports.

Work begins when everything is imported, and ends before Python unloads TensorFlow, which takes half a second.

Our program imports many modules only when it needs them. MODULES is a JSON file with all modules that it imports. The
first run writes the file, later runs read it. So both programs have imported everything when their work begins.
"""

import contextlib
import importlib
import json
import os
import resource
import runpy
import sys
import time


def main() -> None:
    report, program, place, *program_flags = sys.argv[1:]
    run = _prepare_google(place) if program == "google" else _prepare_ours(place)
    sys.argv[1:] = program_flags
    wall_seconds, cpu_seconds = time.monotonic(), _cpu_seconds()
    try:
        run()
    finally:
        work = {"wall_seconds": time.monotonic() - wall_seconds, "cpu_seconds": _cpu_seconds() - cpu_seconds}
        with open(report, "w", encoding="utf-8") as file:
            json.dump(work, file)
        if program == "ours" and not os.path.exists(place):
            with open(place, "w", encoding="utf-8") as file:
                json.dump(sorted(sys.modules), file)


def _cpu_seconds() -> float:
    """Returns the processor time of this process and of its finished child processes."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _prepare_google(checkout: str):
    import tensorflow as tf

    version_1 = tf.compat.v1
    for part in ("app", "flags", "gfile", "logging", "python_io"):
        getattr(version_1, part)  # imported when asked for
    sys.modules["tensorflow"] = version_1
    sys.path.insert(0, checkout)
    sys.argv[0] = os.path.join(checkout, "create_pretraining_data.py")
    return lambda: runpy.run_path(sys.argv[0], run_name="__main__")


def _prepare_ours(modules_file: str):
    modules = []
    if os.path.exists(modules_file):
        with open(modules_file, encoding="utf-8") as file:
            modules = json.load(file)
    for name in modules:
        # Some modules were created at run time, or have another name than their file.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    return importlib.import_module("data_prep.create_pretraining_data").command


if __name__ == "__main__":
    main()
