"""Computes the log-probabilities of masked tokens, batch by batch."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from keras_bert.checkpoints.checkpoint import MASKED_LM
from keras_bert.program.errors import InputError
from keras_bert.program.number_checks import check_numbers
from keras_bert.records import features
from keras_bert.records.token_rows import MaskedRows
from keras_bert.tasks.answer_operations import log_softmax
from keras_bert.tasks.prediction import forward_function, run_batches
from keras_bert.tasks.text_rows import tokenizer_of
from keras_bert.tokenization import kinds
from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.tokenization.user_inputs import as_texts

Answer = TypeVar("Answer")


def check_masked_lm(model) -> None:
    """Raises `InputError` unless a model has a masked-LM head and a vocabulary; warns when the head is untrained."""
    if features.MASKED_LM_POSITIONS not in getattr(model, "feature_names", ()):
        raise InputError(
            f"A {type(model).__name__} has no masked-LM head, so it cannot guess tokens. Load the checkpoint as a "
            "MaskedLM."
        )
    tokenizer_of(model)  # raises without a vocabulary
    model.warn_if_untrained([MASKED_LM])


def python_tokenizer(model) -> Tokenizer:
    """Returns the Python tokenizer of a model, which knows tokens and decodes ids."""
    return kinds.python_tokenizer(model.vocabulary, model.config.do_lower_case)


def checked_texts(texts, what: str = "text") -> list[str]:
    """Returns texts as a list. Raises `InputError` if there are no texts, or if one is not a string."""
    texts = as_texts(texts, what)
    if not texts:
        raise InputError(f"Expected at least one {what}. Received: none")
    return texts


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
    answers: list = [None] * len(rows)
    asked = MaskedRows.of(rows, positions, model.vocabulary.pad_id)
    for numbers, outputs in run_batches(forward_function(model), asked, batch_size):
        logits = np.asarray(outputs["masked_lm_logits"], np.float32)
        check_numbers(logits, "row of a batch")
        for number, row in zip(numbers.tolist(), logits, strict=True):
            answers[number] = use(number, log_softmax(row[: len(positions[number])]))
    return answers
