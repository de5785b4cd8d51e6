"""What a masked language model says of masked tokens: the one place where it is asked."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from keras_bert.checkpoints.checkpoint import MASKED_LM
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.tokenization import kinds
from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.tokenization.user_inputs import as_texts

_STEP = 16  # rows are padded to multiples of it, so that few different lengths occur
_WINDOW = 1024  # rows that are sorted by length together

Answer = TypeVar("Answer")


def check_masked_lm(model) -> None:
    """Raises `InputError` unless a model has a masked-LM head and a vocabulary; warns when the head is untrained."""
    if not hasattr(model, "masked_lm_head"):
        raise InputError(
            f"A {type(model).__name__} has no masked-LM head, so it cannot guess tokens. Load the checkpoint as a "
            "MaskedLM."
        )
    if model.vocabulary is None:
        raise InputError("The model has no vocabulary. Set model.vocabulary = load_vocabulary(path).")
    model.warn_if_untrained([MASKED_LM])


def python_tokenizer(model) -> Tokenizer:
    """Returns the tokenizer of a model: the one in Python, which is made in no time."""
    return kinds.python_tokenizer(model.vocabulary, model.config.do_lower_case)


def checked_texts(texts, what: str = "text") -> list[str]:
    """Returns texts as a list. Raises `InputError` if there are no texts, or one is not a string."""
    texts = as_texts(texts, what)
    if not texts:
        raise InputError(f"Expected at least one {what}. Received: none")
    return texts


def checked_length(model, max_seq_length: int | None) -> int:
    """Returns the most tokens of a row; the default is all of the model's positions."""
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
    """Asks the model for the tokens at some positions of rows.

    The distributions of a batch are used and dropped before the next one is computed: of a vocabulary of 30,000, one is
    120 kB.

    Args:
        model: a `MaskedLM` or `BertPretrainer`.
        rows: N arrays of ids, int (tokens,).
        positions: N arrays, int (M,), at least one in each.
        use: gets the number of a row and the log-probabilities of all tokens at its positions, float32 (M, V).
        batch_size: rows computed at once.

    Returns:
        What `use` returned, in the order of the rows.
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
