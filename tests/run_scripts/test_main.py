"""keras-bert: the list of commands, and starting one; folders of others that hide our packages."""

import os
import re
import subprocess
import sys

import pytest
from places import PROJECT

from run_scripts import __main__ as program
from run_scripts import evaluate_squad
from run_scripts.command_names import COMMANDS


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["keras-bert", *arguments])
    program.command()


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_every_command_is_listed_once_in_the_order_of_the_data_flow(arguments, monkeypatch, capsys):
    run(monkeypatch, *arguments)
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert listed == [
        module.rpartition(".")[2].replace("_", "-") for station in COMMANDS.values() for module in station
    ]
    order = ["build-vocabulary", "create-pretraining-data", "run-pretraining", "run-classifier"]
    order += ["export-model", "serve"]
    assert [name for name in listed if name in order] == order
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("name", ["evaluate-squad", "evaluate_squad", "keras-bert-evaluate-squad"])
def test_a_command_gets_the_other_arguments(monkeypatch, name):
    given = []
    monkeypatch.setattr(evaluate_squad, "command", lambda: given.extend(sys.argv))
    run(monkeypatch, name, "--data_file=dev.json")
    assert given == ["keras-bert evaluate-squad", "--data_file=dev.json"]


def test_an_unknown_command_names_the_nearest_ones(monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "run-clasifier")
    assert ended.value.code == 2
    assert re.search(r"no command 'run-clasifier'. Do you mean run-classifier", capsys.readouterr().err)


def test_a_folder_that_hides_a_package_is_named(tmp_path):
    (tmp_path / "data_prep").mkdir()
    (tmp_path / "data_prep" / "__init__.py").touch()
    # An editable installation finds our modules in the package of another folder.
    plain = "import sys; sys.meta_path = [finder for finder in sys.meta_path if 'editable' not in repr(finder)]; "
    code = f"{plain}import run_scripts, data_prep.mine, data_prep."
    (tmp_path / "data_prep" / "mine.py").touch()
    where = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(PROJECT)}, "capture_output": True, "text": True}
    result = subprocess.run([sys.executable, "-c", f"{code}finetuning"], **where)
    assert f"ModuleNotFoundError: The folder {tmp_path}/data_prep hides the package data_prep" in result.stderr
    assert str(PROJECT / "data_prep") in result.stderr
    result = subprocess.run([sys.executable, "-c", f"{code}absent"], **where)
    assert result.stderr.endswith("No module named 'data_prep.absent'\n")
