"""The vocabulary and the merges of BPE as numbers, for byte-level BPE and for byte-fallback BPE."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError

# Pair of ids -> its rank in the merges and the id of the joined token.
Pairs = Mapping[tuple[int, int], tuple[int, int]]


def numbered_pairs(merges: Sequence[tuple[str, ...]], ids: Mapping[str, int]) -> dict[tuple[int, int], tuple[int, int]]:
    """[("t", "h")] -> {(id of t, id of h): (0, id of th)}"""
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    for rank, (left, right) in enumerate(merges):
        try:
            pairs.setdefault((ids[left], ids[right]), (rank, ids[left + right]))
        except KeyError as error:
            raise InputError(
                f"Merge {rank + 1}, {left!r} {right!r}, contains or creates the token {error}, which is not in the "
                "vocabulary. Vocabulary and merges must come from the same model."
            ) from None
    return pairs


def as_arrays(pairs: Pairs) -> np.ndarray:
    """{(left, right): (rank, joined)} -> int64 `[4, pairs]`: left, right, rank, joined."""
    numbers = itertools.chain.from_iterable((*pair, *found) for pair, found in pairs.items())
    return np.fromiter(numbers, np.int64, 4 * len(pairs)).reshape(-1, 4).T


def ranks_before_earlier(pairs: np.ndarray) -> np.ndarray:
    """Returns the ranks of the merges after which an earlier merge may be next: they create a token that it joins.

    All occurrences of any other pair can be joined at once. SentencePiece's merges, in the order of their results, have
    many such ranks; those that Hugging Face's trainer writes have none. `pairs` is what `as_arrays` returns.
    """
    lefts, rights, ranks, joined = pairs
    earliest = np.full(pairs.max(initial=0) + 1, np.iinfo(np.int64).max)
    for numbers in (lefts, rights):
        np.minimum.at(earliest, numbers, ranks)
    return np.sort(ranks[earliest[joined] < ranks])


def tokens_in_order(ids: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the tokens in the order of their ids. Raises `InputError` unless these are 0, 1, 2 and so on."""
    ordered = sorted(ids, key=ids.__getitem__)
    for number, token in enumerate(ordered):
        if ids[token] != number:
            raise InputError(
                f"The ids of the vocabulary must be 0 to {len(ids) - 1}, each once. Token {token!r} has id "
                f"{ids[token]}, but {number} was expected. A token is missing, or two tokens have the same id."
            )
    return tuple(ordered)
