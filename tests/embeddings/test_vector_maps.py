"""Vectors in two dimensions, and their pictures."""

import numpy as np
import pytest
from clustered_vectors import index_of

from keras_bert.embeddings import vector_maps
from keras_bert.embeddings.vector_maps import draw_map, draw_points, project
from keras_bert.program.errors import InputError

Figure = pytest.importorskip("matplotlib.figure").Figure


def around_axes(*sizes):
    """Returns unit vectors, so many near each axis of 8."""
    vectors = np.repeat(np.eye(8)[: len(sizes)], sizes, axis=0)
    vectors = vectors + 0.05 * np.random.default_rng(0).normal(size=vectors.shape)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("float32")


@pytest.fixture
def drawn(monkeypatch):
    """The arguments of `draw_points` behind the axis, the last call last."""
    calls, draw = [], draw_points
    monkeypatch.setattr(vector_maps, "draw_points", lambda axis, *rest: (calls.append(rest), draw(axis, *rest)))
    return calls


def test_texts_of_a_community_lie_near_each_other_in_a_map_and_deleted_ones_are_left_out(tmp_path, drawn):
    index = index_of(around_axes(12, 20, 5), [f"text {number} $_$" for number in range(37)], ids=range(37))
    index.delete([0, 13])
    rows, coordinates, groups = draw_map(index, tmp_path / "map.png")
    assert rows.tolist() == [number for number in range(37) if number not in (0, 13)]
    assert groups.tolist() == [1] * 11 + [0] * 19 + [-1] * 5, "the largest is the first, and five are too few"
    distances = np.linalg.norm(coordinates[:, None] - coordinates, axis=2)
    is_near = groups[:, None] == groups
    assert distances[is_near].max() < distances[~is_near].min()
    assert (tmp_path / "map.png").read_bytes()[:4] == b"\x89PNG"
    [(names, _, _, labels, title)] = drawn
    assert (names[0], title) == ("text 1 $_$", "35 texts")
    assert [label.partition(": ")[0] for label in labels.values()] == ["19 around", "11 around"]


def test_of_a_large_index_a_sample_is_drawn_and_of_few_texts_the_principal_components(tmp_path, drawn, monkeypatch):
    index = index_of(around_axes(50, 50))
    rows, coordinates, _ = draw_map(index, tmp_path / "map.png", max_points=4)
    assert drawn[-1][-1] == "A sample of 4 of 100 texts"
    assert (np.diff(rows) > 0).all()
    assert rows.max() > 10
    np.testing.assert_array_equal(coordinates, project(index.vectors[rows]))
    _, _, groups = draw_map(index, tmp_path / "map.png", max_points=20, threshold=-1, min_size=20)
    assert groups.tolist() == [0] * 20
    with pytest.raises(InputError, match="max_points must be a whole number of at least 1. Received: 0"):
        draw_map(index, tmp_path / "map.png", max_points=0)
    monkeypatch.setattr(vector_maps, "communities", None)  # nothing is computed that cannot be written
    with pytest.raises(InputError, match="is a folder"):
        draw_map(index, tmp_path)


def test_the_projection_keeps_the_directions_of_most_difference():
    generator = np.random.default_rng(0)
    plane = generator.standard_normal((50, 2)) * [10, 3]
    turned, _ = np.linalg.qr(generator.standard_normal((7, 7)))
    found = project(plane @ turned[:2] + 5.0)
    distances = np.linalg.norm(plane[:, None] - plane[None], axis=2)
    np.testing.assert_allclose(np.linalg.norm(found[:, None] - found[None], axis=2), distances, rtol=1e-4, atol=1e-4)
    assert found[:, 0].std() > found[:, 1].std()
    assert np.all(found.max(axis=0) >= -found.min(axis=0))
    assert project(np.ones((1, 7))).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("spread", [1.0, 0.0])
def test_names_in_the_picture_overlap_neither_each_other_nor_the_legend(spread):
    draw = np.random.default_rng(0)
    coordinates = spread * draw.normal(size=(40, 2))
    contexts = [f"... some words before the [bank] of number {number} ..." for number in range(40)]
    figure = Figure(figsize=(10, 7), layout="constrained")
    groups, labels = np.arange(40) % 8 - 1, {group: f"group $ {group} $" for group in range(7)}
    draw_points(figure.subplots(), contexts, coordinates, groups, labels, "bank")
    figure.canvas.draw()
    [axis], [legend] = figure.axes, figure.legends
    extents = [name.get_window_extent() for name in axis.texts] + [legend.get_window_extent()]
    assert len(axis.texts) >= (6 if spread else 1)
    for number, extent in enumerate(extents):
        assert not extent.count_overlaps(extents[:number] + extents[number + 1 :])
        assert figure.bbox.contains(*extent.min)
        assert figure.bbox.contains(*extent.max)
