"""Files of reports: TSV tables, human-readable tables, and pictures if matplotlib is installed."""

import importlib.util
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Sequence

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import how_to_install
from keras_bert.program.printing import printable

_logger = logging.getLogger(__name__)

_LONGEST_CELL = 200

BLUE, ORANGE, GREY = "#3b6ea5", "#d9822b", "#8a8a8a"


def write_table(path: str | os.PathLike, header: Sequence[str], rows: Iterable[Sequence]) -> None:
    """Writes a TSV file. Tabs and line breaks in values become spaces; floats get six significant digits."""
    with atomic_file(path) as file:
        for row in (header, *rows):
            file.write(("\t".join(map(_as_cell, row)) + "\n").encode("utf-8", "replace"))


def write_numbers(path: str | os.PathLike, rows: Iterable[Sequence[float]]) -> None:
    """Writes a TSV file of numbers without a header, in the format of google-research/bert's `test_results.tsv`."""
    with atomic_file(path) as file:
        # Nine digits restore a float32 exactly.
        file.writelines(("\t".join(f"{value:.9g}" for value in row) + "\n").encode() for row in rows)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text file atomically."""
    with atomic_file(path) as file:
        file.write(text.encode("utf-8", "replace"))


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
    """Writes a picture as PNG, or logs a warning if matplotlib is not installed.

    Args:
        path: the PNG file.
        size: width and height in inches.
        draw_on: called with the matplotlib axes to draw on.

    Returns:
        Whether the picture was written.
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


def _as_cell(value) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    # `splitlines` removes every kind of line break, since some readers break lines at unusual ones.
    return " ".join(str(value).replace("\t", " ").splitlines())


def _for_people(value) -> str:
    return f"{value:.4f}" if isinstance(value, float) else printable(" ".join(str(value).split()), _LONGEST_CELL)
