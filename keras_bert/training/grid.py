"""Runs training with many settings, and compares the scores in a table and a picture."""

import dataclasses
import itertools
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.json_files import read_json_object, write_json
from keras_bert.tasks.report_files import aligned, draw, write_table, write_text
from keras_bert.training.fine_tuning_options import Grid
from keras_bert.training.run_folder import exclusive_training

_RESULT_FILE = "grid_result.json"


@dataclasses.dataclass(frozen=True, order=True)
class Cell:
    """The settings of one run."""

    train_batch_size: int
    learning_rate: float
    num_train_epochs: float
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        return (
            f"batch{self.train_batch_size}-rate{self.learning_rate:g}-epochs{self.num_train_epochs:g}-seed{self.seed}"
        )


def cells(grid: Grid) -> list[Cell]:
    """Returns all combinations of the settings."""
    return [Cell(*values) for values in itertools.product(*dataclasses.asdict(grid).values())]


@exclusive_training
def run_grid(
    output_dir: str | os.PathLike,
    grid: Sequence[Cell],
    run_cell: Callable[[str, Cell], Mapping[str, float]],
    main_score: str,
) -> Cell:
    """Runs every cell in its own folder and writes tables of the scores.

        CELL/            the run folder of a cell
        grid.tsv         a line per cell
        grid.txt         a line per setting: mean and standard deviation over the seeds, the best first
        grid.png         the same as a picture

    Finished cells are not run again, and an interrupted cell is continued. The tables are written after each cell.

    Args:
        run_cell: trains and evaluates in a folder, and returns the scores.
        main_score: name of the score that decides; more is better.

    Returns:
        The best cell: the seed with the highest score among the settings with the highest mean over the seeds.

    Raises:
        InputError: there is no such score, the files cannot be written, another process trains in the folder, or
            `run_cell` raises it.
    """
    results: dict[Cell, dict[str, float]] = {}
    for number, cell in enumerate(grid, start=1):
        folder = os.path.join(output_dir, cell.name)
        path = os.path.join(folder, _RESULT_FILE)
        if os.path.isfile(path):
            scores = {name: math.nan if value is None else value for name, value in read_json_object(path).items()}
        else:
            print(f"grid: run {number} of {len(grid)}, {cell.name}", file=sys.stderr)
            scores = {name: float(value) for name, value in run_cell(folder, cell).items()}
            # JSON has no NaN.
            write_json(path, {name: value if math.isfinite(value) else None for name, value in scores.items()})
        if main_score not in scores:
            raise InputError(f"There is no score {main_score!r} in {folder}. Use one of: {', '.join(scores)}.")
        results[cell] = scores
        _write_tables(output_dir, results, main_score, len(grid))
    _draw(os.path.join(output_dir, "grid.png"), results, main_score)
    return best_cell(results, main_score)


def best_cell(results: Mapping[Cell, Mapping[str, float]], main_score: str) -> Cell:
    """Returns the best seed of the best settings; see `run_grid`."""
    best_setting = _settings(results, main_score)[0][0]
    candidates = [cell for cell in results if _setting(cell) == best_setting]
    return max(candidates, key=lambda cell: _or_lowest(results[cell][main_score]))


def _settings(results, main_score: str) -> list[tuple]:
    """Returns (setting, scores of its seeds) for all settings, the highest mean first."""
    groups: dict[tuple, list[float]] = {}
    for cell, scores in results.items():
        groups.setdefault(_setting(cell), []).append(scores[main_score])
    return sorted(groups.items(), key=lambda item: -_or_lowest(float(np.mean(item[1]))))


def _setting(cell: Cell) -> tuple:
    return cell.train_batch_size, cell.learning_rate, cell.num_train_epochs


def _or_lowest(score: float) -> float:
    return -math.inf if math.isnan(score) else score


def _write_tables(output_dir, results, main_score: str, num_cells: int) -> None:
    names = list(dict.fromkeys(name for scores in results.values() for name in scores))
    write_table(
        os.path.join(output_dir, "grid.tsv"),
        ["train_batch_size", "learning_rate", "num_train_epochs", "seed", *names, "folder"],
        [
            [*_setting(cell), cell.seed, *(scores.get(name, math.nan) for name in names), cell.name]
            for cell, scores in results.items()
        ],
    )
    rows = [
        [f"{batch_size}", f"{rate:g}", f"{epochs:g}", len(scores), float(np.mean(scores)), _deviation(scores)]
        for (batch_size, rate, epochs), scores in _settings(results, main_score)
    ]
    best = best_cell(results, main_score)
    text = aligned(["batch", "rate", "epochs", "seeds", main_score, "deviation"], rows)
    text += f"\n{len(results)} of {num_cells} runs are done. The best {main_score} of the best settings: "
    text += f"{results[best][main_score]:.4f}, {best.name}\n"
    write_text(os.path.join(output_dir, "grid.txt"), text)


def _deviation(scores: list[float]) -> float:
    return float(np.std(scores, ddof=1)) if len(scores) > 1 else math.nan


def _draw(path: str, results, main_score: str) -> None:
    settings = dict(_settings(results, main_score))
    lines = sorted({(batch_size, epochs) for batch_size, _, epochs in settings})

    def plot(axis):
        rates = sorted({rate for _, rate, _ in settings})
        for number, (batch_size, epochs) in enumerate(lines):
            scores = [settings.get((batch_size, rate, epochs), [math.nan]) for rate in rates]
            axis.errorbar(
                # Points are shifted sideways, so that error bars do not hide each other.
                np.arange(len(rates)) + 0.04 * (number - (len(lines) - 1) / 2),
                [np.mean(values) for values in scores],
                yerr=[np.nan_to_num(_deviation(values)) for values in scores],
                marker="o",
                capsize=3,
                label=f"batch {batch_size}, {epochs:g} epochs",
            )
        axis.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
        axis.set_xlabel("learning rate")
        axis.set_ylabel(main_score)
        axis.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        axis.set_title(f"{main_score}: mean and deviation over the seeds", loc="left", fontsize=10)

    draw(path, (7.6, 4.2), plot)
