"""Masked-language-model targets: which positions are predicted, and what stands there instead."""

import dataclasses
from collections.abc import Sequence

import numpy as np

# Of the positions to predict: this share becomes [MASK], ...
MASK_SHARE = 0.8
# ... this share stays as it is, and the rest becomes a random token.
KEEP_SHARE = 0.1


@dataclasses.dataclass(frozen=True)
class MaskedRows:
    """B rows with masks, in the record's form; P is max_predictions_per_seq.

    `input_ids` (B, S); `positions` and `ids` (B, P), positions ascending, 0 where a row has fewer; `weights` (B, P)
    float32, 1.0 for a target and 0.0 for filling.
    """

    input_ids: np.ndarray
    positions: np.ndarray
    ids: np.ndarray
    weights: np.ndarray


def count_predictions(
    lengths: np.ndarray, masked_lm_prob: float, max_predictions_per_seq: int, num_candidates: np.ndarray
) -> np.ndarray:
    """How many positions to predict in rows of `lengths` tokens, special tokens counted: (B,) -> (B,).

    Example:
        lengths [5, 64, 128], probability 0.15, at most 12 -> [1, 10, 12]
    """
    wanted = np.maximum(1, np.rint(lengths * masked_lm_prob)).astype(np.int64)
    return np.minimum(np.minimum(wanted, max_predictions_per_seq), num_candidates)


def choose_tokens(candidates: np.ndarray, num_to_predict: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Chooses `num_to_predict` of each row's candidates, all with equal chance: bool (B, S), (B,) -> bool (B, S)."""
    keys = np.where(candidates, rng.random(candidates.shape), 2.0)
    last = np.take_along_axis(np.sort(keys, axis=1), np.maximum(num_to_predict - 1, 0)[:, None], axis=1)
    return candidates & (keys <= last) & (num_to_predict > 0)[:, None]


def choose_words(
    candidates: np.ndarray, word_starts: np.ndarray, num_to_predict: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Chooses whole words until `num_to_predict` tokens are reached: bool (B, S) twice, (B,) -> bool (B, S).

    The words of a row are taken in random order; one that would go over the number is skipped, as Google does.

    Args:
        word_starts: where a candidate begins a word. The candidates behind it, up to the next start, belong to it.

    Example:
        the tokens of `[CLS] em ##bed ##ding is fun [SEP]`, 2 to predict -> `is` and `fun`, in any draw.
    """
    num_rows = len(candidates)
    # Word 0 collects what is no candidate; it has the last place in the random order.
    words = np.where(candidates, np.cumsum(word_starts & candidates, axis=1), 0)
    num_words = int(words.max(initial=0)) + 1
    rows = np.arange(num_rows)
    sizes = np.bincount((rows[:, None] * num_words + words).ravel(), minlength=num_rows * num_words)
    sizes = sizes.reshape(num_rows, num_words)
    exists = sizes > 0
    exists[:, 0] = False
    order = np.argsort(np.where(exists, rng.random(sizes.shape), 2.0), axis=1, kind="stable")

    taken = np.zeros(num_rows, np.int64)
    is_chosen = np.zeros_like(exists)
    for rank in range(num_words):
        word = order[:, rank]
        size = sizes[rows, word]
        fits = exists[rows, word] & (taken + size <= num_to_predict)
        taken += np.where(fits, size, 0)
        is_chosen[rows, word] = fits
    return is_chosen[rows[:, None], words]


def mask_rows(
    input_ids: np.ndarray,
    chosen: np.ndarray,
    max_predictions_per_seq: int,
    mask_id: int,
    replacement_ids: np.ndarray,
    rng: np.random.Generator,
) -> MaskedRows:
    """Puts masks at the chosen positions: [MASK] for 80 %, the token itself for 10 %, a random one for 10 %.

    Args:
        input_ids: (B, S) integers; not changed.
        chosen: bool (B, S), at most `max_predictions_per_seq` true in a row.
        replacement_ids: the ids that a random token is drawn from.

    Reference: Devlin et al., 2018, appendix A.1; google-research/bert `create_masked_lm_predictions`.
    """
    shape = (len(input_ids), max_predictions_per_seq)
    positions, ids, weights = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.float32)
    row, column = np.nonzero(chosen)
    place = (np.cumsum(chosen, axis=1) - 1)[row, column]
    positions[row, place] = column
    ids[row, place] = input_ids[row, column]
    weights[row, place] = 1.0

    action = rng.random(len(row))
    random_ids = replacement_ids[(rng.random(len(row)) * len(replacement_ids)).astype(np.int64)]
    masked = input_ids.copy()
    masked[row, column] = np.select(
        [action < MASK_SHARE, action < MASK_SHARE + KEEP_SHARE], [mask_id, input_ids[row, column]], random_ids
    )
    return MaskedRows(masked, positions, ids, weights)


def real_token_ids(tokens: Sequence[str]) -> np.ndarray:
    """The ids of the tokens that text can contain: all but [PAD], [CLS], [unused12], <S> and their like.

    The tokenizer splits at brackets, so no text yields a bracketed token. (Google's script draws replacements from
    every row of the vocabulary, these too.)
    """
    return np.array([number for number, token in enumerate(tokens) if not _is_bracketed(token)], np.int64)


def _is_bracketed(token: str) -> bool:
    return len(token) > 2 and (token[0] + token[-1]) in ("[]", "<>")
