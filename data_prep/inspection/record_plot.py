"""Statistics of records as a picture."""

import importlib.util
import math
import os
import warnings
from typing import Any

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError

_BLUE, _ORANGE, _GREY = "#3b6ea5", "#d9822b", "#8a8a8a"
_MOST_BARS = 64
# Every so many of the ranks that the summary has.
_RANKS_BETWEEN_NAMES = 9
_FAR_ABOVE = 4


def check_plotting() -> None:
    """Raises `InputError` when matplotlib is not installed; long work calls this before it starts."""
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError(
            "The picture needs matplotlib: pip install 'keras-bert-pipeline[plots]', or do without it: --noplot"
        )


def plot_summary(summary: dict[str, Any], title: str, path: str | os.PathLike) -> None:
    """Draws what `record_report.summarize` returned as a PNG: lengths, predictions, labels, frequencies.

    Raises:
        InputError: matplotlib is not installed, or the file cannot be written.
    """
    check_plotting()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = _panels(summary)
    num_rows = -(-len(panels) // 2)
    num_columns = min(len(panels), 2)
    figure = Figure(figsize=(5.6 * num_columns + 0.4, 3.5 * num_rows + 0.7), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, parse_math=False)
    axes = figure.subplots(num_rows, num_columns, squeeze=False).ravel()
    for axis, (draw, arguments) in zip(axes, panels, strict=False):
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=9)
        draw(axis, *arguments)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    with atomic_file(path) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # in the names of files
        figure.savefig(file, format="png", dpi=110)


def _panels(summary: dict[str, Any]) -> list[tuple]:
    panels = []
    if "lengths" in summary:
        panels.append((_draw_lengths, (summary["lengths"], summary["padding_share"])))
    if "predictions" in summary:
        panels.append((_draw_predicted_by_place, (summary["predictions"],)))
        panels.append((_draw_kinds, (summary["predictions"], summary.get("next_sentence_labels", {}))))
    for name, feature in summary["features"].items():
        if feature["length"] == [1, 1] and len(feature.get("counts", {})) > 1 and name != "next_sentence_labels":
            panels.append((_draw_labels, (name, feature["counts"])))
    if summary.get("tokens", {}).get("by_rank"):
        panels.append((_draw_frequencies, (summary["tokens"],)))
    if not panels:
        raise InputError("There is nothing to draw: the records have neither token ids nor labels. Use --noplot.")
    return panels


def _title(axis, text: str) -> None:
    axis.set_title(text, loc="left", fontsize=10, parse_math=False)


