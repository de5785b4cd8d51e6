"""Pictures of benchmarks: matplotlib (the extra `plots`) without a screen, saved whole or not at all."""

from keras_bert.atomic_output import atomic_file
from keras_bert.errors import InputError


def subplots(*args, **kwargs):
    """Returns matplotlib's `subplots(*args, **kwargs)`. Raises `InputError`: there is no matplotlib."""
    try:
        import matplotlib
    except ImportError:
        raise InputError("--plot needs matplotlib: pip install 'keras-bert-pipeline[plots]'") from None
    matplotlib.use("agg")
    import matplotlib.pyplot

    return matplotlib.pyplot.subplots(*args, **kwargs)


def save_figure(figure, path: str) -> None:
    with atomic_file(path) as file:
        figure.savefig(file, format="png", dpi=110, bbox_inches="tight")
