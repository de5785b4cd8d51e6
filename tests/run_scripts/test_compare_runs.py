"""Two runs side by side: settings that differ, curves and scores. Runs of different tasks are refused."""

import json

import pytest

from run_scripts import compare_runs as command
from run_scripts.compare_runs import compare_runs


def write_run(folder, losses, scores, **settings):
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"run": "tagging", "config": {"width": 8}, **settings}))
    lines = [json.dumps({"step": step, "loss": loss, "learning_rate": 0.1}) for step, loss in losses.items()]
    (folder / "history.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (folder / "evaluations.jsonl").write_text('{"step": 2, "f1": 0.5}\n')
    (folder / "eval_results.txt").write_text("".join(f"{name} = {value}\n" for name, value in scores.items()))
    return folder


@pytest.fixture
def runs(tmp_path):
    first = write_run(tmp_path / "a", {1: 0.75, 2: 0.5}, {"eval_f1": 0.5}, learning_rate=0.1)
    config = {"width": 16}
    return first, write_run(
        tmp_path / "b", {2: 0.25}, {"eval_f1": 0.75, "loss": 0.25}, learning_rate=0.1, config=config
    )


def test_what_differs_is_shown(runs, tmp_path, run_here):
    found = compare_runs(*runs)
    assert found.settings == {"config.width": (8, 16)}
    assert found.scores == {"eval_f1": (0.5, 0.75), "loss": (None, 0.25)}
    assert found.curves[0] == {"loss": [(1, 0.75), (2, 0.5)], "eval_f1": [(2, 0.5)]}
    code, printed = run_here(command, *runs, f"--picture={tmp_path}/curves.png")
    assert code == 0, printed.err
    lines = [line.split("  ") for line in printed.out.splitlines()]
    cells = {line[0]: [cell.strip() for cell in line[1:] if cell] for line in lines}
    assert cells["config.width"] == ["8", "16"]
    assert cells["loss, step 1"] == ["0.75", "-"]
    assert cells["eval_f1, step 2"] == ["0.5", "0.5"]
    pytest.importorskip("matplotlib")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_equals_itself_and_long_curves_are_thinned_out_from_their_end(tmp_path):
    run = write_run(tmp_path / "a", dict.fromkeys(range(1, 101), 0.5), {})
    text = str(compare_runs(run, run))
    assert "Settings that differ: none" in text
    steps = [line.split()[2] for line in text.splitlines() if line.startswith("loss, step")]
    assert steps[-1] == "100"
    assert len(steps) <= 12


def test_runs_of_different_tasks_and_other_folders_are_refused(runs, tmp_path, run_here):
    other = write_run(tmp_path / "c", {}, {}, run="classification")
    code, printed = run_here(command, runs[0], other)
    assert code == 1
    assert "error: The runs are of different tasks: tagging in " in printed.err
    code, printed = run_here(command, runs[0], tmp_path)
    assert code == 1
    assert "holds no run: it has no run.json" in printed.err
    assert run_here(command, runs[0])[0] == 2
