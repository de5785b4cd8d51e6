"""Converts start and end logits to answers: spans of the context with probabilities, offsets and an n-best list.

Answers are selected as in google-research/bert `run_squad.py` (`write_predictions`), for many windows at once. The text
of an answer is the part of the context that its tokens come from.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tasks.question_answering.rows import Windows

# The number of windows whose candidates are computed together. A window has 400: the 20 best starts x 20 best ends.
_WINDOWS_AT_ONCE = 1024
# The null score difference of a context without tokens. Finite, since JSON has no infinity.
NOTHING_TO_SAY = 1e6


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """One of the best answers to a question.

    Attributes:
        text: `context[start:end]`; empty for "there is no answer".
        start, end: the first character in the context and the one after the last; None for "there is no answer".
        probability: the probability among the candidates of the question.
        start_logit, end_logit: the logits of the first and the last token. Their sum is the score.
    """

    text: str
    start: int | None
    end: int | None
    probability: float
    start_logit: float
    end_logit: float


@dataclasses.dataclass(frozen=True)
class FoundAnswer:
    """The answer of a model to a question.

    Attributes:
        text: `context[start:end]`; empty when there is no answer.
        start, end: the first character in the context and the one after the last; None when there is no answer.
        probability: the probability of this answer among `nbest`.
        null_score_difference: the score of no answer minus that of the best answer. If it exceeds the threshold, there
            is no answer. None from a model that always answers.
        nbest: the best candidates, the best first.
    """

    text: str
    start: int | None
    end: int | None
    probability: float
    null_score_difference: float | None = None
    nbest: tuple[Candidate, ...] = dataclasses.field(default=(), repr=False)

    @property
    def has_answer(self) -> bool:
        return self.text != ""

    @property
    def best_text(self) -> str:
        """The text of the best candidate that is not empty, regardless of the threshold."""
        return next((candidate.text for candidate in self.nbest if candidate.text), "")

    def with_threshold(self, null_threshold: float) -> "FoundAnswer":
        """Returns the answer for another threshold. The model must be one that may give no answer."""
        text = self.best_text if self.null_score_difference <= null_threshold else ""
        chosen = next(candidate for candidate in self.nbest if candidate.text == text)
        return dataclasses.replace(self, text=text, start=chosen.start, end=chosen.end, probability=chosen.probability)


@dataclasses.dataclass(frozen=True)
class AnswerOptions:
    """How answers are selected.

    Args:
        n_best_size: the number of best starts and of best ends of a window that are combined, and of answers to keep.
        max_answer_length: maximum tokens of an answer.
        null_threshold: the answer is "none" if the score of no answer exceeds that of the best answer by more than
            this. None: every question gets an answer, as in SQuAD 1.1.

    Raises:
        InputError: a number is below 1, or the threshold is NaN.
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    null_threshold: float | None = None

    def __post_init__(self):
        if self.n_best_size < 1 or self.max_answer_length < 1:
            raise InputError(
                "n_best_size and max_answer_length must be 1 or more. "
                f"Received: {self.n_best_size} and {self.max_answer_length}"
            )
        if self.null_threshold is not None and math.isnan(self.null_threshold):
            raise InputError("The threshold for no answer must be a number. Received: NaN")


def find_answers(
    windows: Windows,
    contexts: Sequence[str],
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    options: AnswerOptions,
) -> list[FoundAnswer]:
    """Returns the answers to Q questions.

    The candidates of a window are combinations of its best starts and ends. They lie inside the context, have at most
    `max_answer_length` tokens, and begin at a token that no other window shows with more context. The candidates of all
    windows of a question compete; candidates with the same text count as one. If no combination is valid, all valid
    spans are searched for the best one.

    Args:
        windows: W windows with T tokens in total.
        contexts: Q strings.
        start_logits, end_logits: float (T,), aligned with the tokens of `windows.rows`.
        options: how answers are selected.

    Raises:
        InputError: a logit is not a finite number.
    """
    for logits in (start_logits, end_logits):
        if not np.isfinite(logits).all():
            raise InputError(
                "The model gives scores that are not finite numbers (NaN or infinite). Was it trained with too high a "
                "learning rate?"
            )
    window_splits = np.searchsorted(windows.question, np.arange(len(windows.context_of) + 1))
    found = []
    first = 0
    while first < len(contexts):
        stop = int(np.searchsorted(window_splits, window_splits[first] + _WINDOWS_AT_ONCE, side="right")) - 1
        stop = max(stop, first + 1)
        batch = _Batch(windows, window_splits[first : stop + 1], start_logits, end_logits)
        candidates = _candidates(batch, options)
        nulls = _null_scores(batch)
        for number in range(first, stop):
            spans = _distinct(_best_first(candidates, batch, number - first), contexts[number], options)
            spans = spans or _distinct(_exhaustive(batch, number - first, options), contexts[number], options)
            found.append(_answer(spans, nulls[number - first], options))
        first = stop
    return found


