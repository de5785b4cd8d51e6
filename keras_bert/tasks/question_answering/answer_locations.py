"""Locates the answers of training data among the tokens of the windows, and reports those that do not fit."""

from collections.abc import Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tasks.question_answering.examples import QuestionExamples, find_answer
from keras_bert.tasks.question_answering.rows import Windows

# The most question ids that a note lists.
_MOST_NAMES = 5


def check_training_questions(train: QuestionExamples, version_2_with_negative: bool) -> None:
    """Raises `InputError` if no question has an answer, or if one has none without `version_2_with_negative`."""
    if not any(train.answers):
        raise InputError(f"{train.source}: no question has an answer. There is nothing to train on.")
    without = next((name for name, answers in zip(train.ids, train.answers, strict=True) if not answers), None)
    if without is not None and not version_2_with_negative:
        raise InputError(
            f"{train.source}: the question {without!r} has no answer. If some questions are meant to have none, as in "
            "SQuAD 2.0, say so: --version_2_with_negative"
        )


def locate_answers(
    examples: QuestionExamples, windows: Windows
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Sequence[str]]:
    """Finds the first answer of each of Q questions in its W windows.

    Returns:
        the columns at which answers begin and end, int (W,) each. They are 0 for windows that do not contain the whole
        answer: as in google-research/bert, the model is trained to find no answer there. Then bool (Q,), false for
        questions that cannot be used for training: they have an answer, but it is not in the context or has no tokens.
        And sentences that report how many answers did not fit, and why.
    """
    spans, found, lost, moved, without_tokens, cut = [], [], [], [], [], []
    for number, answers in enumerate(examples.answers):
        answer = answers[0] if answers else None
        span = answer and find_answer(examples.contexts[number], answer)
        place = windows.tokens_of(number, span)
        spans.append(span)
        if answer and span is None:
            lost.append(number)
        elif answer and place is None:
            without_tokens.append(number)
        elif answer:
            found.append(number)
            starts, ends = windows.offsets(number)
            if span[0] != answer.start:
                moved.append(number)
            if starts[place[0]] < span[0] or ends[place[1]] > span[1]:
                cut.append(number)
    starts, ends = windows.positions(spans)
    is_seen = np.zeros(len(examples), bool)
    is_seen[windows.question[starts > 0]] = True
    unseen = [number for number in found if not is_seen[number]]
    is_known = np.ones(len(examples), bool)
    is_known[lost + without_tokens] = False
    kinds = [
        (lost, "have an answer that is not in their context: they are not used for training"),
        (without_tokens, "have an answer without tokens: they are not used for training"),
        (moved, "have an answer that is not at its answer_start: the nearest occurrence is used"),
        (cut, "have an answer that begins or ends inside a token: the whole token is used"),
        (unseen, "have an answer that no window contains in full: their windows are trained as having no answer"),
    ]
    return starts, ends, is_known, [_note(examples, *kind) for kind in kinds if kind[0]]


def _note(examples: QuestionExamples, numbers: list[int], what: str) -> str:
    names = ", ".join(map(str, (examples.ids[number] for number in numbers[:_MOST_NAMES])))
    more = ", ..." if len(numbers) > _MOST_NAMES else ""
    return f"{examples.source}: {len(numbers)} of {len(examples)} questions {what} ({names}{more})"
