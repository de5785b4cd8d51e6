"""Maps our names of weights to those of another format, and converts between the layouts."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from keras_bert.checkpoints.checkpoint import StoredTensor

SAME = "same"
TRANSPOSED = "transposed"  # [inputs, outputs] here, [outputs, inputs] there
# Keras' own MultiHeadAttention has an axis for the heads: N heads of size D.
HEADS_OUT = "heads out"  # [H, N * D] here, [H, N, D] there
HEADS_IN = "heads in"  # [N * D, H] here, [N, D, H] there
HEADS_BIAS = "heads bias"  # [N * D] here, [N, D] there
HEADS_LAST = "heads last"  # [N * D, H] here, [H, N, D] there
AS_FIRST_ROWS = "as first rows"  # [H] here, [1, 1, H] there
_HEAD_AXES = {HEADS_OUT: ("inputs", "heads"), HEADS_IN: ("heads", "outputs"), HEADS_BIAS: ("heads",)}
_HEAD_AXES |= {HEADS_LAST: ("outputs", "heads")}


@dataclasses.dataclass(frozen=True, eq=False)
class Reordered:
    """The layout of a kernel, `[inputs, outputs]` here and `[outputs, inputs]` there, with the outputs reordered.

    `outputs` has the number there of each output here.
    """

    outputs: np.ndarray


Layout = str | Reordered


class Row(NamedTuple):
    """One weight in both formats. `*` in both names stands for the number of the layer."""

    ours: str
    theirs: str
    layout: Layout = SAME


class NameTable:
    """The weight names of one format.

    Example:
        >>> table = NameTable([Row("encoder/layer_*/x", "h.*.x.weight", TRANSPOSED)])
        >>> table.ours("h.7.x.weight"), table.theirs("encoder/layer_7/x")
        (('encoder/layer_7/x', 'transposed'), ('h.7.x.weight', 'transposed'))
    """

    def __init__(self, rows: Iterable[Row]):
        rows = [Row(*row) for row in rows]
        self._by_ours = [(_pattern(row.ours), row.theirs, row.layout) for row in rows]
        self._by_theirs = [(_pattern(row.theirs), row.ours, row.layout) for row in rows]

    def ours(self, theirs: str) -> tuple[str, Layout] | None:
        """Returns our name for their name, and the layout; None if the name is unknown."""
        return _look_up(self._by_theirs, theirs)

    def theirs(self, ours: str) -> tuple[str, Layout] | None:
        """Returns their name for our name, and the layout; None if the name is unknown."""
        return _look_up(self._by_ours, ours)

    def read(
        self, stored: Mapping[str, StoredTensor], as_listed: Callable[[str], str] = str
    ) -> tuple[dict[str, StoredTensor], list[str]]:
        """Returns our name -> tensor in our layout, and the names that are unknown here.

        `as_listed` turns a stored name into that of this table, where the two differ.
        """
        found = {name: self.ours(as_listed(name)) for name in stored}
        tensors = {ours[0]: to_ours(stored[name], ours[1]) for name, ours in found.items() if ours}
        return tensors, [name for name, ours in found.items() if ours is None]

    def write(self, tensors: Mapping[str, StoredTensor], num_heads: int) -> tuple[dict[str, StoredTensor], list[str]]:
        """Returns their name -> tensor in their layout, and our names that are unknown there."""
        found = {name: self.theirs(name) for name in tensors}
        written = {
            theirs[0]: to_theirs(tensors[name], theirs[1], num_heads) for name, theirs in found.items() if theirs
        }
        return written, [name for name, theirs in found.items() if theirs is None]


def to_ours(tensor: StoredTensor, layout: Layout) -> StoredTensor:
    """Converts a tensor from the layout of another format to ours."""
    shape = tensor.shape
    if layout == TRANSPOSED:
        return tensor.changed(shape[::-1], np.transpose)
    if isinstance(layout, Reordered):
        return tensor.changed(shape[::-1], lambda array: array[layout.outputs].T)
    if layout in _HEAD_AXES and len(shape) == len(_HEAD_AXES[layout]) + 1:
        first = _HEAD_AXES[layout].index("heads")
        merged = (*shape[:first], shape[first] * shape[first + 1], *shape[first + 2 :])
        merged_tensor = tensor.changed(merged, lambda array: array.reshape(merged))
        return to_ours(merged_tensor, TRANSPOSED) if layout == HEADS_LAST else merged_tensor
    if layout == AS_FIRST_ROWS and shape[:2] == (1, 1):
        return tensor.changed(shape[2:], lambda array: array[0, 0])
    return tensor


def to_theirs(tensor: StoredTensor, layout: Layout, num_heads: int = 1) -> StoredTensor:
    """Converts one of our tensors to the layout of another format, with N = `num_heads`."""
    if layout == TRANSPOSED:
        return tensor.changed(tensor.shape[::-1], np.transpose)
    if isinstance(layout, Reordered):
        return tensor.changed(tensor.shape[::-1], lambda array: array.T[np.argsort(layout.outputs)])
    if layout == HEADS_LAST:
        tensor = tensor.changed(tensor.shape[::-1], np.transpose)
    if layout in _HEAD_AXES:
        first, shape = _HEAD_AXES[layout].index("heads"), tensor.shape
        divided = (*shape[:first], num_heads, shape[first] // num_heads, *shape[first + 1 :])
        return tensor.changed(divided, lambda array: array.reshape(divided))
    if layout == AS_FIRST_ROWS:
        return tensor.changed((1, 1, *tensor.shape), lambda array: array[None, None])
    return tensor


def _pattern(name: str) -> re.Pattern:
    return re.compile(re.escape(name).replace(r"\*", "([0-9]+)"))


def _look_up(rows: list[tuple[re.Pattern, str, Layout]], name: str) -> tuple[str, Layout] | None:
    for pattern, other, layout in rows:
        match = pattern.fullmatch(name)
        if match:
            return other.replace("*", match.group(1)) if match.groups() else other, layout
    return None
