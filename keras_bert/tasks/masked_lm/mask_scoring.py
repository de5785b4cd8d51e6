"""Computes the log-probabilities of masked tokens, batch by batch."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from keras_bert.checkpoints.checkpoint import MASKED_LM
from keras_bert.program.errors import InputError
from keras_bert.program.number_checks import check_numbers
from keras_bert.records import features
from keras_bert.tokenization import kinds
from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.tokenization.user_inputs import as_texts

_STEP = 16  # rows are padded to multiples of this, so that there are few different lengths
_WINDOW = 1024  # rows that are sorted by length together

Answer = TypeVar("Answer")


def check_masked_lm(model) -> None:
    """Raises `InputError` unless a model has a masked-LM head and a vocabulary; warns when the head is untrained."""
    if features.MASKED_LM_POSITIONS not in getattr(model, "feature_names", ()):
        raise InputError(
            f"A {type(model).__name__} has no masked-LM head, so it cannot guess tokens. Load the checkpoint as a "
            "MaskedLM."
        )
    if model.vocabulary is None:
        raise InputError("The model has no vocabulary. Set model.vocabulary = load_vocabulary(path).")
    model.warn_if_untrained([MASKED_LM])


def python_tokenizer(model) -> Tokenizer:
    """Returns the Python tokenizer of a model, which is created faster than the graph tokenizer."""
    return kinds.python_tokenizer(model.vocabulary, model.config.do_lower_case)


def checked_texts(texts, what: str = "text") -> list[str]:
    """Returns texts as a list. Raises `InputError` if there are no texts, or if one is not a string."""
    texts = as_texts(texts, what)
    if not texts:
        raise InputError(f"Expected at least one {what}. Received: none")
    return texts


def checked_length(model, max_seq_length: int | None) -> int:
    """Returns the maximum tokens of a row, by default the number of the model's positions."""
    longest = model.config.max_sequence_length if max_seq_length is None else max_seq_length
    model.config.check_sequence_length(longest)
    if longest < 3:
        raise InputError(f"max_seq_length must be at least 3. Received: {longest}")
    return longest


def score_masks(
    model,
    rows: Sequence[np.ndarray],
    positions: Sequence[np.ndarray],
    use: Callable[[int, np.ndarray], Answer],
    batch_size: int = 32,
) -> list[Answer]:
    """Computes the log-probabilities of all tokens at given positions of rows, and calls `use` with them.

    To save memory, the log-probabilities of a batch are dropped before the next batch is computed: those of one
    position take 120 kB with a vocabulary of 30,000.

    Args:
        model: a `MaskedLM` or `BertPretrainer`.
        rows: N arrays of ids, int (tokens,).
        positions: N arrays, int (M,), at least one in each.
        use: is called with the number of a row and the log-probabilities at its positions, float32 (M, vocab_size).
        batch_size: rows computed at once.

    Returns:
        The results of `use`, in the order of the rows.

    Raises:
        InputError: `batch_size` is below 1, or a logit is not a number.
    """
    if batch_size < 1:
        raise InputError(f"batch_size must be 1 or more. Received: {batch_size}")
    answers: list = [None] * len(rows)
    longest = model.config.max_sequence_length
    for first in range(0, len(rows), _WINDOW):
        window = range(first, min(first + _WINDOW, len(rows)))
        by_length = sorted(window, key=lambda number: len(rows[number]))
        for start in range(0, len(by_length), batch_size):
            chosen = by_length[start : start + batch_size]
            batch = _batch([rows[n] for n in chosen], [positions[n] for n in chosen], longest)
            logits = np.asarray(model.predict_on_batch(batch)["masked_lm_logits"], np.float32)
            check_numbers(logits, "row of a batch")
            for number, row in zip(chosen, logits, strict=True):
                answers[number] = use(number, log_softmax(row[: len(positions[number])]))
    return answers


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Returns logits as log-probabilities along the last axis.

    >>> np.exp(log_softmax(np.log([1.0, 3.0]))).round(2).tolist()
    [0.25, 0.75]
    """
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _batch(rows, positions, longest: int) -> dict[str, np.ndarray]:
    width = max(map(len, rows))
    width = max(width, min(-(-width // _STEP) * _STEP, longest))
    ids, mask = np.zeros((2, len(rows), width), np.int32)
    padded_positions = np.zeros((len(rows), max(map(len, positions))), np.int32)
    for number, (row, at) in enumerate(zip(rows, positions, strict=True)):
        ids[number, : len(row)] = row
        mask[number, : len(row)] = 1
        padded_positions[number, : len(at)] = at
    return {
        features.INPUT_IDS: ids,
        features.INPUT_MASK: mask,
        features.SEGMENT_IDS: np.zeros_like(ids),
        features.MASKED_LM_POSITIONS: padded_positions,
    }
