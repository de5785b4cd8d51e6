"""Pictures of benchmarks: matplotlib (the extra `plots`) without a screen, saved whole or not at all."""

from collections.abc import Mapping

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError


def subplots(*args, **kwargs):
    """Returns matplotlib's `subplots(*args, **kwargs)`. Raises `InputError`: there is no matplotlib."""
    try:
        import matplotlib
    except ImportError:
        raise InputError("--plot needs matplotlib: pip install 'keras-bert-pipeline[plots]'") from None
    matplotlib.use("agg")
    import matplotlib.pyplot

    return matplotlib.pyplot.subplots(*args, **kwargs)


def save_bars(panels: Mapping[str, Mapping[str, float]], label: str, path: str) -> None:
    """Draws a panel for each title, with a bar for each name; `label` says what is measured."""
    figure, all_axes = subplots(1, len(panels), figsize=(1 + 4.5 * len(panels), 3), squeeze=False)
    for axes, (title, bars) in zip(all_axes[0], panels.items(), strict=True):
        axes.barh(list(bars), list(bars.values()))
        axes.invert_yaxis()
        axes.set_xlabel(label)
        axes.set_title(title)
    figure.tight_layout()
    save_figure(figure, path)


def save_figure(figure, path: str) -> None:
    with atomic_file(path) as file:
        figure.savefig(file, format="png", dpi=110, bbox_inches="tight")
