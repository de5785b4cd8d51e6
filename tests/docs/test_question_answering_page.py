"""docs/question_answering.md is correct: its programs and commands run unchanged."""

import json
import pathlib
import re
import shlex
import subprocess
import sys

import pytest
import tiny
from places import DOCS, TESTS

from keras_bert.tasks.pretraining.pretrainer import BertPretrainer

PAGE = (DOCS / "question_answering.md").read_text("utf-8")
WORDS = ["ada", "alan", "wrote", "it", "in", "london", "paris", "who", "where", "when", "did", "write", ".", "?"]


@pytest.mark.slow
def test_the_programs_and_commands_of_the_page_run(tmp_path, monkeypatch, capsys):
    vocabulary = tiny.vocabulary(*WORDS)
    config = tiny.config(vocabulary, hidden_size=8, max_position_embeddings=384)
    monkeypatch.chdir(tmp_path)
    BertPretrainer(config).save_pretrained("my_bert", vocabulary)
    capsys.readouterr()
    (answers,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(compile(answers, "question_answering.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()[-2:]
    assert [re.fullmatch(r"(.+) \d+ \d+ [01]\.\d+", line) is not None for line in printed] == [True, True]

    (block,) = re.findall(r"```\n\$ cat train\.json\n(.*?)```", PAGE, re.S)
    content, *commands = re.sub(r"\\\n", " ", block).split("$ python -m ")
    pathlib.Path("train.json").write_text(content, "utf-8")
    pathlib.Path("commands.json").write_text(json.dumps([shlex.split(command) for command in commands]))
    program = [sys.executable, TESTS / "commands_in_turn.py", "commands.json"]
    result = subprocess.run(program, capture_output=True, text=True)
    assert len(re.findall(r"^run_scripts\.\w+: 0$", result.stdout, re.M)) == len(commands), result.stderr
    named = set(re.findall(r"^\| `([\w./]+)`", PAGE.partition("| file in `output_dir` |")[2], re.M))
    assert {path for path in named if not pathlib.Path("squad", path).exists()} == set()
    assert '"HasAns_total": 1' in result.stdout
    assert '"best_f1_thresh"' in result.stdout
