"""Rows of several data sets, and batches that are of one of them each."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.records import features
from keras_bert.records.token_rows import RowBatches, TokenRows


@dataclasses.dataclass(frozen=True)
class MixedRows:
    """The rows of several data sets, one after another.

    All batches have the same features with the same numbers of axes, so that one traced step serves them.

    Attributes:
        parts: the rows of each data set.
        in_turns: whether the data sets take turns in training. Otherwise all batches come in random order.
    """

    parts: Sequence[TokenRows]
    in_turns: bool = False
    has_fixed_shapes = False

    @functools.cached_property
    def firsts(self) -> np.ndarray:
        """The number of the first example of each data set, int64."""
        return np.cumsum([0, *map(len, self.parts[:-1])])

    @property
    def tokens(self) -> Mapping[str, np.ndarray]:
        """The columns of tokens, by name; those of the first data set stand for all."""
        return self.parts[0].tokens

    @property
    def labels(self) -> set[str]:
        """The names of the labels of all data sets."""
        return {features.LABEL_IDS}.union(*(part.labels for part in self.parts))

    def __len__(self):
        """The number of examples."""
        return sum(map(len, self.parts))

    def batch(self, examples: np.ndarray, width: int | None = None) -> dict[str, np.ndarray]:
        """As `TokenRows.batch`, for examples of one data set.

        Returns:
            dict of the tokens, int32 `(B, C, S)`; `label_ids`, float32 `(B, 1 + L)`: the number of the data set, then
            all labels of an example; and further labels. Missing weights are 1, other missing labels 0.
        """
        examples = np.asarray(examples)
        number = int(np.searchsorted(self.firsts, examples[0], side="right")) - 1
        part, size = self.parts[number], len(examples)
        batch = part.batch(examples - self.firsts[number], width)
        for name in (*part.tokens, features.INPUT_MASK):
            batch[name] = batch[name].reshape(size, part.rows_per_example, -1)
        labels = batch.get(features.LABEL_IDS, np.zeros((size, 0))).reshape(size, -1)
        batch[features.LABEL_IDS] = np.insert(labels.astype(np.float32), 0, number, axis=1)
        if features.TEXT_NUMBERS in self.labels:
            batch.setdefault(features.TEXT_NUMBERS, np.zeros((size, part.rows_per_example), np.int32))
        if features.EXAMPLE_WEIGHTS in self.labels:
            batch.setdefault(features.EXAMPLE_WEIGHTS, np.ones(size, np.float32))
        return batch

    def batches(self, batch_size: int, seed: int | None = None) -> "MixedBatches":
        """Returns batches of examples of one data set; the arguments are those of `RowBatches`."""
        return MixedBatches(self, batch_size, seed)


class MixedBatches(RowBatches):
    """The batches of several data sets; the arguments are those of `RowBatches`.

    If the data sets take turns in training, an epoch ends when the first of them has no more batches.
    """

    def __init__(self, rows: MixedRows, batch_size: int, seed: int | None = None):
        super().__init__(rows, batch_size, seed)
        self.parts = [part.batches(batch_size, seed) for part in rows.parts]
        self.in_turns = rows.in_turns and seed is not None

    def __len__(self):
        counts = list(map(len, self.parts))
        return min(counts) * len(counts) if self.in_turns else sum(counts)

    def order(self, epoch: int = 0) -> list[np.ndarray]:
        orders = [
            [first + examples for examples in part.order(epoch)]
            for part, first in zip(self.parts, self.rows.firsts, strict=True)
        ]
        if self.in_turns:
            return [examples for turn in zip(*orders, strict=False) for examples in turn]
        batches = [examples for order in orders for examples in order]
        if self.seed is None:
            return batches
        return [batches[number] for number in np.random.default_rng((self.seed, epoch)).permutation(len(batches))]
