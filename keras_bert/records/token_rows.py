"""Rows of tokens without padding, stored one after another: made of segments, and grouped into batches.

`join_segments` does with NumPy what `segments.py` does in the graph.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.records import features
from keras_bert.tokenization.token_lists import TokenLists
from keras_bert.tokenization.tokenizer import TokenTable

# Examples are sorted by length within this many batches, or within a quarter of all batches if that is less. Otherwise
# every epoch would have the same batches. transformers' group_by_length has the same numbers.
_BATCHES_SORTED_TOGETHER = 50
_FEWEST_SORTED_PARTS = 4
# The default batch size, as in Keras.
_BATCH_SIZE = 32
# The number of ranges that are copied together; it limits the memory for indices.
_RANGES_AT_ONCE = 4096


def row_length(config: BertConfig, max_seq_length: int | None, default: int) -> int:
    """Returns the largest number of tokens in a row: `max_seq_length`, or else `default`.

    If the model has fewer positions than `default`, it returns their number and prints a line.

    Raises:
        InputError: the model has fewer positions than `max_seq_length`.
    """
    if max_seq_length is not None:
        config.check_sequence_length(max_seq_length)
        return max_seq_length
    length = min(default, config.max_sequence_length)
    if length < default:
        print(f"max_seq_length is {length}, all positions of the model, instead of the usual {default}")
    return length


def batch_size_of(batch_size: int | None) -> int:
    """Returns a batch size; None is 32, as in Keras. Raises `InputError` for a number below 1."""
    return _BATCH_SIZE if batch_size is None else check_whole("batch_size", batch_size, at_least=1)


@dataclasses.dataclass(frozen=True)
class TokenRows:
    """The token rows of N examples, without padding.

    Attributes:
        tokens: name -> a number for each token, int32 `(T,)`: `input_ids`, `segment_ids`, and with labels `label_ids`.
            Special tokens are included.
        splits: int64 `(rows + 1,)`. Row r has the tokens `splits[r]:splits[r + 1]`.
        labels: name -> a value for each example, `(N, ...)`, which training needs beside the tokens.
        rows_per_example: the number of successive rows of one example; above 1 for multiple choice.
        padding: name -> the number that fills shorter rows; 0 by default.
    """

    tokens: Mapping[str, np.ndarray]
    splits: np.ndarray
    labels: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    rows_per_example: int = 1
    padding: Mapping[str, int] = dataclasses.field(default_factory=dict)
    has_fixed_shapes: ClassVar[bool] = True  # whether batches differ in their numbers of examples and tokens only

    @classmethod
    def of(cls, ids: Sequence[Sequence[int]], pad_id: int = 0, segment_ids: Sequence | None = None) -> "TokenRows":
        """Returns rows of ids, special tokens included; without `segment_ids`, all tokens are in segment 0."""
        splits = np.concatenate([[0], np.cumsum([len(row) for row in ids], dtype=np.int64)])
        tokens = np.concatenate([np.zeros(0, np.int32), *ids]).astype(np.int32)
        segments = np.zeros_like(tokens)
        if segment_ids is not None:
            segments = np.concatenate([segments[:0], *segment_ids]).astype(np.int32)
        found = {features.INPUT_IDS: tokens, features.SEGMENT_IDS: segments}
        return cls(found, splits, padding={features.INPUT_IDS: pad_id})

    def with_labels(self, **labels: np.ndarray) -> "TokenRows":
        """Returns the same rows with additional labels."""
        return dataclasses.replace(self, labels={**self.labels, **labels})

    def __len__(self):
        """The number of examples."""
        return (len(self.splits) - 1) // self.rows_per_example

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens in each example's longest row, int64 `(N,)`."""
        return np.diff(self.splits).reshape(-1, self.rows_per_example).max(axis=1)

    def batch(self, examples: np.ndarray, width: int | None = None) -> dict[str, np.ndarray]:
        """Returns the features of some examples, padded to `width` or to the longest row, and their labels.

        Args:
            examples: int `(B,)`, the numbers of the examples.
            width: the number S of columns; by default that of the longest row.

        Returns:
            dict of `input_mask` and the columns of `tokens`, int32 `(B, S)`, or `(B, C, S)` for C rows per example; and
            of the columns of `labels`, `(B, ...)`.
        """
        examples = np.asarray(examples)
        rows = (examples[:, None] * self.rows_per_example + np.arange(self.rows_per_example)).reshape(-1)
        lengths = self.splits[rows + 1] - self.splits[rows]
        # The width is not rounded up to a multiple of 8, because that would cost short texts most.
        width = int(lengths.max(initial=1)) if width is None else width
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

    def batches(self, batch_size: int | None, seed: int | None = None) -> "RowBatches":
        """Returns batches of examples of similar length; the arguments are those of `RowBatches`."""
        return RowBatches(self, batch_size, seed)

    def rows_at(self, numbers: np.ndarray) -> "TokenRows":
        """Returns the rows with these numbers, int `(R,)`, each as an example of its own without labels."""
        lengths = np.diff(self.splits)[numbers]
        splits = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        places = np.arange(splits[-1]) + np.repeat(self.splits[numbers] - splits[:-1], lengths)
        tokens = {name: values[places] for name, values in self.tokens.items()}
        return dataclasses.replace(self, tokens=tokens, splits=splits, labels={}, rows_per_example=1)

    def padded(self, width: int) -> dict[str, np.ndarray]:
        """Returns all examples as `batch` does, padded to `width` columns."""
        return self.batch(np.arange(len(self)), width)


