"""Rows of tokens as they are before they become batches: of their own lengths, one behind the other."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.records import features

# Examples are sorted by length within this many batches, or within a quarter of all where that is less: else every
# epoch would have the same batches. transformers' group_by_length has the same numbers.
_BATCHES_SORTED_TOGETHER = 50
_FEWEST_SORTED_PARTS = 4


def row_length(config: BertConfig, given: int | None, usual: int) -> int:
    """Returns the most tokens in a row: as given, else the usual number, or all positions of a model that has fewer.

    The last is said in a line.

    Raises:
        InputError: the number that was given is more than the model has positions.
    """
    if given is not None:
        config.check_sequence_length(given)
        return given
    length = min(usual, config.max_sequence_length)
    if length < usual:
        print(f"max_seq_length is {length}, all positions of the model, instead of the usual {usual}")
    return length


@dataclasses.dataclass(frozen=True)
class TokenRows:
    """The rows that a model takes for N examples, without padding.

    Attributes:
        tokens: columns with a number for each token, int32 (T,): `input_ids`, `segment_ids`, and the `label_ids` of
            tagging. The special tokens are among them.
        splits: int64 (rows + 1,). The tokens of row r are at `splits[r]:splits[r + 1]`.
        labels: columns with a value for each example, (N, ...): what training needs beside the tokens.
        rows_per_example: several rows one behind the other are one example, as in multiple choice.
        padding: what fills the ends of shorter rows; 0 in columns that are not named.
    """

    tokens: Mapping[str, np.ndarray]
    splits: np.ndarray
    labels: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    rows_per_example: int = 1
    padding: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_padded(
        cls,
        rows: Mapping[str, np.ndarray],
        labels: Mapping[str, np.ndarray] | None = None,
        rows_per_example: int = 1,
        padding: Mapping[str, int] | None = None,
    ) -> "TokenRows":
        """Takes the padding away from rows `(rows, S)`, of which `input_mask` says where they end.

        Columns with one value for a row, `(rows, 1)`, are left out: give them as `labels`.
        """
        is_real = np.asarray(rows[features.INPUT_MASK]) != 0
        tokens = {
            name: np.asarray(values)[is_real].astype(np.int32)
            for name, values in rows.items()
            if name != features.INPUT_MASK and np.shape(values) == is_real.shape
        }
        splits = np.concatenate([[0], np.cumsum(is_real.sum(axis=1), dtype=np.int64)])
        return cls(tokens, splits, labels or {}, rows_per_example, padding or {})

    @classmethod
    def concatenate(cls, parts: Sequence["TokenRows"]) -> "TokenRows":
        """Puts the rows of several behind each other; labels are those of all."""
        first = parts[0]
        lengths = np.concatenate([np.diff(part.splits) for part in parts])
        return cls(
            {name: np.concatenate([part.tokens[name] for part in parts]) for name in first.tokens},
            np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
            {name: np.concatenate([part.labels[name] for part in parts]) for name in first.labels},
            first.rows_per_example,
            first.padding,
        )

    def with_labels(self, **labels: np.ndarray) -> "TokenRows":
        """Returns the same rows with further columns for the examples."""
        return dataclasses.replace(self, labels={**self.labels, **labels})

    def __len__(self):
        """The number of examples."""
        return (len(self.splits) - 1) // self.rows_per_example

    @property
    def lengths(self) -> np.ndarray:
        """The tokens of each example's longest row, int64 (N,)."""
        return np.diff(self.splits).reshape(-1, self.rows_per_example).max(axis=1)

    def batch(self, examples: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the features of some examples, padded to the longest, and their labels.

        Args:
            examples: int (B,), numbers of examples.

        Returns:
            dict of `input_mask` and the columns of `tokens`, int32 (B, S), or (B, C, S) for C rows per example; and
            the columns of `labels`, (B, ...).
        """
        examples = np.asarray(examples)
        rows = (examples[:, None] * self.rows_per_example + np.arange(self.rows_per_example)).reshape(-1)
        lengths = self.splits[rows + 1] - self.splits[rows]
        # Not a multiple of 8: that would lengthen the rows of short texts most.
        width = int(lengths.max(initial=1))
        column = np.arange(width)
        is_real = column < lengths[:, None]
        sources = (self.splits[rows][:, None] + column)[is_real]
        shape = (len(examples), self.rows_per_example, width) if self.rows_per_example > 1 else (len(examples), width)
        batch = {features.INPUT_MASK: is_real.astype(np.int32).reshape(shape)}
        for name, values in self.tokens.items():
            padded = np.full(is_real.shape, self.padding.get(name, 0), np.int32)
            padded[is_real] = values[sources]
            batch[name] = padded.reshape(shape)
        return batch | {name: values[examples] for name, values in self.labels.items()}


class RowBatches:
    """Says which examples make which batch, so that rows in a batch are of like length.

    The batches of an epoch follow from (seed, epoch) alone, so training can begin at any of them. Every example is in
    one batch of each epoch; one batch may be smaller than the others.

    Args:
        rows: `TokenRows`.
        batch_size: examples in a batch.
        seed: the examples are mixed, anew in every epoch. `None`: sorted by length, the longest first, for evaluation.

    Raises:
        InputError: `batch_size` is below 1, or `seed` below 0.
    """

    def __init__(self, rows: TokenRows, batch_size: int, seed: int | None = None):
        if not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
            raise InputError(f"batch_size must be 1 or more. Received: {batch_size}")
        if seed is not None and seed < 0:
            raise InputError(f"seed must be 0 or more. Received: {seed}")
        self.rows = rows
        self.batch_size = batch_size
        self.seed = seed

    def __len__(self):
        """Batches in an epoch."""
        return -(-len(self.rows) // self.batch_size)

    def order(self, epoch: int = 0) -> list[np.ndarray]:
        """Returns the numbers of the examples of each batch, int64 (B,)."""
        lengths = self.rows.lengths
        if self.seed is None:
            return self._cut(np.argsort(-lengths, kind="stable"))
        generator = np.random.default_rng((self.seed, epoch))
        mixed = generator.permutation(len(lengths))
        batches = []
        num_batches = min(_BATCHES_SORTED_TOGETHER, len(mixed) // (self.batch_size * _FEWEST_SORTED_PARTS))
        sorted_together = self.batch_size * max(1, num_batches)
        for first in range(0, len(mixed), sorted_together):
            examples = mixed[first : first + sorted_together]
            batches += self._cut(examples[np.argsort(-lengths[examples], kind="stable")])
        return [batches[number] for number in generator.permutation(len(batches))]

    def from_step(self, step: int, num_epochs: int | None) -> Iterator[dict[str, np.ndarray]]:
        """Yields batches from the `step`-th on, for `num_epochs` epochs or without end."""
        epoch, number = divmod(step, len(self))
        while num_epochs is None or epoch < num_epochs:
            for examples in self.order(epoch)[number:]:
                yield self.rows.batch(examples)
            epoch, number = epoch + 1, 0

    def _cut(self, examples: np.ndarray) -> list[np.ndarray]:
        return [examples[first : first + self.batch_size] for first in range(0, len(examples), self.batch_size)]
