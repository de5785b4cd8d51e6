"""Arranges the rows of a batch as a runtime computes them fastest: packed into full rows, or by length in small groups.

A batch of texts of different lengths is mostly padding. Runtimes differ in what they compute fast instead; see
docs/decisions/rows_for_each_runtime.md for the measurements.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records import features

# The columns of packed rows are a multiple of this, and the sequences of a row too, if it has several: runtimes prepare
# themselves for each new shape.
_COLUMNS, _SEQUENCES = 16, 8
# Poolings compare all tokens of a row with each of its sequences.
_MOST_SEQUENCES = 64
# Of this many examples, long and short ones fill rows together.
EXAMPLES_AT_ONCE = 1024


@dataclasses.dataclass(frozen=True)
class Layout:
    """The rows that a runtime computes fastest.

    Attributes:
        rows: the number of rows that are computed at once.
        width: the number of columns of packed rows, unless a sequence is longer; 0: each row has one sequence.
        equal_rows: the number of rows that are computed at once if all sequences have the same length. Then nothing is
            saved by packing, so each row has one sequence.
    """

    rows: int
    width: int = 0
    equal_rows: int = 8


class ArrangedEngine:
    """An engine that gets its rows in its own layout. The outputs are those of the given rows; those of padding are 0.

    Args:
        engine: has `feature_names`, `run(features)` and `layout`. Packed rows need the feature `position_ids`, and
            `cls_positions` for outputs for each sequence; see `pack`.
        outputs: name of an output -> its axes, see `CheckedEngine`, which also has the attributes.
    """

    def __init__(self, engine, outputs: Mapping[str, Sequence]):
        self._engine, self._layout = engine, engine.layout
        self._of_tokens = {name for name, axes in outputs.items() if "length" in axes}
        self._is_packed = features.POSITION_IDS in engine.feature_names
        own = (features.POSITION_IDS, features.CLS_POSITIONS)
        self.feature_names = tuple(name for name in engine.feature_names if name not in own)
        self.examples_at_once = EXAMPLES_AT_ONCE if self._is_packed else 1

    def run(self, given: Mapping[str, np.ndarray]):
        """Returns the outputs for a batch. Raises `InputError` if rows are packed, and padding is not on the right."""
        mask = given[features.INPUT_MASK]
        lengths = _lengths(mask.reshape(len(mask), -1, mask.shape[-1])).max(axis=1)
        if self._is_packed and (mask != (np.arange(mask.shape[-1]) < mask.sum(axis=-1, keepdims=True))).any():
            raise InputError(f"{features.INPUT_MASK} must be 1 for tokens and 0 for padding, which is on the right.")
        arranged = self._packed if self._is_packed else self._sorted
        result: dict = {}
        for examples, found in arranged(given, lengths):
            is_named = isinstance(found, Mapping)
            for name, values in (found if is_named else {"": found}).items():
                rest = values.shape[1:]
                if name in self._of_tokens:
                    rest = (mask.shape[-1], *rest[1:])
                if name not in result:
                    result[name] = np.zeros((len(mask), *rest), values.dtype)
                if name in self._of_tokens:
                    result[name][examples, : values.shape[1]] = values
                else:
                    result[name][examples] = values
        return result if is_named else result[""]

    def _sorted(self, given, lengths) -> Iterator[tuple[np.ndarray, object]]:
        order = np.argsort(-lengths, kind="stable")
        for first in range(0, max(len(order), 1), self._layout.rows):
            examples = order[first : first + self._layout.rows]
            width = lengths[examples].max(initial=1)
            batch = {name: values[examples] for name, values in given.items()}
            columns = [name for name in batch if name != features.MASKED_LM_POSITIONS]
            yield examples, self._engine.run(batch | {name: batch[name][..., :width] for name in columns})

    def _packed(self, given, lengths) -> Iterator[tuple[np.ndarray, object]]:
        longest = lengths.max(initial=1)
        if (lengths == longest).all():
            rows, at_once = [[number] for number in range(len(lengths))], self._layout.equal_rows
        else:
            rows, at_once = fill_rows(lengths, max(self._layout.width, longest)), self._layout.rows
        for first in range(0, len(rows), at_once):
            group = rows[first : first + at_once]
            batch = pack(given, lengths, group)
            found = self._engine.run(batch)
            for row, examples in enumerate(group):
                # Sequences have different lengths, so each is an item of its own.
                yield from self._unpacked(found, batch, row, examples, lengths)

    def _unpacked(self, found, batch, row: int, examples, lengths) -> Iterator[tuple[np.ndarray, object]]:
        starts = np.cumsum(lengths[examples]) - lengths[examples]
        per_row = batch[features.CLS_POSITIONS].shape[1]
        for number, (example, start) in enumerate(zip(examples, starts, strict=True)):
            place = np.s_[row, start : start + lengths[example]] if self._of_tokens else row * per_row + number
            taken = (
                {name: values[place][None] for name, values in found.items()}
                if isinstance(found, Mapping)
                else found[place][None]
            )
            yield np.array([example]), taken


def fill_rows(lengths: np.ndarray, width: int) -> list[list[int]]:
    """Assigns B sequences to rows: the longest first, each to the first row of `width` columns with room.

    >>> fill_rows(np.array([2, 5, 3, 1]), 5)
    [[1], [2, 0], [3]]
    """
    rows: list[list[int]] = []
    room: list[int] = []
    for number in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[number])
        for row, free in enumerate(room):
            if free >= length and len(rows[row]) < _MOST_SEQUENCES:
                rows[row].append(number)
                room[row] -= length
                break
        else:
            rows.append([number])
            room.append(width - length)
    return rows


def pack(given: Mapping[str, np.ndarray], lengths: np.ndarray, rows: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
    """Returns the features of packed rows.

    Args:
        given: int32 `[B, S]`: `input_ids`, and others that are 0 for padding.
        lengths: int `[B]`, the number of columns of each sequence.
        rows: the numbers of the sequences of each of R rows.

    Returns:
        int32 `[R, W]`: the given features; `input_mask` numbers the sequences of a row from 1; `position_ids` count the
        tokens of each from 0. `cls_positions`, int32 `[R, K]`, are the columns where they begin, filled up with 0.
    """
    longest = max(int(lengths[row].sum()) for row in rows)
    most = max(len(row) for row in rows)
    num_columns = -(-longest // _COLUMNS) * _COLUMNS
    num_sequences = most if most == 1 else -(-most // _SEQUENCES) * _SEQUENCES
    names = [*given, features.POSITION_IDS]
    batch = {name: np.zeros((len(rows), num_columns), np.int32) for name in names}
    firsts = np.zeros((len(rows), num_sequences), np.int32)
    for row, sequences in enumerate(rows):
        start = 0
        for number, sequence in enumerate(sequences):
            end = start + lengths[sequence]
            for name, values in given.items():
                batch[name][row, start:end] = values[sequence, : end - start]
            batch[features.INPUT_MASK][row, start:end] = number + 1
            batch[features.POSITION_IDS][row, start:end] = np.arange(end - start)
            firsts[row, number], start = start, end
    return {**batch, features.CLS_POSITIONS: firsts}


def _lengths(mask: np.ndarray) -> np.ndarray:
    """Returns the columns up to the last token of each row, at least 1: `[..., S]` -> `[...]`."""
    return np.where(mask.any(axis=-1), mask.shape[-1] - np.argmax(mask[..., ::-1] != 0, axis=-1), 1)
