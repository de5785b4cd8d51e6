"""Statistics of records as a picture."""

import os
from typing import Any

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError, how_to_install


def check_plotting() -> None:
    """Raises `InputError` if matplotlib is not installed. Commands call this before long work."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(f"The picture needs matplotlib; --noplot does without it. {how_to_install('plots')}") from None


def plot_summary(summary: dict[str, Any], path: str | os.PathLike) -> None:
    """Draws what `record_report.summarize` returned as a PNG: lengths, kinds of predicted tokens and labels.

    Raises:
        InputError: matplotlib is not installed, there is nothing to draw, or the file cannot be written.
    """
    check_plotting()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = {}
    if "lengths" in summary:
        panels["Tokens in a record"] = summary["lengths"]["histogram"]
    if "predicted_tokens" in summary:
        panels["Tokens at predicted positions"] = summary["predicted_tokens"]
    for name, feature in summary["features"].items():
        if feature["length"] == [1, 1] and len(feature.get("counts", {})) > 1:
            panels[name] = feature["counts"]
    if not panels:
        raise InputError("There is nothing to draw: the records have neither token ids nor labels. Use --noplot.")
    figure = Figure(figsize=(6, 3.5 * len(panels) + 0.7), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{summary['num_records']:,} records")
    for (title, counts), axis in zip(panels.items(), figure.subplots(len(panels), squeeze=False)[:, 0], strict=True):
        shares = [count / sum(counts.values()) for count in counts.values()]
        axis.bar_label(axis.barh(list(counts), shares), [f"{share:.1%}" for share in shares], padding=3)
        axis.invert_yaxis()
        axis.margins(x=0.15)
        axis.set_title(title, loc="left", parse_math=False)
    with atomic_file(path) as file:
        figure.savefig(file, format="png", dpi=110)
