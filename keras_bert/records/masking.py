"""Masks tokens for the masked language model: selects positions to predict and replaces their tokens.

It uses NumPy only. The same code masks records when they are written and when they are read. `masked_positions` selects
the positions.
"""

import dataclasses

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.options import check_choice
from keras_bert.records import features
from keras_bert.records.masked_positions import (
    REPLACEMENT_TOKENS,
    MaskingOptions,
    choose_tokens,
    choose_words,
    concatenated_ranges,
    count_by_sequence,
)
from keras_bert.tokenization.tokenizer import TokenTable


@dataclasses.dataclass(frozen=True)
class MaskingVocabulary:
    """The properties of a vocabulary of V tokens that masking needs."""

    mask_id: int  # the id of [MASK]
    is_continuation: np.ndarray  # bool (V,), the tokens that continue a word ("##ing")
    replacement_ids: np.ndarray  # int32 (n,), the ids that random tokens are drawn from

    @classmethod
    def of(cls, vocabulary: TokenTable, replacement_tokens: str = "text") -> "MaskingVocabulary":
        """Returns the properties of a vocabulary of any kind.

        Args:
            replacement_tokens: "text" for tokens that text can contain, "vocabulary" for all, as in Google's script.

        Raises:
            InputError: there is no replacement token, or `replacement_tokens` has another value.
        """
        check_choice("replacement_tokens", replacement_tokens, REPLACEMENT_TOKENS)
        replacement_ids = vocabulary.text_ids() if replacement_tokens == "text" else range(len(vocabulary))
        if not len(replacement_ids):
            raise InputError("The vocabulary has only special tokens, so random tokens cannot be drawn. Add others.")
        is_continuation = np.array([vocabulary.continues_word(token) for token in vocabulary.tokens])
        return cls(vocabulary.mask_id, is_continuation, np.array(replacement_ids, np.int32))


def mask_batch(
    input_ids: np.ndarray,
    is_text: np.ndarray,
    sequence_numbers: np.ndarray,
    options: MaskingOptions,
    vocabulary: MaskingVocabulary,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Masks a batch of B rows and S columns.

    Args:
        input_ids: int `(B, S)`. It is not changed.
        is_text: bool `(B, S)`, the tokens that may be predicted: all but special tokens and padding.
        sequence_numbers: int `(B, S)`: 0 for padding, n for the n-th sequence of the row (`input_mask`).
        rng: random generator. The same state gives the same masks.

    Returns:
        dict of `input_ids` `(B, S)`, `masked_lm_positions` and `masked_lm_ids` `(B, P)`, int32, and `masked_lm_weights`
        `(B, P)`, float32. P is `max_predictions_per_seq`. Positions ascend; unused entries are 0.

    Example:
        `[CLS] the quick brown fox [SEP]`, at most 2 -> `[CLS] the quick [MASK] fox [SEP]`,
        positions [3, 0], ids [id of `brown`, 0], weights [1.0, 0.0]

    Reference: Devlin et al., 2018, appendix A.1; google-research/bert `create_masked_lm_predictions`; for spans Joshi
    et al., 2019 (SpanBERT), section 3.1.
    """
    num_to_predict = count_by_sequence(is_text, sequence_numbers, options)
    if options.masks_words:
        continues_word = vocabulary.is_continuation[input_ids]
        selected, units = choose_words(is_text, continues_word, sequence_numbers, num_to_predict, options, rng)
    else:
        selected = choose_tokens(is_text, sequence_numbers, num_to_predict, rng)
        units = np.arange(len(selected))
    if not options.whole_word_actions:
        units = np.arange(len(selected))
    return _put_masks(input_ids, selected, units, options, vocabulary, rng)


def _put_masks(
    input_ids: np.ndarray,
    selected: np.ndarray,
    units: np.ndarray,
    options: MaskingOptions,
    vocabulary: MaskingVocabulary,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Replaces the selected positions: each unit by [MASK] or by random tokens, or it stays unchanged."""
    max_predictions_per_seq = options.max_predictions_per_seq
    num_rows, num_columns = input_ids.shape
    shape = (num_rows, max_predictions_per_seq)
    positions, ids, weights = np.zeros(shape, np.int32), np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    row = selected // num_columns
    counts = np.bincount(row, minlength=num_rows)
    target = concatenated_ranges(np.arange(num_rows) * max_predictions_per_seq, counts)
    masked = input_ids.astype(np.int32).ravel()
    original = masked[selected]
    positions.ravel()[target] = selected - row * num_columns
    ids.ravel()[target] = original
    weights.ravel()[target] = 1.0

    action = rng.random(int(units.max(initial=-1)) + 1)[units]
    is_random = action >= 1.0 - options.random_share
    masked[selected[action < options.mask_share]] = vocabulary.mask_id
    draws = (rng.random(int(is_random.sum())) * len(vocabulary.replacement_ids)).astype(np.int64)
    masked[selected[is_random]] = vocabulary.replacement_ids[draws]
    return {
        features.INPUT_IDS: masked.reshape(input_ids.shape),
        features.MASKED_LM_POSITIONS: positions,
        features.MASKED_LM_IDS: ids,
        features.MASKED_LM_WEIGHTS: weights,
    }
