"""Measures speed side by side with other engines, and writes tables into docs/results_speed.md: `make benchmark`.

    python -m benchmarks.speed
    python -m benchmarks.speed --suites=forward -- --sizes=minilm --lengths=128 --batch_sizes=16 --turns=9

Each suite is a command of its own, whose docstring says what is compared, and how; its flags follow `--`. Its output
and its command replace the text between `<!-- benchmark NAME -->` and `<!-- end -->` in the page of results. If a suite
fails, this is reported and the others run.

A new suite needs three things: a module that prints Markdown to standard output and has the flag --quick (a smoke run),
and --data=FOLDER and --model=FOLDER if its row says so; a row in `SUITES`; and the two comments in the page.
"""

import dataclasses
import os
import pathlib
import shlex
import subprocess
import sys

from absl import flags

from benchmarks.results_page import replace_section
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS
PROJECT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Suite:
    """A command that measures something, and which of this command's flags it takes."""

    module: str
    flags: tuple[str, ...] = ("environments",)


SUITES = {
    "forward": Suite("benchmarks.forward_speed"),
    "texts": Suite("benchmarks.text_speed", flags=("environments", "data")),
    "training": Suite("benchmarks.training_speed"),
    "memory": Suite("benchmarks.training_memory"),
    "formats": Suite("benchmarks.format_speed"),
    "engines": Suite("benchmarks.engine_speed", flags=("environments", "data", "model")),
}


def define_flags() -> None:
    flags.DEFINE_list("suites", list(SUITES), "Which suites; flags behind `--` are for each of them.")
    flags.DEFINE_string("environments", ".venv-benchmark", "The folder of the engines' environments.")
    flags.DEFINE_string("data", os.environ.get("KERAS_BERT_DATA"), "A folder with GLUE, SQuAD and a vocabulary.")
    flags.DEFINE_string("model", None, "A folder of sentence-transformers, for the suite engines.")
    flags.DEFINE_string("results", str(PROJECT / "docs" / "results_speed.md"), "The page that is written; empty: none.")
    flags.DEFINE_boolean("quick", False, "Smoke runs: tiny models, one turn.")


def main(passed_on: list[str]) -> None:
    unknown = [name for name in FLAGS.suites if name not in SUITES]
    if unknown:
        raise InputError(f"--suites: there is no {', '.join(unknown)}. There are: {', '.join(SUITES)}")
    failed = []
    for name in FLAGS.suites:
        command = command_of(SUITES[name], passed_on)
        lines = run_suite(name, command)
        if lines is None:
            failed.append(name)
            continue
        print("\n".join(lines), flush=True)
        if FLAGS.results:
            replace_section(FLAGS.results, name, lines)
    if failed:
        raise InputError(f"These suites failed, and said above why: {', '.join(failed)}. The others are done.")


def command_of(suite: Suite, passed_on: list[str]) -> list[str]:
    """Returns the command of a suite, without the Python that runs it."""
    command = ["-m", suite.module]
    command += [f"--{name}={FLAGS[name].value}" for name in suite.flags if FLAGS[name].value]
    command += ["--quick"] if FLAGS.quick else []
    return command + passed_on


def run_suite(name: str, command: list[str]) -> list[str] | None:
    """Returns the lines of the section of a suite, or None if it failed."""
    print(f"=== {name}: python {shlex.join(command)}", file=sys.stderr, flush=True)
    done = subprocess.run(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))},
    )
    if done.returncode:
        return None
    # The command as a reader would type it, without folders of this machine.
    folders = [part.partition("=")[0] for part in command if part.startswith(("--data=", "--model="))]
    own = [part for part in command if not part.startswith(("--data=", "--model=", "--environments="))]
    shown = "".join(f" {flag}={flag[2:].upper()}" for flag in folders)
    lines = [f"    python {shlex.join(own)}{shown}", ""]
    return lines + done.stdout.rstrip("\n").split("\n")


def command() -> None:
    run_command(main, define_flags, passes_on=True)


if __name__ == "__main__":
    command()
