"""docs/classification.md is correct: its scripts and commands run unchanged."""

import json
import re
import shlex
import subprocess
import sys

import pytest
import tiny
from places import DOCS

from keras_bert.encoders.bert.encoder import BertEncoder

PAGE = (DOCS / "classification.md").read_text("utf-8")
WORDS = ["a", "lovely", "film", "dull", "from", "start", "to", "end", "what", "the", "is", "and"]

# All in one process, so TensorFlow loads once; and eagerly, because making a graph takes longer than a few updates.
RUN_ALL = """
import json, os, sys, warnings
import tensorflow as tf
from absl import flags
from run_scripts.run_classifier import command

tf.config.run_functions_eagerly(True)
warnings.filterwarnings("ignore", "Even though the `tf.config.experimental_run_functions_eagerly`")  # but for tf.data
for folder, what in json.loads(sys.argv[1]):
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, "checkpoint")):
        os.symlink(os.path.abspath("checkpoint"), os.path.join(folder, "checkpoint"))
    os.chdir(folder)
    if isinstance(what, str):
        exec(compile(what, "classification.md", "exec"), {})
    else:
        flags.FLAGS.remove_flag_values(list(flags.FLAGS))
        sys.argv = ["run_classifier", *what]
        command()
    os.chdir("..")
"""


def test_the_scripts_have_at_most_ten_lines():
    for script in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        assert len([line for line in script.splitlines() if line]) <= 10


@pytest.mark.slow
def test_the_scripts_and_commands_run_and_the_first_command_writes_what_the_page_says(tmp_path):
    vocabulary = tiny.vocabulary(*WORDS)
    config = tiny.config(vocabulary, hidden_size=8, num_hidden_layers=2, max_position_embeddings=128)
    BertEncoder(config).save_pretrained(tmp_path / "checkpoint", vocabulary)
    scripts = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(scripts) == 6
    jobs = [(f"script{number}", script) for number, script in enumerate(scripts)]
    for number, block in enumerate(re.findall(r"```\n\$ cat (.*?)```", PAGE, re.S)):
        content, command = block.split("$ python -m run_scripts.run_classifier ")
        name, _, content = content.partition("\n")
        file = tmp_path / f"command{number}" / name
        file.parent.mkdir(parents=True)
        file.write_text(content, "utf-8")
        jobs.append((f"command{number}", shlex.split(command.replace("\\\n", " "))))
    result = subprocess.run(
        [sys.executable, "-c", RUN_ALL, json.dumps(jobs)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    run = tmp_path / "command0" / "runs" / "films"
    for name in ("model", "eval_results.txt", "test_results.tsv", "test_predictions.tsv", "history.jsonl"):
        assert (run / name).exists()
    report = {path.name for path in (run / "eval_report").iterdir()}
    assert {"report.txt", "confusion_matrix.tsv", "labels.tsv", "errors.tsv"} <= report
    results = dict(line.split(" = ") for line in (run / "eval_results.txt").read_text().splitlines())
    assert {"eval_accuracy", "eval_f1", "eval_matthews", "eval_loss", "global_step", "loss"} <= set(results)
    assert (run / "test_predictions.tsv").read_text().startswith("text\tlabel\tprobability\na lovely film\t")
