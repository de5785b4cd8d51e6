"""Vectors in fewer dimensions, and pictures of them: a map of an index, and points with names."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.embeddings.similar_pairs import communities
from keras_bert.program.atomic_output import check_output_file
from keras_bert.program.errors import InputError, how_to_install
from keras_bert.program.options import check_whole
from keras_bert.tasks.embedding.static_distillation import principal_components
from keras_bert.tasks.report_files import BLUE, GREY, ORANGE, draw, has_matplotlib

_COLOURS = (BLUE, ORANGE, "#5b8c5a", "#a23b72", "#2a9d8f", "#b8a13a", "#5f4b8b", "#c05746")
_MOST_NAMES = 16  # of points in the picture
_MOST_TRIED = 100  # of points whose name may find no room
_LONGEST_NAME = 32  # characters of a text in a map
_FEW_POINTS = 5  # t-SNE needs some neighbours


def draw_map(
    index: Any, path: str | os.PathLike, *, threshold: float = 0.75, min_size: int = 10, max_points: int = 1000
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws the texts of an index as points: similar ones lie near each other, and large communities have colours.

    The coordinates are those of t-SNE (scikit-learn), below five texts principal components.

    Args:
        index: a `VectorIndex`.
        path: the PNG file.
        threshold, min_size: of the communities, see `similar_pairs.communities`.
        max_points: of more texts a random sample is drawn; the title says so.

    Returns:
        for each point its row in the index, int64 (n,), its coordinates, float32 (n, 2), and the number of its
        community, int64 (n,): 0 is the largest, and -1 is none.

    Raises:
        InputError: matplotlib is missing, a number is out of range, or the file cannot be written.

    Reference: van der Maaten and Hinton, 2008, "Visualizing Data using t-SNE".
    """
    check_plotting()
    check_whole("max_points", max_points, at_least=1)
    check_output_file(path)
    of_index = index.rows  # another thread may change the index
    rows, title = of_index.live, f"{len(of_index):,} texts"
    if len(rows) > max_points:
        rows = np.sort(np.random.default_rng(0).choice(rows, max_points, replace=False))
        title = f"A sample of {max_points:,} of {title}"
    vectors = of_index.search[rows]
    found = communities(vectors, threshold=threshold, min_size=min_size)
    groups = np.full(len(rows), -1)
    for group, members in enumerate(found):
        groups[members] = group
    column = of_index.table["text"]
    texts = [" ".join(column[row].as_py().split()) for row in rows.tolist()]
    names = [text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]} ..." for text in texts]
    largest = enumerate(found[: len(_COLOURS)])
    labels = {group: f"{len(members)} around: {names[members[0]]}" for group, members in largest}
    coordinates = _neighbours_together(vectors)
    draw(path, (10, 7), lambda axis: draw_points(axis, names, coordinates, groups, labels, title))
    return rows, coordinates, groups


def _neighbours_together(vectors: np.ndarray) -> np.ndarray:
    from sklearn.manifold import TSNE  # only now, since few need it
    from threadpoolctl import threadpool_limits

    if len(vectors) < _FEW_POINTS:
        return project(vectors)
    with threadpool_limits(1):  # beside other programs, its threads would wait for each other
        return TSNE(perplexity=min(30, (len(vectors) - 1) / 3), random_state=0).fit_transform(vectors)


def project(vectors: np.ndarray, dimensions: int = 2) -> np.ndarray:
    """Returns the coordinates of vectors along the directions in which they differ most (principal components).

    float (N, H) becomes float32 (N, dimensions), filled up with zeros where there are fewer directions. The sign of a
    direction is such that its largest coordinate is positive. Raises `InputError` if there are no vectors.
    """
    if not len(vectors):
        raise InputError("A projection needs one vector or more. Received: none")
    found = principal_components(np.asarray(vectors), dimensions)
    extremes = found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])]
    coordinates = np.zeros((len(found), dimensions), np.float32)
    coordinates[:, : found.shape[1]] = found * np.where(extremes < 0, -1.0, 1.0)
    return coordinates


def check_plotting(advice: str = "") -> None:
    """Raises `InputError` when matplotlib is not installed; long work calls this before it starts."""
    if not has_matplotlib():
        raise InputError(f"The picture needs matplotlib{advice}. {how_to_install('plots')}")


def draw_points(
    axis: Any, names: Sequence[str], coordinates: np.ndarray, groups: np.ndarray, labels: Mapping[int, str], title: str
) -> None:
    """Draws points, float (N, 2), in the colours of their groups, int (N,), some with their name, and a legend below.

    The legend has `labels`, group -> label. The points of other groups are grey.
    """
    axis.set_title(title, loc="left", parse_math=False)
    axis.margins(x=0.18)
    for group in np.unique(groups).tolist():
        points = coordinates[groups == group]
        colour = _COLOURS[group % len(_COLOURS)] if group in labels else GREY
        axis.scatter(points[:, 0], points[:, 1], s=26, color=colour, alpha=0.75, linewidths=0, label=labels.get(group))
    figure = axis.figure
    if labels:
        legend = figure.legend(frameon=False, loc="outside lower center", ncols=2, fontsize=9)
        for text in legend.get_texts():
            text.set_parse_math(False)
    figure.canvas.draw()  # places are known only then, and must stay
    figure.set_layout_engine("none")
    _name_points(axis, names, coordinates)


def _name_points(axis: Any, names: Sequence[str], coordinates: np.ndarray) -> None:
    """Writes names beside points that are far apart, where they overlap no other and do not leave the axes."""
    taken = []
    for number in _far_apart(coordinates, _MOST_TRIED):
        for place, alignment in (((4, 4), "left"), ((4, -10), "left"), ((-4, 4), "right"), ((-4, -10), "right")):
            name = axis.annotate(
                names[number],
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


def _far_apart(coordinates: np.ndarray, count: int) -> list[int]:
    """Returns the numbers of points that are far from each other: first an outermost one, then always the farthest."""
    distances = np.linalg.norm(coordinates - coordinates.mean(axis=0), axis=1)
    chosen: list[int] = []
    while len(chosen) < min(count, len(coordinates)):
        chosen.append(int(np.argmax(distances)))
        distances = np.linalg.norm(coordinates[:, None] - coordinates[None, chosen], axis=2).min(axis=1)
    return chosen