@dataclasses.dataclass(frozen=True)
class SourceTargetRows(TokenRows):
    """The rows of N sources, and those of their targets. `batch` pads both to the longest row of the batch.

    Attributes:
        targets: the rows of the targets; None only in the constructor.
    """

    targets: TokenRows | None = None

    @classmethod
    def of(cls, sources: TokenRows, targets: TokenRows) -> "SourceTargetRows":
        return cls(
            **{field.name: getattr(sources, field.name) for field in dataclasses.fields(sources)}, targets=targets
        )

    def batch(self, examples: np.ndarray, width: int | None = None) -> dict[str, np.ndarray]:
        """As `TokenRows.batch`, with `target_ids` and `target_mask`, int32 `(B, T)`."""
        targets = self.targets.batch(examples)
        names = {features.TARGET_IDS: features.INPUT_IDS, features.TARGET_MASK: features.INPUT_MASK}
        return super().batch(examples, width) | {name: targets[column] for name, column in names.items()}


@dataclasses.dataclass(frozen=True)
class MaskedRows(TokenRows):
    """N rows, and the columns whose tokens are predicted.

    Attributes:
        positions: N arrays, int `(M,)`, at least one column in each; None only in the constructor.
    """

    positions: Sequence[np.ndarray] | None = None

    @classmethod
    def of(cls, ids: Sequence[Sequence[int]], positions: Sequence[np.ndarray], pad_id: int = 0) -> "MaskedRows":
        rows = TokenRows.of(ids, pad_id)
        return cls(rows.tokens, rows.splits, padding=rows.padding, positions=positions)

    def batch(self, examples: np.ndarray, width: int | None = None) -> dict[str, np.ndarray]:
        """As `TokenRows.batch`, with `masked_lm_positions`, int32 `(B, M)`, filled up with 0."""
        chosen = [self.positions[number] for number in examples]
        positions = np.zeros((len(chosen), max(map(len, chosen))), np.int32)
        for row, columns in zip(positions, chosen, strict=True):
            row[: len(columns)] = columns
        return super().batch(examples, width) | {features.MASKED_LM_POSITIONS: positions}