def _percent(axis) -> None:
    """Percent on the y axis from 0 on, with as many decimals as its ticks need."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    axis.set_ylim(bottom=0)
    locator = MaxNLocator(nbins=8, steps=[1, 2, 5, 10])
    first, second, *_ = locator.tick_values(0, axis.get_ylim()[1])
    decimals = max(0, math.ceil(-math.log10(100 * (second - first)) - 1e-6))
    axis.yaxis.set_major_locator(locator)
    axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=decimals))


def _draw_lengths(axis, lengths: dict[str, Any], padding_share: float) -> None:
    counts, low, high = lengths["histogram"], lengths["min"], lengths["max"]
    step = max(1, -(-(high - low + 1) // _MOST_BARS))
    starts = range(low, high + 1, step)
    shares = [sum(counts[start : start + step]) / sum(counts) for start in starts]
    axis.bar(starts, shares, width=step, align="edge", color=_BLUE, edgecolor="white", linewidth=0.3)
    highest, *others = sorted(shares, reverse=True)
    if others and highest > _FAR_ABOVE * others[0]:
        # Full rows are most of the records: the others would be a line at the bottom.
        axis.set_ylim(top=2 * others[0])
        start = starts[shares.index(highest)]
        _note(axis, f"{start}: {highest:.0%}", start + step, 1.06, "right", _BLUE)
    axis.axvline(lengths["mean"], color=_ORANGE, linewidth=1.2)
    side = "right" if lengths["mean"] > (low + high) / 2 else "left"
    _note(axis, f"mean {lengths['mean']:.1f}", lengths["mean"], 0.88, side, _ORANGE)
    axis.set_xlabel("tokens in a record", fontsize=9)
    _percent(axis)
    _title(axis, f"Lengths; padding is {padding_share:.1%} of the columns")


def _note(axis, text: str, x: float, height: float, side: str, color: str) -> None:
    """Writes beside a vertical line at x; `side` says which end of the text is there."""
    axis.annotate(
        text,
        (x, height),
        xycoords=("data", "axes fraction"),
        xytext=(-4 if side == "right" else 4, 0),
        textcoords="offset points",
        ha=side,
        va="top",
        fontsize=9,
        color=color,
    )


def _draw_predicted_by_place(axis, predictions: dict[str, Any]) -> None:
    shares = predictions["share_by_column"]
    axis.plot(range(len(shares)), shares, color=_BLUE, linewidth=1.2, drawstyle="steps-mid")
    axis.axhline(predictions["share_of_tokens"], color=_ORANGE, linewidth=1.0, linestyle="--")
    axis.set_xlabel("column", fontsize=9)
    axis.set_ylim(top=max(1.25 * max(shares), 1e-3))
    _percent(axis)
    _title(axis, f"Predicted share by column; {predictions['share_of_tokens']:.1%} of all tokens")


def _draw_kinds(axis, predictions: dict[str, Any], labels: dict[str, int]) -> None:
    bars = [
        ("[MASK]", predictions["masked_share"], _BLUE),
        ("the token itself", predictions["kept_share"], _BLUE),
        ("another token", predictions["replaced_share"], _BLUE),
    ]
    total = sum(labels.values())
    bars += [(f"next sentence {label}", count / total, _ORANGE) for label, count in labels.items()]
    _draw_bars(axis, bars)
    _title(axis, "What stands at predicted places" + ("; next-sentence labels" if labels else ""))


def _draw_labels(axis, name: str, counts: dict[str, int]) -> None:
    _draw_bars(axis, [(label, count / sum(counts.values()), _ORANGE) for label, count in counts.items()])
    _title(axis, name)


def _draw_bars(axis, bars: list[tuple[str, float, str]]) -> None:
    names, shares, colors = zip(*bars, strict=True)
    drawn = axis.barh(range(len(bars)), shares, color=colors, height=0.7)
    axis.bar_label(drawn, [f"{share:.1%}" for share in shares], padding=3, fontsize=9)
    axis.set_yticks(range(len(bars)), names)
    axis.invert_yaxis()
    axis.set_xlim(0, 1.15 * max(*shares, 0.01))
    axis.xaxis.set_visible(False)
    axis.spines["bottom"].set_visible(False)


def _draw_frequencies(axis, tokens: dict[str, Any]) -> None:
    by_rank = tokens["by_rank"]
    axis.loglog([token["rank"] for token in by_rank], [token["count"] for token in by_rank], color=_BLUE, linewidth=1.4)
    for token in by_rank[::_RANKS_BETWEEN_NAMES]:
        axis.annotate(
            _name(token),
            (token["rank"], token["count"]),
            xytext=(3, 5),
            textcoords="offset points",
            rotation=35,
            fontsize=8,
            color=_GREY,
            parse_math=False,
        )
    axis.set_ylim(top=by_rank[0]["count"] * 8)
    axis.set_xlabel("rank of the token", fontsize=9)
    axis.set_ylabel("times in the records", fontsize=9)
    used = f"{tokens['num_distinct']:,} tokens are used"
    _title(axis, f"{used} of {tokens['vocabulary_size']:,}" if "vocabulary_size" in tokens else used)


def _name(token: dict[str, Any]) -> str:
    """The token, or its id where it is not known or matplotlib's own font cannot write it, as Chinese."""
    from matplotlib.font_manager import findfont, get_font

    text = token["token"]
    glyphs = get_font(findfont("DejaVu Sans")).get_charmap()
    if text is None or not all(ord(character) in glyphs for character in text):
        return str(token["id"])
    return f'"{text}"' if len(text) == 1 else text
