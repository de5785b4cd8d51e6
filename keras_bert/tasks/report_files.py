"""Files of reports: TSV tables, human-readable tables, and pictures if matplotlib is installed."""

import importlib.util
import itertools
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import how_to_install
from keras_bert.program.printing import printable

_logger = logging.getLogger(__name__)

_LONGEST_CELL = 200

# The most labels in a picture.
MOST_LABELS_DRAWN = 40

BLUE, ORANGE, GREY = "#3b6ea5", "#d9822b", "#8a8a8a"


def write_table(path: str | os.PathLike, header: Sequence[str], rows: Iterable[Sequence]) -> None:
    """Writes a TSV file. Tabs and line breaks in values become spaces; floats get six significant digits."""
    write_lines(path, ("\t".join(map(_as_cell, row)) for row in itertools.chain([header], rows)))


def write_numbers(path: str | os.PathLike, rows: Iterable[Sequence[float]]) -> None:
    """Writes a TSV file of numbers without a header, in the format of google-research/bert's `test_results.tsv`."""
    # Nine digits restore a float32 exactly.
    write_lines(path, ("\t".join(f"{value:.9g}" for value in row) for row in rows))


def write_lines(path: str | os.PathLike, lines: Iterable[str]) -> None:
    """Writes a text file atomically, with a line break after each line."""
    with atomic_file(path) as file:
        file.writelines(f"{line}\n".encode("utf-8", "replace") for line in lines)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text file atomically."""
    with atomic_file(path) as file:
        file.write(text.encode("utf-8", "replace"))


def write_errors(folder: str | os.PathLike, unit: str, columns: Mapping[str, Sequence], is_wrong: Sequence) -> int:
    """Writes errors.tsv: the wrong examples, the highest loss first. Returns how many there are.

    The first column, `unit`, is the number of the example from 1. `columns` are name -> N values, "loss" among them.
    """
    order = np.argsort(-np.asarray(columns["loss"]), kind="stable")
    wrong = [number for number in order.tolist() if is_wrong[number]]
    rows = ([number + 1, *(column[number] for column in columns.values())] for number in wrong)
    write_table(os.path.join(folder, "errors.tsv"), [unit, *columns], rows)
    return len(wrong)


def aligned(header: Sequence[str], rows: Sequence[Sequence]) -> str:
    """Returns a table in aligned columns: the first column is left-aligned, the others right-aligned.

    >>> print(aligned(["label", "f1"], [["yes", 0.5], ["no", 1.0]]), end="")
    label      f1
    yes    0.5000
    no     1.0000
    """
    cells = [[_for_people(value) for value in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in cells
    ]
    return "".join(line.rstrip() + "\n" for line in lines)


def has_matplotlib() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def draw(path: str | os.PathLike, size: tuple[float, float], draw_on: Callable) -> bool:
    """Writes a PNG picture and returns True; without matplotlib, logs a warning and returns False.

    `size` is in inches; `draw_on` is called with the matplotlib axes to draw on.
    """
    if not has_matplotlib():
        _logger.warning("%s was not drawn: pictures need matplotlib. %s", os.fspath(path), how_to_install("plots"))
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=9)
    draw_on(axis)
    with atomic_file(path) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # labels may be in any script
        figure.savefig(file, format="png", dpi=120)
    return True


def draw_labels(path: str | os.PathLike, table: Sequence[Sequence], title: str) -> None:
    """Draws the scores in a `label_table` of `tasks/classification/scores.py` as bars."""
    rows = [table[number] for number in largest_labels([row[4] + row[5] for row in table])]

    def on(axis):
        heights = np.arange(len(rows))
        bars = ((-0.25, 1, GREY, "precision"), (0, 2, ORANGE, "recall"), (0.25, 3, BLUE, "F1"))
        for offset, column, color, name in bars:
            axis.barh(heights + offset, np.nan_to_num([row[column] for row in rows]), 0.23, color=color, label=name)
        axis.set_yticks(heights, [f"{short_label(row[0])} ({row[4]})" for row in rows], parse_math=False)
        axis.invert_yaxis()
        axis.set_xlim(0, 1)
        axis.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        axis.set_title(f"{title}, and how often they occur", loc="left", fontsize=10)

    draw(path, (7.0, 1.4 + 0.5 * len(rows)), on)


def largest_labels(counts: Sequence[int]) -> np.ndarray:
    """Returns the indices, in ascending order, of at most `MOST_LABELS_DRAWN` labels with the largest counts."""
    return np.sort(np.argsort(-np.asarray(counts), kind="stable")[:MOST_LABELS_DRAWN])


def short_label(label: str) -> str:
    return label if len(label) <= 24 else label[:23] + "…"


def _as_cell(value) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    # `splitlines` removes every kind of line break, since some readers break lines at unusual ones.
    return " ".join(str(value).replace("\t", " ").splitlines())


def _for_people(value) -> str:
    return f"{value:.4f}" if isinstance(value, float) else printable(" ".join(str(value).split()), _LONGEST_CELL)
