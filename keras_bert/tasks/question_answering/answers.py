"""The answers of `SpanClassifier`: spans of the context with probabilities, offsets and an n-best list.

The text of an answer is the part of the context that its tokens come from.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.printing import printable
from keras_bert.tasks import answer_operations
from keras_bert.tasks.question_answering.answer_spans import AnswerOptions, best_spans
from keras_bert.tasks.question_answering.rows import Windows
from keras_bert.tasks.served_values import characters_of, padded, rows_of, text_of

# Characters around an answer that are shown with it.
_AROUND = 80
# The null score difference of a context without tokens. Finite, since JSON has no infinity.
NOTHING_TO_SAY = 1e6
# What unused entries have in the columns of answers; 0 in others.
_UNUSED = {"answers": "", "starts": -1, "ends": -1}


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
        """Returns the answer for another threshold. Raises `InputError` if the model always answers."""
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


def answer_arrays(
    spans: Mapping[str, Any], nulls: Mapping[str, Any], options: AnswerOptions, ops: Any = answer_operations
) -> dict[str, Any]:
    """Returns the answers to Q questions, arrays by name, from the best spans of each.

    Args:
        spans: `[Q, N + 1]` each: `answers`, the different texts, those with the best scores first; their `starts`,
            `ends` and `score`, float64; and other columns. Unused entries, such as the last one of each row, have the
            score -inf, the text "", and the place -1.
        nulls: the values of "no answer" in these columns, `[Q]` each, where they are not those of unused entries.
        options: how answers are selected.
        ops: the module with the operations on such arrays.

    Returns:
        the `answer` `[Q]`, "" if there is none, its `start`, `end` and `probability`; the n best, `[Q, n]`, in the
        columns of `spans`, with their `probabilities`, and `is_null`, which marks "no answer"; and with a threshold
        `null_score_difference` `[Q]`.
    """
    place = ops.columns_of(spans["score"])
    last = ops.largest(place)
    with_nulls = {name: ops.where(place == last, nulls[name][:, None], spans[name]) for name in nulls}
    columns = {**spans, **with_nulls}
    order = ops.descending(columns["score"])
    columns = {name: ops.take_along(values, order, 1) for name, values in columns.items()}
    score, is_null = columns.pop("score"), order == last
    is_best = (order == 0) & ~is_null & (score > -np.inf)
    # "No answer" and the best span are always kept. Only the last column can have another entry too many.
    is_kept = (score > -np.inf) & ((place < options.n_best_size) | is_null | is_best)
    score, is_null = ops.where(is_kept, score, -np.inf), is_null & is_kept
    # The softmax over these scores only, as in google-research/bert.
    highest = ops.largest(score)
    exponentials = ops.exp(score - ops.where(highest > -np.inf, highest, 0.0)[:, None])
    totals = ops.total(exponentials)
    columns["probabilities"] = exponentials / ops.where(totals > 0, totals, 1.0)[:, None]

    best_score, more = ops.largest(ops.where(is_best, score, -np.inf)), {}
    is_answered = best_score > -np.inf
    if options.null_threshold is not None:
        difference = ops.where(is_answered, nulls["score"] - best_score, NOTHING_TO_SAY)
        is_answered &= difference <= options.null_threshold
        more = {"null_score_difference": difference}
    is_chosen = ops.where(is_answered[:, None], is_best, is_null)
    index, has_entry = ops.argmax(is_chosen)[:, None], ops.total(is_chosen) > 0

    def chosen(name, nothing):
        return ops.where(has_entry, ops.take_along(columns[name], index, 1)[:, 0], nothing)

    width = ops.largest(ops.total(is_kept))
    return {
        "answer": chosen("answers", ""),
        "start": chosen("starts", -1),
        "end": chosen("ends", -1),
        "probability": chosen("probabilities", 1.0),
        **{name: ops.where(is_kept, values, _UNUSED.get(name, 0.0))[:, :width] for name, values in columns.items()},
        "is_null": is_null[:, :width],
        **more,
    }


def span_columns(
    windows: Windows, contexts: Sequence[str], start_logits: np.ndarray, end_logits: np.ndarray, options: AnswerOptions
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns `spans` and `nulls` of `answer_arrays` for Q questions, with the columns `start_logits` and `end_logits`.

    The candidates of a window are combinations of its best starts and ends. They lie inside the context, have at most
    `max_answer_length` tokens, and begin at a token that no other window shows with more context. The candidates of all
    windows of a question compete; candidates with the same text count as one. If no combination is valid, all valid
    spans are searched for the best one.

    The logits are float (T,), aligned with the T tokens of `windows.rows`. Raises `InputError` if one is not a finite
    number.
    """
    found, nulls = zip(*best_spans(windows, contexts, start_logits, end_logits, options), strict=True)
    unused = ("", -1, -1, -np.inf, -np.inf)
    names = ("answers", "starts", "ends", "start_logits", "end_logits")
    rows = padded(
        [[*spans, unused] for spans in found],
        {name: (nothing, None) for name, nothing in zip(names, unused, strict=True)},
    )
    columns = {name: np.array(values, object if name == "answers" else None) for name, values in rows.items()}
    columns["score"] = columns["start_logits"] + columns["end_logits"]
    logits = dict(zip(("start_logits", "end_logits"), np.array(nulls).T, strict=True))
    score = logits["start_logits"] + logits["end_logits"]
    return columns, {**logits, "score": score if options.null_threshold is not None else np.full_like(score, -np.inf)}


