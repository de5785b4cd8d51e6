"""Each command has the flags, with the defaults, of `command_flags.txt`.

Write it anew after an intended change: python FILE_OF_THIS_TEST > tests/run_scripts/command_flags.txt
"""

import json
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
from places import DOCS

from run_scripts.command_names import COMMANDS

FILE = pathlib.Path(__file__).with_name("command_flags.txt")
PROGRAM = """
import importlib, json, sys
from absl import flags

found = {}
for name in json.loads(sys.argv[1]):
    module, before = importlib.import_module(name), set(flags.FLAGS)
    if hasattr(module, "define_flags"):
        module.define_flags()
    names = sorted(set(flags.FLAGS) - before)
    found[name] = {flag: flags.FLAGS[flag].default for flag in names}
    for flag in names:
        delattr(flags.FLAGS, flag)
print(json.dumps(found, default=str))
"""


def lines_of_commands() -> list[str]:
    """Returns a line for each command: its name, and each of its flags with its default."""
    names = [module for modules in COMMANDS.values() for module in modules]
    command = [sys.executable, "-c", PROGRAM, json.dumps(names)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [
        f"{name}: " + ", ".join(f"{flag}={json.dumps(default)}" for flag, default in flags.items())
        for name, flags in found.items()
    ]


LINES = FILE.read_text("utf-8").replace("\n    ", " ").splitlines()
FLAGS = {line.split(": ")[0].split(".")[1]: set(re.findall(r"[:,] (\w+)=", line)) for line in LINES}
# The commands whose flags a page names.
PAGES = {
    "classification.md": ("run_classifier", "run_embeddings"),
    "multiple_choice.md": ("run_multiple_choice", "create_finetuning_data"),
    "question_answering.md": ("run_squad", "evaluate_squad"),
    "tagging.md": ("run_ner", "create_finetuning_data"),
    "text_to_text.md": ("run_text_to_text",),
    "training.md": ("run_pretraining", "launch_workers", "run_classifier", "run_embeddings", "convert_checkpoint"),
}
# Of help, Slurm, Docker's --build-arg and XLA.
OF_OTHERS = {"help", "nodes", "ntasks", "requeue", "signal", "kill", "build", "xla_gpu_enable_triton_gemm"}


def test_commands_have_the_flags_and_defaults_of_the_list():
    assert lines_of_commands() == LINES


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_flags_that_its_commands_have(page):
    named = set(re.findall(r"--([a-z]\w+)", (DOCS / page).read_text("utf-8"))) - OF_OTHERS
    flags = set().union(*(FLAGS[command] for command in PAGES[page]))
    assert len(named) > 8
    assert not {name for name in named if name not in flags and name.removeprefix("no") not in flags}


if __name__ == "__main__":
    for line in lines_of_commands():
        print(textwrap.fill(line, 120, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False))
