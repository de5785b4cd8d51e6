"""docs/training.md is correct: its flags exist, and its scripts run."""

import json
import os
import re
import subprocess

import pytest
import tiny_pretraining
import yaml
from places import DOCS, PROJECT
from tiny_checkpoints import random_checkpoint

from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.program.option_flags import flag_names
from keras_bert.training.run_options import RunOptions
from keras_bert.training.strategies import check_tf_config

PAGE = (DOCS / "training.md").read_text("utf-8")
SCRIPTS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
OF_GOOGLE = {"use_tpu"}  # for command lines of google-research/bert: docs/coming_from.md has it


def flags_of(*names):
    code = "".join((PROJECT / "run_scripts" / f"{name}.py").read_text("utf-8") for name in names)
    return set(re.findall(r'(?:DEFINE_\w+|define_flag)\(\s*"(\w+)"', code))


def script_with(word):
    (script,) = [script for script in SCRIPTS if word in script]
    return compile(script, "docs/training.md", "exec")


def test_the_page_names_all_flags_that_runs_share():
    left_out = (flags_of("run_flags") | flag_names(RunOptions)) - set(re.findall(r"--(\w+)", PAGE)) - OF_GOOGLE
    assert not left_out, f"docs/training.md leaves out {left_out}"


def test_the_script_that_chooses_an_optimiser_runs():
    names = {}
    exec(script_with("OptimizerChoice"), names)
    assert names["options"].settings()["learning_rate_schedule"] == "cosine"


def test_the_script_with_keywords_of_keras_runs(tmp_path, monkeypatch, capsys):
    write_checkpoint(random_checkpoint(), tmp_path / "checkpoint")
    monkeypatch.chdir(tmp_path)
    exec(script_with("validation_split"), {})
    assert capsys.readouterr().out.count("LabelAnswer(label=") == 4


@pytest.mark.slow
def test_the_script_for_several_devices_runs(tmp_path, monkeypatch, capsys):
    (tmp_path / "records").mkdir()
    tiny_pretraining.write_records(tmp_path / "records" / "a.tfrecord")
    (tmp_path / "bert_config.json").write_text(json.dumps(tiny_pretraining.CONFIG.to_dict()))
    monkeypatch.chdir(tmp_path)
    exec(script_with("MirroredStrategy"), {})
    shown = capsys.readouterr().out
    assert "Epoch 2/2" in shown
    assert "masked_lm_accuracy" in shown


# Replaces a cluster of two nodes and the training: it prints its environment and arguments.
STAND_INS = {
    "scontrol": 'printf "node-a\\nnode-b\\n"',
    "srun": 'shift; for SLURM_PROCID in 0 1; do export SLURM_PROCID; "$@"; done',
    "python": 'printf "%s\\n%s\\n" "$TF_CONFIG" "$*"',
}


def started(program, folder, **environment):
    """Returns the TF_CONFIG and the flags of every worker that a shell script starts."""
    folder.mkdir(exist_ok=True)
    for name, script in STAND_INS.items():
        (folder / name).write_text(f"#!/bin/bash\n{script}\n")
        (folder / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"} | environment
    done = subprocess.run(["bash", "-c", program], env=environment, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    for config in lines[::2]:
        check_tf_config(config)
    return [json.loads(config) for config in lines[::2]], lines[1::2]


def check_workers(configs, commands, addresses):
    assert [config["task"]["index"] for config in configs] == [0, 1]
    assert all(config["cluster"] == {"worker": addresses} for config in configs)
    for command in commands:
        assert command.startswith("-m run_scripts.run_pretraining --do_train --distribution_strategy=multi_worker_")
        assert command.endswith("--output_dir=/shared/runs/base")


def test_the_script_for_slurm_tells_each_worker_which_it_is(tmp_path):
    (script,) = re.findall(r"```bash\n(.*?)```", PAGE, re.S)
    configs, commands = started(script, tmp_path / "bin", SLURM_JOB_NODELIST="node-[a-b]")
    check_workers(configs, commands, ["node-a:2222", "node-b:2222"])


def test_the_job_for_kubernetes_tells_each_worker_which_it_is(tmp_path):
    service, job = yaml.safe_load_all((PROJECT / "docker" / "two_workers.yaml").read_text("utf-8"))
    name, spec = job["metadata"]["name"], job["spec"]
    assert spec["completionMode"] == "Indexed"
    assert service["spec"]["selector"] == {"job-name": name}  # the label that a Job gives its pods
    pod = spec["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    (container,) = pod["containers"]
    assert container["command"] == ["bash", "-c"]
    (script,) = container["args"]
    found = [started(script, tmp_path / "bin", JOB_COMPLETION_INDEX=str(index)) for index in range(spec["completions"])]
    configs, commands = ([pair[part][0] for pair in found] for part in (0, 1))
    # An indexed Job names its pods by its own name and their index.
    check_workers(configs, commands, [f"{name}-{index}.{pod['subdomain']}:2222" for index in range(len(found))])
