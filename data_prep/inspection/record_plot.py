"""Statistics of records as a picture."""

import os
import warnings
from typing import Any

import numpy as np

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError

_BLUE, _ORANGE = "#3b6ea5", "#d9822b"
_MOST_BARS = 64


def check_plotting() -> None:
    """Raises `InputError` if matplotlib is not installed. Commands call this before long work."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(
            "The picture needs matplotlib: pip install 'keras-bert-pipeline[plots]', or do without it: --noplot"
        ) from None


def plot_summary(summary: dict[str, Any], title: str, path: str | os.PathLike) -> None:
    """Draws what `record_report.summarize` returned as a PNG: lengths, predictions by column, kinds and labels.

    Raises:
        InputError: matplotlib is not installed, there is nothing to draw, or the file cannot be written.
    """
    check_plotting()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    bars = _bars(summary)
    draw_others = [draw for name, draw in (("lengths", _lengths), ("predictions", _columns)) if name in summary]
    num_panels = len(bars) + len(draw_others)
    if not num_panels:
        raise InputError("There is nothing to draw: the records have neither token ids nor labels. Use --noplot.")
    shape = -(-num_panels // 2), min(num_panels, 2)
    figure = Figure(figsize=(5.6 * shape[1] + 0.4, 3.5 * shape[0] + 0.7), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, parse_math=False)
    axes = figure.subplots(*shape, squeeze=False).ravel()
    for draw, axis in zip(draw_others, axes, strict=False):
        draw(axis, summary)
    for (name, shares), axis in zip(bars.items(), axes[len(draw_others) :], strict=False):
        drawn = axis.barh([str(label) for label in shares], list(shares.values()), color=_BLUE)
        axis.bar_label(drawn, [f"{share:.1%}" for share in shares.values()], padding=3)
        axis.invert_yaxis()
        axis.set_xlim(0, 1.15 * max(*shares.values(), 0.01))
        axis.set_title(name, loc="left", fontsize=10, parse_math=False)
    for axis in axes[num_panels:]:
        axis.set_axis_off()
    with atomic_file(path) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # in the names of files
        figure.savefig(file, format="png", dpi=110)


def _bars(summary: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Returns title -> label -> share, for every panel of bars."""
    bars = {}
    if "predictions" in summary:
        names = ("[MASK]", "masked_share"), ("the token itself", "kept_share"), ("another token", "replaced_share")
        bars["Tokens at predicted positions"] = {label: summary["predictions"][name] for label, name in names}
    for name, feature in summary["features"].items():
        counts = feature.get("counts", {})
        if feature["length"] == [1, 1] and len(counts) > 1:
            bars[name] = {label: count / sum(counts.values()) for label, count in counts.items()}
    return bars


def _lengths(axis, summary: dict[str, Any]) -> None:
    lengths = summary["lengths"]
    counts = np.array(lengths["histogram"])
    width = max(1, -(-len(counts) // _MOST_BARS))
    shares = np.add.reduceat(counts, np.arange(0, len(counts), width)) / counts.sum()
    axis.bar(width * np.arange(len(shares)), shares, width=width, align="edge", color=_BLUE)
    axis.axvline(lengths["mean"], color=_ORANGE)
    axis.set_yscale("log")  # full rows are most of the records
    axis.set_xlabel("tokens in a record")
    axis.set_title(
        f"Lengths, mean {lengths['mean']:.1f}; {summary['padding_share']:.1%} padding", loc="left", fontsize=10
    )


def _columns(axis, summary: dict[str, Any]) -> None:
    predictions = summary["predictions"]
    axis.plot(predictions["share_by_column"], color=_BLUE, drawstyle="steps-mid")
    axis.axhline(predictions["share_of_tokens"], color=_ORANGE, linestyle="--")
    axis.set_ylim(bottom=0)
    axis.set_xlabel("column")
    axis.set_title("Share of tokens that are predicted", loc="left", fontsize=10)
