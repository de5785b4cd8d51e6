"""The metrics of a run in experiment trackers.

The trackers' packages are large and not installed for the tests. So a stand-in module records the calls here;
`KERAS_BERT_TRACKERS_PYTHON`, a Python that has them, runs the real ones offline.
"""

import os
import subprocess
import sys
import types

import pytest
from places import PROJECT

from keras_bert import InputError
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.trackers import TRACKERS, check_trackers


class Recorder(types.ModuleType):
    """A module whose functions record their calls."""

    def __init__(self, name):
        super().__init__(name)
        self.calls = []

    def __getattr__(self, function):
        if function.startswith("__"):
            raise AttributeError(function)

        def record(*arguments, **named):
            self.calls.append((function, arguments, named))
            return types.SimpleNamespace(info=types.SimpleNamespace(run_id="run-7"))

        return record

    def of(self, function):
        return [(arguments, named) for name, arguments, named in self.calls if name == function]


@pytest.fixture
def module(request, monkeypatch):
    recorder = Recorder(request.param)
    monkeypatch.setitem(sys.modules, request.param, recorder)
    return recorder


def run(name, folder):
    tracker = TRACKERS[name](str(folder), {"learning_rate": 0.01})
    tracker.write({"loss": 0.5}, 10)
    tracker.close()


@pytest.mark.parametrize("module", ["wandb", "trackio"], indirect=True)
def test_a_run_is_opened_logged_and_closed_and_a_resumed_one_continues_it(module, tmp_path):
    run(module.__name__, tmp_path)
    run(module.__name__, tmp_path)
    (_, first), (_, second) = module.of("init")
    key = "id" if module.__name__ == "wandb" else "name"
    assert first[key] == second[key]
    assert first["resume"] == "allow"
    assert first["config"] == {"learning_rate": 0.01}
    assert module.of("log") == [(({"loss": 0.5},), {"step": 10})] * 2
    assert len(module.of("finish")) == 2


@pytest.mark.parametrize("module", ["mlflow"], indirect=True)
def test_mlflow_continues_the_run_that_it_began(module, tmp_path):
    run("mlflow", tmp_path)
    run("mlflow", tmp_path)
    first, second = (named["run_id"] for _, named in module.of("start_run"))
    assert (first, second) == (None, "run-7")
    assert module.of("log_params") == [(({"learning_rate": 0.01},), {})]
    assert module.of("log_metrics") == [(({"loss": 0.5},), {"step": 10})] * 2
    assert len(module.of("end_run")) == 2


def test_a_missing_package_and_an_unknown_tracker_are_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match=r"--track=wandb needs the package wandb.*pip install wandb"):
        TRACKERS["wandb"](str(tmp_path))
    with pytest.raises(InputError, match="Unknown tracker comet. Use one or more of: tensorboard, wandb, mlflow, "):
        check_trackers(("wandb", "comet"))


@pytest.mark.parametrize("name", ["wandb", "mlflow", "trackio"])
def test_the_real_tracker_takes_a_run_offline(name, tmp_path):
    python = os.environ.get("KERAS_BERT_TRACKERS_PYTHON")
    if not python:
        pytest.skip("KERAS_BERT_TRACKERS_PYTHON is not set: a Python with wandb, mlflow and trackio")
    program = (
        "import sys; from keras_bert.training.trackers import TRACKERS\n"
        "for step in (1, 2):\n"
        "    tracker = TRACKERS[sys.argv[1]](sys.argv[2], {'rate': 0.1})\n"
        "    tracker.write({'loss': 1.0 / step}, step)\n"
        "    tracker.close()\n"
    )
    project = str(PROJECT)
    environment = {
        **os.environ,
        "PYTHONPATH": project,
        "WANDB_MODE": "offline",
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db",
        "TRACKIO_DIR": str(tmp_path / "trackio"),
    }
    result = subprocess.run(
        [python, "-c", program, name, str(tmp_path)], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert any(tmp_path.rglob({"wandb": "*.wandb", "mlflow": "mlflow.db", "trackio": "*.db"}[name]))


def test_trackers_and_run_json_get_no_passwords_and_another_signature_resumes(tmp_path):
    for sig in ("abc", "123"):
        folder = RunFolder(tmp_path / "run", {"init_checkpoint": f"https://ada:word@host/x?sig={sig}"})
        assert folder.settings == {"init_checkpoint": "https://***@host/x?sig=***"}
        assert "word" not in (tmp_path / "run" / "run.json").read_text("utf-8")