# (text, start character, end character, start logit, end logit)
_Span = tuple[str, int | None, int | None, float, float]


class _Batch:
    """The v windows of some questions. The first axis of all arrays is the window."""

    def __init__(self, windows: Windows, window_splits: np.ndarray, start_logits: np.ndarray, end_logits: np.ndarray):
        part = slice(window_splits[0], window_splits[-1])
        self.splits = window_splits - window_splits[0]  # the windows of each question
        self.first_question = int(windows.question[part.start])
        self.question = windows.question[part] - self.first_question
        self.first_column = windows.first_column[part]
        # The index, among all context tokens, that column 0 would have if the context began there.
        context = windows.context_of[windows.question[part]]
        self.first_place = windows.contexts.splits[context] + windows.first_token[part] - self.first_column
        self.token_starts, self.token_ends = windows.contexts.starts, windows.contexts.ends
        row_splits = windows.rows.splits[part.start : part.stop + 1]
        self.logits = [_padded(logits, row_splits) for logits in (start_logits, end_logits)]
        token = np.arange(self.logits[0].shape[1]) - self.first_column[:, None]
        # A question without tokens ([CLS] [SEP] context) has no answer.
        asks = self.first_column > windows.options.num_special - 1
        self.in_context = asks[:, None] & (token >= 0) & (token < windows.num_tokens[part][:, None])
        self.may_begin = self.in_context & self._has_best_window(windows, part, token)

    def _has_best_window(self, windows: Windows, part: slice, token: np.ndarray) -> np.ndarray:
        """Returns bool (v, S): whether no other window shows the context token with more context."""
        best, token_splits = windows.best_window
        number = np.arange(len(self.question)) - self.splits[self.question]
        token_numbers = (token_splits[windows.question[part]] + windows.first_token[part])[:, None] + token
        result = np.zeros(token.shape, bool)
        result[self.in_context] = best[token_numbers[self.in_context]] == number.repeat(self.in_context.sum(axis=1))
        return result


def _padded(values: np.ndarray, splits: np.ndarray) -> np.ndarray:
    """Pads flat rows with -inf; returns float64 (rows, longest)."""
    lengths = np.diff(splits)
    is_real = np.arange(lengths.max()) < lengths[:, None]
    result = np.full(is_real.shape, -np.inf)
    result[is_real] = values[splits[0] : splits[-1]]
    return result


def _candidates(batch: _Batch, options: AnswerOptions) -> dict[str, np.ndarray]:
    """Returns the valid candidates: arrays `window`, `start`, `end` (columns), (c,), by question, the best first.

    Ties are in the order of window, start and end, as in Google's stable sort.
    """
    starts, ends = (np.argsort(-logits, axis=1, kind="stable")[:, : options.n_best_size] for logits in batch.logits)
    may_begin = np.take_along_axis(batch.may_begin, starts, axis=1)
    may_end = np.take_along_axis(batch.in_context, ends, axis=1)
    length = ends[:, None, :] - starts[:, :, None] + 1
    is_possible = may_begin[:, :, None] & may_end[:, None, :]
    is_possible &= (length >= 1) & (length <= options.max_answer_length)
    window, start_rank, end_rank = np.nonzero(is_possible)
    start, end = starts[window, start_rank], ends[window, end_rank]
    score = batch.logits[0][window, start] + batch.logits[1][window, end]
    order = np.lexsort((-score, batch.question[window]))
    question = batch.question[window[order]]
    return {
        "window": window[order],
        "start": start[order],
        "end": end[order],
        "splits": np.searchsorted(question, np.arange(len(batch.splits))),
    }