def answers_of(arrays: Mapping[str, np.ndarray]) -> list[FoundAnswer]:
    """Returns the answers in the result of `answer_arrays`, whose places are characters."""
    return [_found_answer(row) for row in rows_of(arrays)]


def found_answers(arrays: Mapping[str, np.ndarray], inputs: Mapping) -> list[FoundAnswer] | None:
    """Returns the answers in the outputs of a served question answerer; None if the outputs are those of another task.

    The answers count characters of the `context` in `inputs`.
    """
    if not arrays.keys() >= {"answer", "start", "end", "answers", "starts", "ends"} or "context" not in inputs:
        return None
    rows = zip(rows_of(arrays), inputs["context"], strict=True)
    return [_found_answer(row, context) for row, context in rows]


def _found_answer(row: Mapping[str, Any], context: str | bytes | None = None) -> FoundAnswer:
    """Returns the answer in a row, whose places are characters, or bytes of a context."""

    def places(starts, ends) -> list[tuple]:
        """Returns the first character and the one after the last; (None, None) where these are -1."""
        pairs = zip(starts, ends, strict=True) if context is None else characters_of(context, starts, ends)
        found = zip(starts, pairs, strict=True)
        return [(int(start), int(end)) if at >= 0 else (None, None) for at, (start, end) in found]

    count = len(row["answers"])
    is_null = row.get("is_null", np.zeros(count, bool))
    logits = (row[name].tolist() if name in row else [None] * count for name in ("start_logits", "end_logits"))
    columns = (row["answers"], places(row["starts"], row["ends"]), is_null, row["probabilities"], *logits)
    nbest = tuple(
        Candidate(text_of(text), start, end, float(probability), start_logit, end_logit)
        for text, (start, end), is_none, probability, start_logit, end_logit in zip(*columns, strict=True)
        if start is not None or is_none
    )
    [(start, end)] = places([row["start"]], [row["end"]])
    difference = float(row["null_score_difference"]) if "null_score_difference" in row else None
    return FoundAnswer(text_of(row["answer"]), start, end, float(row["probability"]), difference, nbest)


def _excerpt(context: str, start: int, end: int) -> str:
    """Returns an answer in [[ ]] with the text around it, cut at spaces."""
    before, after = context[:start], context[end:]
    if len(before) > _AROUND:
        before = f"... {before[-_AROUND:].partition(' ')[2]}"
    if len(after) > _AROUND:
        after = f"{after[:_AROUND].rpartition(' ')[0]} ..."
    return f"{printable(before)}[[{printable(context[start:end])}]]{printable(after)}"
