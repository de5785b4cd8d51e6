"""The answers of `SpanClassifier`: spans of the context with probabilities, offsets and an n-best list.

The text of an answer is the part of the context that its tokens come from.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.printing import printable
from keras_bert.tasks.question_answering.answer_spans import NOTHING_TO_SAY, AnswerOptions, Span, best_spans
from keras_bert.tasks.question_answering.rows import Windows
from keras_bert.tasks.served_values import characters_of, rows_of, text_of

# Characters around an answer that are shown with it.
_AROUND = 80


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """One of the best answers to a question.

    Attributes:
        text: `context[start:end]`; empty for "there is no answer".
        start, end: the first character in the context and the one after the last; None for "there is no answer".
        probability: the probability among the candidates of the question.
        start_logit, end_logit: the logits of the first and the last token. Their sum is the score. None from a server.
    """

    text: str
    start: int | None
    end: int | None
    probability: float
    start_logit: float | None
    end_logit: float | None


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
        """Returns the answer for another threshold.

        Raises:
            InputError: the answer is of a model that always answers.
        """
        if self.null_score_difference is None:
            raise InputError(
                "This answer has no null_score_difference: its model always answers. Leave the threshold out."
            )
        text = self.best_text if self.null_score_difference <= null_threshold else ""
        chosen = next(candidate for candidate in self.nbest if candidate.text == text)
        return dataclasses.replace(self, text=text, start=chosen.start, end=chosen.end, probability=chosen.probability)

    def readable(self, asked: Mapping | None = None) -> str:
        """Returns a line for the answer, and one for each other candidate.

        Args:
            asked: with "context", the answer comes first with the text around it.
        """
        others = [candidate for candidate in self.nbest if candidate.text != self.text]
        lines = [f"  {self.text or '(no answer)'}  {self.probability:.4f}"]
        lines += [f"    {one.text or '(no answer)'}  {one.probability:.4f}" for one in others]
        if self.start is not None and self.end is not None and asked and "context" in asked:
            lines.insert(0, f"  {_excerpt(text_of(asked['context']), self.start, self.end)}")
        return "\n".join(lines)


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
    spans = best_spans(windows, contexts, start_logits, end_logits, options)
    return [_answer(found, null, options) for found, null in spans]


def found_answers(arrays: Mapping[str, np.ndarray], inputs: Mapping) -> list[FoundAnswer] | None:
    """Returns the answers in the outputs of a served question answerer; None if the outputs are those of another task.

    Args:
        inputs: `context`, whose characters the answers count.
    """
    needed = {"answer", "start", "end", "probability", "answers", "starts", "ends", "probabilities"}
    if not arrays.keys() >= needed or "context" not in inputs:
        return None
    return [_served_answer(row, context) for row, context in zip(rows_of(arrays), inputs["context"], strict=True)]


def _served_answer(row: Mapping[str, Any], context: str | bytes) -> FoundAnswer:
    is_null = row.get("is_null", np.zeros(len(row["answers"]), bool))
    columns = (row["answers"], _places(context, row["starts"], row["ends"]), is_null, row["probabilities"])
    nbest = tuple(
        Candidate(text_of(text), start, end, float(probability), None, None)
        for text, (start, end), is_none, probability in zip(*columns, strict=True)
        if start is not None or is_none
    )
    [(start, end)] = _places(context, [row["start"]], [row["end"]])
    difference = float(row["null_score_difference"]) if "null_score_difference" in row else None
    return FoundAnswer(text_of(row["answer"]), start, end, float(row["probability"]), difference, nbest)


def _places(context: str | bytes, starts: Sequence[int], ends: Sequence[int]) -> list[tuple[int | None, int | None]]:
    """Returns the characters for pairs of byte offsets; (None, None) where these are -1."""
    places = characters_of(context, starts, ends)
    return [place if start >= 0 else (None, None) for start, place in zip(starts, places, strict=True)]


def _excerpt(context: str, start: int, end: int) -> str:
    """Returns an answer in [[ ]] with the text around it, cut at spaces."""
    before, after = context[:start], context[end:]
    if len(before) > _AROUND:
        before = f"... {before[-_AROUND:].partition(' ')[2]}"
    if len(after) > _AROUND:
        after = f"{after[:_AROUND].rpartition(' ')[0]} ..."
    return f"{printable(before)}[[{printable(context[start:end])}]]{printable(after)}"


def _answer(spans: list[Span], null: tuple[float, float], options: AnswerOptions) -> FoundAnswer:
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


def _with_probabilities(spans: list[Span]) -> tuple[Candidate, ...]:
    """Returns candidates with probabilities: the softmax over these scores only, as in google-research/bert."""
    scores = [start_logit + end_logit for *_, start_logit, end_logit in spans]
    highest = max(scores, default=0.0)
    exponentials = [math.exp(score - highest) for score in scores]
    total = sum(exponentials)
    return tuple(
        Candidate(text, start, end, value / total, start_logit, end_logit)
        for (text, start, end, start_logit, end_logit), value in zip(spans, exponentials, strict=True)
    )