def _best_first(candidates: dict[str, np.ndarray], batch: _Batch, question: int) -> Iterator[tuple]:
    """Yields the window and the columns of the candidates of a question, in blocks of arrays."""
    first, stop = candidates["splits"][question : question + 2]
    for begin in range(first, stop, 64):
        part = slice(begin, min(begin + 64, stop))
        yield from _spelt_out(batch, *(candidates[name][part] for name in ("window", "start", "end")))


def _exhaustive(batch: _Batch, question: int, options: AnswerOptions) -> Iterator[tuple]:
    """Yields the best of all valid spans for a question; nothing if the context has no tokens."""
    best = (-np.inf, 0, 0, 0)
    for window in range(batch.splits[question], batch.splits[question + 1]):
        starts = np.where(batch.may_begin[window], batch.logits[0][window], -np.inf)
        ends = np.where(batch.in_context[window], batch.logits[1][window], -np.inf)
        for longer in range(min(options.max_answer_length, len(starts))):
            scores = starts[: len(starts) - longer] + ends[longer:]
            start = int(np.argmax(scores))
            if scores[start] > best[0]:
                best = (scores[start], window, start, start + longer)
    if best[0] > -np.inf:
        yield from _spelt_out(batch, *(np.array([value]) for value in best[1:]))


def _spelt_out(batch: _Batch, window: np.ndarray, start: np.ndarray, end: np.ndarray) -> Iterator[tuple]:
    """Yields (first character, character after the last, start logit, end logit) of each candidate."""
    first_place = batch.first_place[window]
    return zip(
        batch.token_starts[first_place + start].tolist(),
        batch.token_ends[first_place + end].tolist(),
        batch.logits[0][window, start].tolist(),
        batch.logits[1][window, end].tolist(),
        strict=True,
    )


def _distinct(candidates: Iterator[tuple], context: str, options: AnswerOptions) -> list[_Span]:
    """Returns the best candidates with different texts."""
    spans, seen = [], set()
    for start, end, start_logit, end_logit in candidates:
        text = context[start:end]
        if text.strip() and text not in seen:
            seen.add(text)
            spans.append((text, start, end, start_logit, end_logit))
            if len(spans) == options.n_best_size:
                break
    return spans


def _null_scores(batch: _Batch) -> list[tuple[float, float]]:
    """Returns the logits of [CLS] for each question, from the window where their sum is lowest."""
    starts, ends = (logits[:, 0] for logits in batch.logits)
    lowest = np.lexsort((starts + ends, batch.question))[batch.splits[:-1]]
    return list(zip(starts[lowest].tolist(), ends[lowest].tolist(), strict=True))


def _answer(spans: list[_Span], null: tuple[float, float], options: AnswerOptions) -> FoundAnswer:
    best = spans[0] if spans else None
    if options.null_threshold is None:
        nbest = _with_probabilities(spans)
        chosen = nbest[0] if nbest else Candidate("", None, None, 1.0, 0.0, 0.0)
        return FoundAnswer(chosen.text, chosen.start, chosen.end, chosen.probability, None, nbest)
    entries = sorted([*spans, ("", None, None, *null)], key=lambda span: -(span[3] + span[4]))[: options.n_best_size]
    # The n-best list always includes the best span and "no answer".
    entries += [
        span for span in (best, ("", None, None, *null)) if span and span[0] not in {text for text, *_ in entries}
    ]
    nbest = _with_probabilities(entries)
    difference = null[0] + null[1] - best[3] - best[4] if best else NOTHING_TO_SAY
    return FoundAnswer("", None, None, 0.0, difference, nbest).with_threshold(options.null_threshold)


def _with_probabilities(spans: list[_Span]) -> tuple[Candidate, ...]:
    """Returns candidates with probabilities: the softmax over these scores only, as in google-research/bert."""
    scores = [start_logit + end_logit for *_, start_logit, end_logit in spans]
    highest = max(scores, default=0.0)
    exponentials = [math.exp(score - highest) for score in scores]
    total = sum(exponentials)
    return tuple(
        Candidate(text, start, end, value / total, start_logit, end_logit)
        for (text, start, end, start_logit, end_logit), value in zip(spans, exponentials, strict=True)
    )
