"""What docs/training.md says is so: its flags exist, its scripts run."""

import json
import pathlib
import re

import tiny_pretraining

PROJECT = pathlib.Path(__file__).resolve().parent.parent
PAGE = (PROJECT / "docs" / "training.md").read_text("utf-8")
SCRIPTS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
OF_SLURM = {"nodes", "ntasks", "requeue", "signal", "kill"}


def flags_of(*names):
    code = "".join((PROJECT / "run_scripts" / f"{name}.py").read_text("utf-8") for name in names)
    return set(re.findall(r'DEFINE_\w+\(\s*"(\w+)"', code))


def script_with(word):
    (script,) = [script for script in SCRIPTS if word in script]
    return compile(script, "docs/training.md", "exec")


def test_the_page_names_flags_that_exist_and_all_that_commands_share():
    shared = flags_of("optimizer_flags", "strategy_flags")
    defined = shared | flags_of("fine_tuning_flags", "run_pretraining", "launch_workers")
    named = set(re.findall(r"--(\w+)", PAGE)) - OF_SLURM
    assert named <= defined, f"docs/training.md names flags that there are not: {named - defined}"
    assert shared <= named, f"docs/training.md leaves out {shared - named}"


def test_the_script_that_chooses_an_optimiser_runs():
    names = {}
    exec(script_with("OptimizerChoice"), names)
    assert names["options"].settings()["learning_rate_schedule"] == "cosine"


def test_the_script_for_several_devices_runs(tmp_path, monkeypatch, capsys):
    (tmp_path / "records").mkdir()
    tiny_pretraining.write_records(tmp_path / "records" / "a.tfrecord")
    (tmp_path / "bert_config.json").write_text(json.dumps(tiny_pretraining.CONFIG.to_dict()))
    monkeypatch.chdir(tmp_path)
    exec(script_with("MirroredStrategy"), {})
    shown = capsys.readouterr().out
    assert "Epoch 2/2" in shown
    assert "masked_lm_accuracy" in shown
