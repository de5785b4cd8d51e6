"""Computes the log-probabilities of masked tokens: predicts the tokens at [MASK], and scores texts."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from keras_bert.checkpoints.checkpoint import MASKED_LM
from keras_bert.program.errors import InputError
from keras_bert.program.number_checks import check_numbers
from keras_bert.program.options import check_whole
from keras_bert.program.user_inputs import as_texts
from keras_bert.records import features
from keras_bert.records.token_rows import MaskedRows
from keras_bert.tasks.answer_operations import log_softmax
from keras_bert.tasks.masked_lm.answers import FilledText, best_tokens, filled_texts
from keras_bert.tasks.masked_lm.masked_texts import MaskedRow, masked_rows, target_ids
from keras_bert.tasks.prediction import forward_function, run_batches
from keras_bert.tasks.text_rows import checked_length, text_rows, tokenizer_of

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


def checked_texts(texts, what: str = "text") -> list[str]:
    """Returns texts as a list. Raises `InputError` if there are no texts, or if one is not a string."""
    texts = as_texts(texts, what)
    if not texts:
        raise InputError(f"Expected at least one {what}. Received: none")
    return texts


def score_masks(
    model, rows: Sequence[Any], positions: Sequence[Any], use: Callable[[int, np.ndarray], Answer], batch_size: int = 32
) -> list[Answer]:
    """Returns the results of `use` for the log-probabilities of all tokens at given positions of rows.

    To save memory, the log-probabilities of a batch are dropped before the next batch is computed: those of one
    position take 120 kB with a vocabulary of 30,000.

    Args:
        model: a `MaskedLM` or `BertPretrainer`.
        rows: N arrays of ids, int (tokens,).
        positions: N arrays, int (M,), at least one in each.
        use: is called with the number of a row and the log-probabilities at its positions, float32 (M, vocab_size).
        batch_size: rows computed at once.

    Raises `InputError` if `batch_size` is below 1, or a logit is not a number.
    """
    answers: list = [None] * len(rows)
    asked = MaskedRows.of(rows, positions, model.vocabulary.pad_id)
    for numbers, outputs in run_batches(forward_function(model), asked, batch_size):
        logits = np.asarray(outputs["masked_lm_logits"], np.float32)
        check_numbers(logits, "row of a batch")
        for number, row in zip(numbers.tolist(), logits, strict=True):
            answers[number] = use(number, log_softmax(row[: len(positions[number])]))
    return answers


# The probabilities and the ids of the most probable tokens of M masks, `[M, top_k]` each.
Best = tuple[np.ndarray, np.ndarray]


def fill_masks(
    model: Any,
    texts: Any,
    *,
    top_k: int = 5,
    targets: Any = None,
    joint: bool = False,
    max_seq_length: int | None = None,
    batch_size: int = 32,
) -> list[FilledText]:
    """Fills every literal [MASK] of texts.

    Args:
        model: a `MaskedLM` or `BertPretrainer` with a vocabulary.
        texts: a string or several, each with one [MASK] or more. A [MASK] stands for one token.
        top_k: number of tokens to return for each mask.
        targets: words; if given, exactly these are returned, with their probabilities among all tokens.
        joint: whether the masks of a text depend on each other. By default each mask is predicted while the others
            remain masked. With `joint`, the mask with the most confident prediction is filled first, and the other
            masks are predicted again. It takes as many passes as a text has masks.
        max_seq_length: longer texts are cut to this many tokens; by default the number of the model's positions.
        batch_size: texts computed at once.

    Returns:
        A `FilledText` for each text.

    Raises:
        InputError: a text has no [MASK], or one that is cut off; a target is not a single token of the vocabulary; an
            argument is out of range; or the model has no masked-LM head or no vocabulary.

    Example:
        model = MaskedLM.from_pretrained("uncased_L-12_H-768_A-12")
        print(fill_masks(model, "Paris is the [MASK] of France.")[0])
    """
    check_masked_lm(model)
    texts = checked_texts(texts)
    if targets is not None:
        candidates = target_ids(targets, model.tokenizer)
        top_k = len(candidates)
    else:
        candidates = np.arange(model.config.vocab_size)
        check_whole("top_k", top_k, at_least=1, at_most=len(model.vocabulary))
    rows = masked_rows(texts, tokenizer_of(model), checked_length(model.config, max_seq_length))

    def best(_, log_probabilities: np.ndarray) -> Best:
        probabilities, columns = best_tokens(log_probabilities[:, candidates], top_k)
        return probabilities, candidates[columns]

    if joint:
        found = _fill_the_surest_first(model, rows, best, batch_size)
    else:
        found = score_masks(model, [row.ids for row in rows], [row.positions for row in rows], best, batch_size)
    return filled_texts(mask_arrays(rows, found, model.tokenizer.tokens), {"text": texts}, model.tokenizer) or []


def mask_arrays(rows: Sequence[MaskedRow], found: Sequence[Best], tokens: Sequence[str]) -> dict[str, list]:
    """Returns the arrays of `filled_texts`, a list for each text, from the best tokens at the masks of each row."""
    ids = [ids.tolist() for _, ids in found]
    return {
        "positions": [row.positions.tolist() for row in rows],
        "tokens": [[[tokens[token_id] for token_id in of_mask] for of_mask in of_text] for of_text in ids],
        "probabilities": [probabilities.tolist() for probabilities, _ in found],
        "token_ids": ids,
        "starts": [row.starts for row in rows],
    }


def _fill_the_surest_first(model, rows: list[MaskedRow], best, batch_size: int) -> list[Best]:
    ids = [row.ids.copy() for row in rows]
    left = [list(range(len(row.positions))) for row in rows]
    found: list[list] = [[None] * len(row.positions) for row in rows]
    while open_rows := [number for number, masks in enumerate(left) if masks]:
        positions = [rows[number].positions[left[number]] for number in open_rows]
        answers = score_masks(model, [ids[number] for number in open_rows], positions, best, batch_size)
        for number, (probabilities, tokens) in zip(open_rows, answers, strict=True):
            place = int(probabilities[:, 0].argmax())
            mask = left[number].pop(place)
            found[number][mask] = probabilities[place], tokens[place]
            ids[number][rows[number].positions[mask]] = tokens[place, 0]
    return [(np.stack(one), np.stack(other)) for one, other in (zip(*of_text, strict=True) for of_text in found)]


@dataclasses.dataclass(frozen=True)
class PseudoPerplexity:
    """How well a model predicts the tokens of N texts.

    Attributes:
        perplexity: exp(-mean log-likelihood of a token), over all texts together.
        log_likelihoods: float64 (N,), the sum over the tokens of each text (natural logarithm).
        num_tokens: int64 (N,), the number of scored tokens of each text.
        num_cut: number of texts that were too long, so that only their beginning was scored.
    """

    perplexity: float
    log_likelihoods: np.ndarray
    num_tokens: np.ndarray
    num_cut: int


def pseudo_perplexity(
    model: Any, texts: Any, *, max_seq_length: int | None = None, batch_size: int = 32
) -> PseudoPerplexity:
    """Masks each token of the texts in turn and sums up the log-probabilities of the masked tokens.

    It takes one forward pass for every token. Pseudo-perplexities cannot be compared between models with different
    vocabularies, nor with perplexities of left-to-right models, since here a token is predicted from both sides.

    Args:
        model: a `MaskedLM` or `BertPretrainer` with a vocabulary.
        texts: a string or several.
        max_seq_length: longer texts are cut to this many tokens, see `num_cut`.
        batch_size: masked copies of texts computed at once.

    Raises:
        InputError: a text has no tokens, or the model has no masked-LM head or no vocabulary.

    Reference: Salazar et al., 2020, Masked Language Model Scoring, section 2.
    """
    check_masked_lm(model)
    texts = checked_texts(texts)
    length, mask_id = checked_length(model.config, max_seq_length), model.vocabulary.mask_id
    rows, is_cut, _ = text_rows(texts, None, tokenizer_of(model), length)
    sums, counts = np.zeros(len(texts)), rows.lengths - 2
    if not counts.all():
        number = int(counts.argmin())
        raise InputError(f"Text {number + 1} has no tokens, so it has no likelihood. Received: {texts[number]!r}")
    for number, row in enumerate(np.split(rows.tokens[features.INPUT_IDS], rows.splits[1:-1])):
        columns = np.arange(1, len(row) - 1)
        masked = np.repeat(row[None], len(columns), axis=0)
        masked[columns - 1, columns] = mask_id

        def of_the_token(place: int, scores: np.ndarray, row=row):
            return scores[0, row[place + 1]]

        found = score_masks(model, list(masked), list(columns[:, None]), of_the_token, batch_size)
        sums[number] = np.sum(found, dtype=np.float64)
    return PseudoPerplexity(float(np.exp(-sums.sum() / counts.sum())), sums, counts, int(is_cut.sum()))
