"""Files about the senses of a word: a table, the vectors, and a picture."""

import importlib.util
import os
import warnings
from collections.abc import Sequence

import numpy as np

from keras_bert.embeddings.word_senses import WordVectors
from keras_bert.program.atomic_output import atomic_folder, save_array
from keras_bert.program.errors import InputError, how_to_install

TABLE_FILE, VECTORS_FILE, PLOT_FILE = "senses.tsv", "vectors.npy", "senses.png"

_COLOURS = ("#3b6ea5", "#d9822b", "#5b8c5a", "#a23b72", "#8a8a8a", "#b8a13a", "#5f4b8b", "#2a9d8f")
_MOST_NAMES = 16  # of points in the picture
_MOST_TRIED = 100  # of points whose name may find no room
_CONTEXT = 24  # characters on either side of the word


def check_plotting() -> None:
    """Raises `InputError` when matplotlib is not installed; long work calls this before it starts."""
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError(f"The picture needs matplotlib; --noplot does without it. {how_to_install('plots')}")


def write_word_senses(
    path: str | os.PathLike,
    texts: Sequence[str],
    found: WordVectors,
    coordinates: np.ndarray,
    groups: np.ndarray,
    *,
    title: str,
    plot: bool = True,
) -> None:
    """Writes a new folder.

    `senses.tsv` has a line for each occurrence: text number from 0, start and end in it, group, coordinates x and y,
    and the text; `vectors.npy` holds the vectors, float32 [occurrences, H]; `senses.png` shows the coordinates.

    Args:
        path: a new or empty folder.
        texts: what the word was looked for in.
        found: from `word_vectors`.
        coordinates: float (N, 2), from `project`.
        groups: int (N,), from `cluster`; all 0 for none.
        title: of the picture.

    Raises:
        InputError: the folder cannot be written, or matplotlib is not installed.
    """
    with atomic_folder(path) as folder:
        save_array(os.path.join(folder, VECTORS_FILE), found.vectors)
        with open(os.path.join(folder, TABLE_FILE), "w", encoding="utf-8") as file:
            file.write("text\tstart\tend\tgroup\tx\ty\tsentence\n")
            for one, (x, y), group in zip(found.occurrences, coordinates, groups, strict=True):
                sentence = " ".join(texts[one.text_number].split())
                file.write(f"{one.text_number}\t{one.start}\t{one.end}\t{group}\t{x:.5f}\t{y:.5f}\t{sentence}\n")
        if plot:
            check_plotting()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Glyph .* missing from font")  # of other scripts
                figure = draw_word_senses(contexts_of(texts, found), coordinates, groups, title)
                figure.savefig(os.path.join(folder, PLOT_FILE), format="png", dpi=130)


def contexts_of(texts: Sequence[str], found: WordVectors) -> list[str]:
    """Returns each occurrence with a few words on either side: "... on the [bank] of the river ..."."""
    contexts = []
    for one in found.occurrences:
        text = texts[one.text_number]
        before, after = text[: one.start], text[one.end :]
        if len(before) > _CONTEXT:
            before = f"... {before[-_CONTEXT:].partition(' ')[2]}"
        if len(after) > _CONTEXT:
            after = f"{after[:_CONTEXT].rpartition(' ')[0]} ..."
        contexts.append(" ".join(f"{before}[{text[one.start : one.end]}]{after}".split()))
    return contexts


def draw_word_senses(contexts: Sequence[str], coordinates: np.ndarray, groups: np.ndarray, title: str):
    """Returns a figure of occurrences as points, a colour for each group, some of them with their context."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    axis.set_title(title, loc="left", parse_math=False)
    axis.set_xlabel("first principal component")
    axis.set_ylabel("second principal component")
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.18)
    for group in np.unique(groups):
        points = coordinates[groups == group]
        colour = _COLOURS[int(group) % len(_COLOURS)]
        label = f"group {group}: {len(points)} occurrences" if groups.max() else f"{len(points)} occurrences"
        axis.scatter(points[:, 0], points[:, 1], s=26, color=colour, alpha=0.75, linewidths=0, label=label)
    figure.legend(frameon=False, loc="outside lower center", ncols=4, fontsize=9)
    figure.canvas.draw()  # places are known only then, and must stay
    figure.set_layout_engine("none")
    _name_points(axis, contexts, coordinates)
    return figure


def _name_points(axis, contexts: Sequence[str], coordinates: np.ndarray) -> None:
    """Writes the context beside points that are far apart, where it overlaps no other and does not leave the axes."""
    taken = []
    for number in far_apart(coordinates, _MOST_TRIED):
        for place, alignment in (((4, 4), "left"), ((4, -10), "left"), ((-4, 4), "right"), ((-4, -10), "right")):
            name = axis.annotate(
                contexts[number],
                coordinates[number],
                xytext=place,
                textcoords="offset points",
                ha=alignment,
                fontsize=7,
                parse_math=False,
            )
            extent = name.get_window_extent()
            is_inside = axis.bbox.contains(*extent.min) and axis.bbox.contains(*extent.max)
            if is_inside and not extent.count_overlaps(taken):
                taken.append(extent)
                break
            name.remove()
        if len(taken) == _MOST_NAMES:
            return


def far_apart(coordinates: np.ndarray, count: int) -> list[int]:
    """Returns the numbers of points that are far from each other: first an outermost one, then always the farthest."""
    distances = np.linalg.norm(coordinates - coordinates.mean(axis=0), axis=1)
    chosen: list[int] = []
    while len(chosen) < min(count, len(coordinates)):
        chosen.append(int(np.argmax(distances)))
        distances = np.linalg.norm(coordinates[:, None] - coordinates[None, chosen], axis=2).min(axis=1)
    return chosen