class RowBatches:
    """Groups examples into batches of similar length.

    The batches of an epoch depend on (seed, epoch) only, so training can start at any of them. Every example is in one
    batch of each epoch. One batch may be smaller than the others.

    Args:
        batch_size: examples in a batch; None for 32.
        seed: seed for shuffling the examples, differently in every epoch. None: they are sorted by length, the longest
            first, for evaluation.

    Raises:
        InputError: `batch_size` is below 1, or `seed` is below 0.
    """

    def __init__(self, rows: Any, batch_size: int | None, seed: int | None = None):
        self.rows = rows
        self.batch_size = batch_size_of(batch_size)
        self.seed = None if seed is None else check_whole("seed", seed, at_least=0)

    def __len__(self):
        """The number of batches in an epoch."""
        return -(-len(self.rows) // self.batch_size)

    def order(self, epoch: int = 0) -> list[np.ndarray]:
        """Returns the numbers of the examples in each batch of an epoch, a list of int64 `(B,)`."""
        lengths = self.rows.lengths
        if self.seed is None:
            return self._cut(np.argsort(-lengths, kind="stable"))
        generator = np.random.default_rng((self.seed, epoch))
        shuffled = generator.permutation(len(lengths))
        batches = []
        num_batches = min(_BATCHES_SORTED_TOGETHER, len(shuffled) // (self.batch_size * _FEWEST_SORTED_PARTS))
        sorted_together = self.batch_size * max(1, num_batches)
        for first in range(0, len(shuffled), sorted_together):
            examples = shuffled[first : first + sorted_together]
            batches += self._cut(examples[np.argsort(-lengths[examples], kind="stable")])
        return [batches[number] for number in generator.permutation(len(batches))]

    def from_step(self, step: int, num_epochs: int | None) -> Iterator[dict[str, np.ndarray]]:
        """Yields the batches from number `step` on, until `num_epochs` epochs are complete (None: without end)."""
        epoch, number = divmod(step, len(self))
        while num_epochs is None or epoch < num_epochs:
            for examples in self.order(epoch)[number:]:
                yield self.rows.batch(examples)
            epoch, number = epoch + 1, 0

    def _cut(self, examples: np.ndarray) -> list[np.ndarray]:
        return [examples[first : first + self.batch_size] for first in range(0, len(examples), self.batch_size)]


class TokenRanges(NamedTuple):
    """Ranges of tokens, which may overlap: range n is `values[firsts[n] : firsts[n] + lengths[n]]`."""

    values: np.ndarray
    firsts: np.ndarray
    lengths: np.ndarray


def join_segments(
    segments: Sequence[TokenLists | TokenRanges], max_seq_length: int, vocabulary: TokenTable
) -> tuple[TokenRows, np.ndarray]:
    """Joins one or two segments per row, and shortens rows that are too long.

    Args:
        segments: the tokens of N first texts, and of N second texts if there are any.
        max_seq_length, vocabulary: as for `segments.pack_segments`.

    Returns:
        N rows of `input_ids` and `segment_ids`; and bool `(N,)`, true for rows that were shortened.

    Raises:
        InputError: there is no room for [CLS] and [SEP], or nothing divides the two texts of a row.

    Example, with [CLS] = 2 and [SEP] = 3:
        segments [[5, 6, 7]], [[8]] and max_seq_length 6 -> input_ids [[2, 5, 6, 3, 8, 3]]

    Reference: google-research/bert `convert_single_example` and `_truncate_seq_pair`; huggingface/tokenizers,
    `truncate_encodings` with `LongestFirst`.
    """
    special_tokens = vocabulary.special_tokens
    if len(segments) > 1:
        special_tokens.check_pairs()
    separators, num_special = special_tokens.separators(len(segments)), special_tokens.num_special(len(segments))
    room = max_seq_length - num_special
    if room < 0:
        raise InputError(
            f"max_seq_length must be at least {num_special}, for [CLS] and {num_special - 1} [SEP]. Received: "
            f"{max_seq_length}"
        )
    lengths = _shortened([segment.lengths for segment in segments], room, special_tokens.longer_keeps_more)
    row_lengths = sum(lengths) + num_special
    splits = np.concatenate([[0], np.cumsum(row_lengths, dtype=np.int64)])
    ids = np.full(splits[-1], vocabulary.sep_id, np.int32)
    ids[splits[:-1]] = vocabulary.cls_id
    begin = splits[:-1] + 1
    for segment, length, num_separators in zip(segments, lengths, separators, strict=True):
        copy_ranges(ids, begin, segment.values, segment.firsts, length)
        begin = begin + length + num_separators
    num_first = lengths[0] + 1 + separators[0]
    of_texts = np.array([0, special_tokens.second_segment], np.int32)
    num_tokens = np.stack([num_first, row_lengths - num_first], axis=1)  # in the first and second segment of each row
    segment_ids = np.repeat(np.tile(of_texts, len(row_lengths)), num_tokens.reshape(-1))
    rows = TokenRows(
        {features.INPUT_IDS: ids, features.SEGMENT_IDS: segment_ids},
        splits,
        padding={features.INPUT_IDS: vocabulary.pad_id},
    )
    return rows, sum(segment.lengths for segment in segments) > room


def _shortened(lengths: list[np.ndarray], room: int, longer_keeps_more: bool) -> list[np.ndarray]:
    """Shortens lengths to a sum of at most `room`: [9], 4 -> [4]; [9, 2], 7 -> [5, 2]; [9, 9], 7 -> [4, 3].

    With `longer_keeps_more` [9, 9], 7 -> [3, 4]; and [9, 8], 7 -> [4, 3].
    """
    if len(lengths) == 1:
        return [np.minimum(lengths[0], room)]
    # The second segment gets the room that the first leaves, but at least half. If both are cut, one has the odd token.
    half = (room + (longer_keeps_more and lengths[1] >= lengths[0])) // 2
    second = np.minimum(lengths[1], np.maximum(room - lengths[0], half))
    return [np.minimum(lengths[0], room - second), second]


def cut_overlapping(
    tokens: TokenLists | TokenRanges, room: int | np.ndarray, stride: int
) -> tuple[TokenRanges, np.ndarray]:
    """Cuts texts into windows that overlap; a text that fits is one window.

    Args:
        tokens: the tokens of N texts.
        room: the largest number of tokens in a window, one for all texts or int `(N,)`.
        stride: the number of tokens between the beginnings of two windows; at most `room` is used.

    Returns:
        the tokens of W windows; and int64 `(W,)`, the text of each window.

    Example, with room 4 and stride 2:
        [[1, 2, 3, 4, 5, 6], [7]] -> [[1, 2, 3, 4], [3, 4, 5, 6], [7]] and [0, 0, 1]
    """
    room = np.broadcast_to(room, tokens.lengths.shape)
    stride = np.minimum(stride, room)
    num_windows = 1 + np.maximum(-((room - tokens.lengths) // stride), 0)
    text = np.repeat(np.arange(len(num_windows)), num_windows)
    number = np.arange(len(text)) - np.repeat(np.cumsum(num_windows) - num_windows, num_windows)
    first = number * stride[text]
    lengths = np.minimum(tokens.lengths[text] - first, room[text])
    return TokenRanges(tokens.values, tokens.firsts[text] + first, lengths), text


def copy_ranges(target: np.ndarray, target_firsts, source: np.ndarray, source_firsts, lengths) -> None:
    """Copies ranges of a flat array: for each n, `lengths[n]` values from `source_firsts[n]` to `target_firsts[n]`.

    >>> target = np.zeros(5, int)
    >>> copy_ranges(target, np.array([3, 0]), np.array([7, 8, 9]), np.array([1, 0]), np.array([2, 1]))
    >>> target
    array([7, 0, 0, 8, 9])
    """
    for first in range(0, len(lengths), _RANGES_AT_ONCE):
        part = slice(first, first + _RANGES_AT_ONCE)
        counts = lengths[part]
        inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        target[np.repeat(target_firsts[part], counts) + inside] = source[
            np.repeat(source_firsts[part], counts) + inside
        ]
