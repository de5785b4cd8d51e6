"""Draws what XLNet predicts in a row, and in which order.

It uses NumPy only. An order is one number for each token, its rank: `encoders/xlnet/prediction_order.py` says who knows
whom.
"""

import numpy as np

# A span has 1 to this many tokens; that of n tokens has a probability proportional to 1 / n.
LONGEST_SPAN = 5


def choose_spans(
    begins_word: np.ndarray, num_to_predict: int, mask_alpha: int, mask_beta: int, rng: np.random.Generator
) -> np.ndarray:
    """Selects `num_to_predict` tokens in each row of S tokens, in spans that begin with a word.

    From left to right, n tokens of every n * `mask_alpha` // `mask_beta` are a span: it has a random part of the other
    tokens before it and the rest behind it. A span that does not end inside the row is not used. Single tokens, all
    equally probable, make up the number. As in the official code, n counts pieces, not words.

    Args:
        begins_word: bool `(B, S)`, the tokens that begin a word.
        num_to_predict: at most S.
        mask_alpha, mask_beta: `mask_alpha` is at least `mask_beta`, and that is at least 1.

    Returns:
        bool `(B, S)`.

    Reference: Yang et al., 2019, arXiv 1906.08237, section 2.3; zihangdai/xlnet `data_utils.py`, `_sample_mask`.
    """
    num_rows, length = begins_word.shape
    columns = np.arange(length)
    # The first column from each column on that begins a word; S if there is none.
    next_word = np.minimum.accumulate(np.where(begins_word, columns, length)[:, ::-1], axis=1)[:, ::-1]
    next_word = np.concatenate([next_word, np.full((num_rows, 1), length)], axis=1)
    limits = np.cumsum(1 / np.arange(1, LONGEST_SPAN + 1))
    selected = np.zeros(begins_word.shape, bool)
    place, left = np.zeros(num_rows, np.int64), np.full(num_rows, num_to_predict)
    rows = np.arange(num_rows)
    while len(rows := rows[(left[rows] > 0) & (place[rows] < length)]):
        draws = rng.random((2, len(rows)))
        size = 1 + np.searchsorted(limits[:-1] / limits[-1], draws[0], side="right")
        size = np.minimum(size, left[rows])
        context = size * mask_alpha // mask_beta
        num_before = (draws[1] * context).astype(np.int64)
        first = next_word[rows, np.minimum(place[rows] + num_before, length)]
        end = first + size
        fits = end < length
        rows, first, end = rows[fits], first[fits], end[fits]
        selected[rows] |= (columns >= first[:, None]) & (columns < end[:, None])
        left[rows] -= size[fits]
        place[rows] = end + (context - num_before)[fits]
    # The free tokens with the smallest random numbers.
    numbers = np.where(selected, 2.0, rng.random(selected.shape))
    return selected | (np.argsort(np.argsort(numbers, axis=1), axis=1) < left[:, None])


def ranks_of(has_rank: np.ndarray, permutations: np.ndarray) -> np.ndarray:
    """Returns the ranks of tokens that are predicted one after the other: 0 for known tokens, 1 to S for others.

    A row is cut into parts of N tokens. Each part has the same permutation and comes after the parts before it.

    Args:
        has_rank: bool `(B, S)`, whether a token is not known from the beginning.
        permutations: int `(B, N)`, each a permutation of 0 to N - 1, where N divides S.

    Returns:
        int64 `(B, S)`.

    Example:
        has_rank [1, 0, 1, 1], permutation [1, 0] -> [2, 0, 4, 3]

    Reference: Yang et al., 2019, section 2.2; zihangdai/xlnet `data_utils.py`, `_local_perm`.
    """
    size = permutations.shape[1]
    num_parts = has_rank.shape[1] // size
    places = np.tile(permutations, (1, num_parts)) + size * np.repeat(np.arange(num_parts), size)
    return np.where(has_rank, 1 + places, 0)


def order_of_parts(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Joins the ranks of two parts of a row, int `(B, R)` and `(B, T)`, so that the first part knows nothing of the
    second, which knows all of the first: int64 `(B, R + T)`, from 0 to R + T + 1."""
    return np.concatenate([first, 1 + first.shape[1] + second], axis=1)


def draw_permutations(num_rows: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Returns random permutations of 0 to `size` - 1: int64 `(num_rows, size)`."""
    return np.argsort(rng.random((num_rows, size)), axis=1, kind="stable")
