"""A grid of runs: all combinations, each run once, and tables that name the best."""

import math
import os

import pytest

from keras_bert.program.errors import InputError
from keras_bert.training.fine_tuning_options import Grid
from keras_bert.training.grid import Cell, best_cell, cells, run_grid


def test_the_papers_grid_has_eighteen_runs_per_seed():
    grid = cells(Grid())
    assert len(grid) == 18
    assert {cell.train_batch_size for cell in grid} == {16, 32}
    assert {cell.learning_rate for cell in grid} == {5e-5, 3e-5, 2e-5}
    assert {cell.num_train_epochs for cell in grid} == {2, 3, 4}
    assert len({cell.name for cell in cells(Grid(seeds=[1, 2, 3]))}) == 54
    assert grid[0].name == "batch16-rate5e-05-epochs2-seed12345"


GRID = cells(Grid([16, 32], [5e-5], [2], seeds=[1, 2]))
SCORES = dict(zip(GRID, [0.9, 0.5, 0.6, 0.85], strict=True))


def run_cell(folder, cell):
    return {"accuracy": SCORES[cell], "loss": 1 - SCORES[cell]}


def test_the_best_settings_are_those_with_the_highest_mean_and_not_with_one_lucky_seed(tmp_path):
    # 16: 0.9 and 0.5; 32: 0.6 and 0.85
    assert run_grid(tmp_path, GRID, run_cell, "accuracy") == Cell(32, 5e-5, 2, 2)
    text = (tmp_path / "grid.txt").read_text()
    assert text.splitlines()[0].split() == ["batch", "rate", "epochs", "seeds", "accuracy", "deviation"]
    assert text.splitlines()[1].split() == ["32", "5e-05", "2", "2", "0.7250", "0.1768"]
    assert "4 of 4 runs are done" in text
    assert "0.8500, batch32-rate5e-05-epochs2-seed2" in text
    lines = [line.split("\t") for line in (tmp_path / "grid.tsv").read_text().splitlines()]
    assert lines[1] == ["16", "5e-05", "2", "1", "0.9", "0.1", "batch16-rate5e-05-epochs2-seed1"]
    assert len(lines) == 5
    assert (tmp_path / "grid.png").read_bytes().startswith(b"\x89PNG")


def test_while_a_grid_runs_its_folder_is_refused_to_others(tmp_path):
    def run_another(folder, cell):
        with pytest.raises(InputError, match="Another process is writing to .*grid. Wait for it, or use"):
            run_grid(tmp_path / "grid", GRID, run_cell, "accuracy")
        return run_cell(folder, cell)

    run_grid(tmp_path / "grid", GRID, run_another, "accuracy")
    assert ".lock" not in os.listdir(tmp_path / "grid")


def test_finished_runs_are_not_repeated(tmp_path):
    done = []

    def run_until_killed(folder, cell):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(cell)
        return run_cell(folder, cell)

    with pytest.raises(KeyboardInterrupt):
        run_grid(tmp_path, GRID, run_until_killed, "accuracy")
    assert "2 of 4 runs are done" in (tmp_path / "grid.txt").read_text()

    def run_rest(folder, cell):
        assert cell not in done
        return run_cell(folder, cell)

    assert run_grid(tmp_path, GRID, run_rest, "accuracy") == Cell(32, 5e-5, 2, 2)


def test_an_undefined_score_stays_undefined_when_the_grid_continues(tmp_path):
    undefined = {**SCORES, GRID[0]: math.nan}
    run_grid(tmp_path, GRID, lambda folder, cell: {"accuracy": undefined[cell]}, "accuracy")
    table = (tmp_path / "grid.tsv").read_text()
    run_grid(tmp_path, GRID, None, "accuracy")
    assert (tmp_path / "grid.tsv").read_text() == table
    assert "\tnan\t" in table


def test_a_run_that_diverged_is_never_the_best():
    results = {cell: {"accuracy": score} for cell, score in zip(GRID, [math.nan, 0.1, 0.2, 0.3], strict=True)}
    assert best_cell(results, "accuracy") == GRID[3]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: Grid(seeds=[]), "one or more different seeds"),
        (lambda path: Grid(seeds=[1, -1]), "seed must be a whole number .* Received: -1"),
        (lambda path: Grid(batch_sizes=[16, 16]), r"one or more different batch sizes. Received: \[16, 16\]"),
        (lambda path: run_grid(path, GRID, run_cell, "f1"), "no score 'f1' in .* Use one of: accuracy, loss"),
    ],
)
def test_invalid_grids_are_refused(tmp_path, make, message):
    with pytest.raises(InputError, match=message):
        make(tmp_path)
