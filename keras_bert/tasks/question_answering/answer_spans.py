"""Finds the best spans of contexts, as google-research/bert `run_squad.py` (`write_predictions`), for many windows."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, documented, option
from keras_bert.tasks.question_answering.rows import Windows

# The number of windows whose candidates are computed together. A window has 400: the 20 best starts x 20 best ends.
_WINDOWS_AT_ONCE = 1024


@dataclasses.dataclass(frozen=True)
class AnswerOptions(Options):
    """How answers are selected.

    Args:
        n_best_size: the number of best starts and of best ends of a window that are combined, and of answers to keep.
        max_answer_length: maximum tokens of an answer.
        null_threshold: the answer is "none" if the score of no answer exceeds that of the best answer by more than
            this. None: every question gets an answer, as in SQuAD 1.1.
    """

    n_best_size: int = option(20, at_least=1)
    max_answer_length: int = option(30, at_least=1)
    null_threshold: float | None = None


# (text, start character, end character, start logit, end logit)
Span = tuple[str, int | None, int | None, float, float]


def best_spans(
    windows: Windows,
    contexts: Sequence[str],
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    options: AnswerOptions,
) -> Iterator[tuple[list[Span], tuple[float, float]]]:
    """Yields for each question the best spans with different texts, the best first, and the two logits of no answer.

    The arguments are those of `span_columns` in `answers.py`.
    """
    if not np.isfinite(start_logits).all() or not np.isfinite(end_logits).all():
        raise InputError(
            "The model gives scores that are not finite numbers (NaN or infinite). Was it trained with too high a "
            "learning rate?"
        )
    window_splits = np.searchsorted(windows.question, np.arange(len(windows.context_of) + 1))
    first = 0
    while first < len(contexts):
        stop = int(np.searchsorted(window_splits, window_splits[first] + _WINDOWS_AT_ONCE, side="right")) - 1
        stop = max(stop, first + 1)
        batch = _Batch(windows, window_splits[first : stop + 1], start_logits, end_logits)
        candidates, splits = _candidates(batch, options)
        nulls = _null_scores(batch)
        for number in range(first, stop):
            places = splits[number - first : number - first + 2]
            spans = _distinct(_best_first(candidates, batch, *places), contexts[number], options)
            spans = spans or _distinct(_exhaustive(batch, number - first, options), contexts[number], options)
            yield spans, nulls[number - first]
        first = stop


class _Batch:
    """The v windows of some questions. The first axis of all arrays is the window."""

    def __init__(self, windows: Windows, window_splits: np.ndarray, start_logits: np.ndarray, end_logits: np.ndarray):
        part = slice(window_splits[0], window_splits[-1])
        self.splits = window_splits - window_splits[0]  # the windows of each question
        self.question = windows.question[part] - windows.question[part.start]
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
        best, token_splits = windows.best_window
        token += (token_splits[windows.question[part]] + windows.first_token[part])[:, None]
        number = np.arange(len(self.question)) - self.splits[self.question]
        # -1 is the number of no window.
        self.may_begin = np.append(best, -1)[np.where(self.in_context, token, -1)] == number[:, None]


def _padded(values: np.ndarray, splits: np.ndarray) -> np.ndarray:
    """Pads flat rows with -inf; returns float64 (rows, longest)."""
    lengths = np.diff(splits)
    is_real = np.arange(lengths.max()) < lengths[:, None]
    result = np.full(is_real.shape, -np.inf)
    result[is_real] = values[splits[0] : splits[-1]]
    return result


def _candidates(batch: _Batch, options: AnswerOptions) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Returns window, start and end (columns) of the valid candidates, (c,) each, the best first, and the splits by
    question. Ties are in the order of window, start and end, as in Google's stable sort."""
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
    splits = np.searchsorted(question, np.arange(len(batch.splits)))
    return (window[order], start[order], end[order]), splits


def _best_first(candidates: Sequence[np.ndarray], batch: _Batch, first: int, stop: int) -> Iterator[tuple]:
    """Yields the candidates `first:stop`, which are computed in blocks: few of them are asked for."""
    for begin in range(first, stop, 64):
        yield from _spelt_out(batch, *(values[begin : min(begin + 64, stop)] for values in candidates))


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


def _distinct(candidates: Iterator[tuple], context: str, options: AnswerOptions) -> list[Span]:
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


@documented
@dataclasses.dataclass(frozen=True)
class QuestionAnsweringOptions(Options):
    """The options for questions and contexts. None stands for the model's own value."""

    version_2_with_negative: bool = option(False, "Whether some questions have no answer, as in SQuAD 2.0.")
    null_threshold: float | None = option(
        None,
        "No answer is given if its score exceeds the best answer's by more than this. Default: that of the model, at "
        "first 0.0.",
        flag="null_score_diff_threshold",
    )
    doc_stride: int | None = option(
        None, "Tokens between the starts of two windows. Default: that of the model, initially 128.", at_least=1
    )
    max_query_length: int | None = option(
        None, "Longer questions are cut to this many tokens. Default: that of the model, initially 64.", at_least=1
    )
    n_best_size: int = option(20, "The number of answers in nbest_predictions.json.", at_least=1)
    max_answer_length: int = option(30, "The largest number of tokens in an answer.", at_least=1)

    def model_arguments(self) -> dict[str, Any]:
        """Returns the options that the model's constructor takes."""
        threshold = 0.0 if self.version_2_with_negative and self.null_threshold is None else self.null_threshold
        values = {"null_threshold": threshold, "doc_stride": self.doc_stride, "max_query_length": self.max_query_length}
        return {name: value for name, value in values.items() if value is not None}
